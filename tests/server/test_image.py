"""--image: what is stored outlives the process, whole or not at all."""

import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import threading

import pytest

from harness.failures import nothing_wrong
from harness.memcached.values import is_value_of, value_of
from harness.server import run
from harness.tools import disk

COUNT = 5000


@pytest.fixture(
    params=[("--semantics", "cache"), ("--semantics", "store"), ("--access", "erew")],
    ids=lambda options: options[1],
)
def options(request, tmp_path):
    """Options of a server with an image."""
    return ["-t", "2", "-m", "96", "--image", tmp_path / "image", *request.param]


def put(connection, key, version):
    """Stores a version of each key."""
    requests = []
    for i in range(COUNT):
        name = b"%b-%d" % (key, i)
        value = value_of(name, 0, version)
        requests.append(b"set %b %d 0 %d noreply\r\n%b\r\n" % (name, i, len(value), value))
    connection.send(b"".join(requests) + b"mn\r\n")
    assert connection.line() == b"MN"


def everything(connection, key):
    """All that is there of the keys."""
    found = {}
    for at in range(0, COUNT, 100):
        names = b" ".join(b"%b-%d" % (key, i) for i in range(at, at + 100))
        found |= connection.values(b"get " + names + b"\r\n")
    return found


def end(server, number):
    """Ends it by a signal."""
    os.kill(server.pid, number)
    return server.wait_for_end()


def test_a_clean_end_keeps_everything(start, options, key):
    server = start(*options)
    for version in range(1, 4):
        with server.connect() as connection:
            put(connection, key, version)
            connection.send(b"delete %b-0\r\nset %b-short 0 1 1\r\nx\r\n" % (key, key))
            assert [connection.line(), connection.line()] == [b"DELETED", b"STORED"]
        assert end(server, signal.SIGTERM) == 0
        server = start(*options)
        assert "image" in server.stderr()
        with server.connect() as connection:
            expected = {
                b"%b-%d" % (key, i): (i, value_of(b"%b-%d" % (key, i), 0, version)) for i in range(1, COUNT)
            }
            assert everything(connection, key) == expected
            assert COUNT - 1 <= int(connection.stats()["curr_items"]) <= COUNT


def test_after_a_kill_everything_is_there(start, options, key):
    server = start(*options)
    with server.connect() as connection:
        put(connection, key, 1)
    end(server, signal.SIGKILL)
    with start(*options).connect() as connection:
        expected = {b"%b-%d" % (key, i): (i, value_of(b"%b-%d" % (key, i), 0, 1)) for i in range(COUNT)}
        assert everything(connection, key) == expected


def test_a_kill_under_load_leaves_no_wrong_value(start, options, key):
    """Each round writes new versions until it is killed; what is found afterwards is whole, and of its key.
    """
    for round_ in range(5):
        server = start(*options)
        began = threading.Event()

        def write():
            try:
                with server.connect() as connection:
                    for version in range(round_ * 1000, round_ * 1000 + 1000):
                        put(connection, key, version)
                        began.set()
            except (AssertionError, OSError):
                pass  # the server was killed, as it should be

        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        assert began.wait(30)
        end(server, signal.SIGKILL)
        for writer in writers:
            writer.join(30)
        server = start(*options)
        with server.connect() as connection:
            found = everything(connection, key)
            assert len(found) > COUNT * 0.9
            for name, (_, value) in found.items():
                nothing_wrong([] if is_value_of(name, value) else [(name, value[:100])])
        server.end()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (["-I", "2m"], "-I"),
        (["-M"], "--semantics"),
        (["--eviction", "fifo"], "--eviction"),
        (["--hash-seed", "5"], "--hash-seed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_another_option_is_refused_by_name(start, tmp_path, changed, reason):
    options = ["-p", "-1", "-t", "2", "-m", "96", "--image", tmp_path / "image"]
    server = start(*options)
    assert end(server, signal.SIGTERM) == 0
    ended = run(*options, *changed)
    # A service manager is not to try it again.
    assert ended.returncode == 64
    assert reason in ended.stderr and "panicked" not in ended.stderr
    assert start(*options, "-t", "4", "--access", "crew").alive()


def test_one_process_at_a_time(start, tmp_path):
    options = ["-t", "1", "--image", tmp_path / "image"]
    start(*options)
    ended = run("-p", "-1", *options)
    assert ended.returncode not in (0, None)
    assert "another process" in ended.stderr


def test_a_second_server_is_told_who_holds_the_image(start, tmp_path, key):
    """It names the process, invites nobody to remove anything, and the first server keeps its items."""
    image = tmp_path / "image"
    options = ["-t", "1", "-m", "64", "--image", image]
    first = start(*options)
    with first.connect() as connection:
        connection.set(key, b"x")
    for removed in [None, image / "lock"]:
        if removed:
            removed.unlink()  # as somebody might who takes it for stale
        ended = run("-p", "-1", *options)
        assert ended.returncode not in (0, None)
        assert f"process {first.pid} (" in ended.stderr and "--image" in ended.stderr
        for word in ["remove", "without its files", "rm ", "begins anew"]:
            assert word not in ended.stderr
    assert end(first, signal.SIGTERM) == 0
    with start(*options).connect() as connection:
        assert connection.get(key) == b"x"


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path):
    """In a directory where others may write, a link named `lock` once had its target truncated."""
    precious = tmp_path / "precious"
    precious.write_text("data")
    for name in ["lock", "partition-0000"]:
        image = tmp_path / f"image-{name}"
        image.mkdir()
        image.chmod(0o1777)
        (image / name).symlink_to(precious)
        ended = run("-p", "-1", "-t", "1", "-m", "64", "--image", image)
        assert ended.returncode not in (0, None)
        assert name in ended.stderr and "link" in ended.stderr
        assert precious.read_text() == "data"
    pid = tmp_path / "pid"
    pid.symlink_to(precious)
    ended = run("-p", "-1", "-t", "1", "-m", "64", "-P", pid)
    assert ended.returncode not in (0, None) and "link" in ended.stderr
    assert precious.read_text() == "data"


def test_a_directory_that_others_may_write_is_refused(tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    for option in [["--image", open_to_all], ["-P", open_to_all / "pid"]]:
        ended = run("-p", "-1", "-t", "1", "-m", "64", *option)
        assert ended.returncode not in (0, None)
        assert "others may write" in ended.stderr, option
    assert [path.name for path in open_to_all.iterdir()] == []


def test_sockets_may_lie_in_a_directory_that_others_may_write(start, tmp_path):
    """As memcached's may: nothing is written through them."""
    tmp_path.chmod(0o777)
    server = start("-t", "1", "-m", "64", "-s", tmp_path / "socket", "-a", "0600")
    assert len(server.routes()) >= 1  # by the control socket beside it
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.glob("socket*"))] == [0o600, 0o600]


@pytest.fixture
def reached_by_all():
    """A directory that every user can get to, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield pathlib.Path(path)


def test_a_mode_that_cannot_be_changed_is_called_that(reached_by_all):
    """The files of another user, open to all: that was called a lack of memory."""
    image = reached_by_all / "image"
    image.mkdir()
    options = ["-t", "1", "-m", "64", "--semantics", "store", "--image", image]
    ended = run("-p", "-1", *options, "-P", "/no/such/directory/pid")
    assert ended.returncode not in (0, None)
    for path in [image, *image.iterdir()]:
        shutil.chown(path, "nobody")
    for path in image.glob("partition-*"):
        shutil.chown(path, "root")
        path.chmod(0o666)
    ended = run("-p", "-1", *options, "-u", "nobody")
    assert ended.returncode not in (0, None)
    assert "its mode cannot be changed" in ended.stderr and "Less memory" not in ended.stderr, ended.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 32 MiB."""
    with disk.small_disk(tmp_path / "disk", 32 << 10) as path:
        yield path


def test_an_image_that_does_not_fit_its_disk_is_refused_at_the_start(start, small_disk, key):
    """The server takes the space at the start, so a full disk ends no running server. Nothing half made
    stays."""
    options = ["-t", "1", "--image", small_disk / "image"]
    ended = run("-p", "-1", *options, "-m", "64")
    assert ended.returncode not in (0, None)
    assert "64 MiB" in ended.stderr
    assert any(f"{free} MiB are free" in ended.stderr for free in (31, 32))
    assert list((small_disk / "image").glob("partition-*")) == []
    server = start(*options, "-m", "16")
    with open(small_disk / "filler", "wb") as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 65536)
            filler.flush()
    with server.connect() as connection:
        for number in range(100):
            connection.set(key + b"-%d" % number, b"y" * 200_000)
        assert connection.get(key + b"-99") == b"y" * 200_000
    assert end(server, signal.SIGTERM) == 0


def test_an_image_in_memory_that_the_machine_lacks_is_refused():
    """On tmpfs an image is memory: the server is refused before it takes any."""
    with open("/proc/meminfo") as meminfo:
        total_gib = int(meminfo.readline().split()[1]) >> 20
    image = pathlib.Path(f"/dev/shm/micanite-lacking-{os.getpid()}")
    ended = run("-p", "-1", "--image", image, "-m", f"{total_gib + 2}g")
    assert ended.returncode == 64 and "more than the memory of this machine" in ended.stderr
    assert not image.exists()


def change_word(path, word, value):
    """Writes a word of a partition (docs/partition-image.md)."""
    with open(path, "r+b") as file:
        file.seek(word * 8)
        file.write(value.to_bytes(8, "little"))


def words_of(image, word):
    """A word of each partition (docs/partition-image.md)."""
    found = []
    for path in sorted(image.glob("partition-*")):
        with open(path, "rb") as file:
            file.seek(word * 8)
            found.append(int.from_bytes(file.read(8), "little"))
    return found


@pytest.mark.parametrize(
    "refused",
    [
        ["--hash-seed", "5"],
        ["-P", "/no/such/directory/pid"],
        ["-s", "/no/such/directory/socket"],
        ["--control-socket", "/no/such/directory/ctl"],
    ],
    ids=lambda options: options[0],
)
def test_a_start_that_fails_leaves_the_image_complete(start, tmp_path, key, refused):
    """A store was once refused for good when the machine started anew after a start that had failed."""
    image = tmp_path / "image"
    options = ["-t", "2", "-m", "128", "--semantics", "store", "--image", image]
    server = start(*options)
    with server.connect() as connection:
        connection.set(key, b"x")
    assert end(server, signal.SIGTERM) == 0
    ended = run("-p", "-1" if "-s" not in refused else "0", *options, *refused)
    assert ended.returncode not in (0, None), ended.stderr
    for number, boot in enumerate(words_of(image, 57)):
        change_word(image / f"partition-{number:04}", 57, boot ^ 2)  # the machine starts anew
    with start(*options).connect() as connection:
        assert connection.get(key) == b"x"


@pytest.mark.parametrize("semantics", ["cache", "store"])
@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize(
    ("word", "name"),
    [(8, "Buckets"), (10, "DataEnd"), (59, "buckets at first"), (3, "partitions")],
    ids=str,
)
def test_a_damaged_image_is_refused_and_left_as_it_is(start, tmp_path, key, semantics, killed, word, name):
    """It says what is wrong, ends with status 1, and not a byte of the image changes."""
    options = ["-t", "1", "-m", "64", "--semantics", semantics, "--image", tmp_path / "image"]
    server = start(*options)
    with server.connect() as connection:
        connection.set(key, b"x")
    end(server, signal.SIGKILL if killed else signal.SIGTERM)
    first = tmp_path / "image" / "partition-0000"
    change_word(first, word, 0xC8 << 56)
    before = {file.name: file.read_bytes() for file in first.parent.iterdir()}
    ended = run("-p", "-1", *options)
    assert ended.returncode == 1
    assert name in ended.stderr and "damaged" in ended.stderr and "panicked" not in ended.stderr
    assert {file.name: file.read_bytes() for file in first.parent.iterdir()} == before
