"""The limit of the memory: it changes while the server runs (cache_memlimit, ctl memory), and a start with
another -m resizes the image."""

import contextlib
import os
import re
import signal
import threading

import pymemcache
import pytest

from harness.memory import MIB, resident_bytes
from harness.poll import until
from harness.server import run
from harness.tools import disk

VALUE = b"v" * 1000


def fill(connection, count, first=0):
    """Stores keys; returns how many were stored."""
    stored = 0
    for at in range(first, first + count, 500):
        numbers = range(at, min(at + 500, first + count))
        sets = [b"set key-%d %d 0 1000\r\n%b\r\n" % (number, number, VALUE) for number in numbers]
        connection.send(b"".join(sets))
        stored += [connection.line() for _ in numbers].count(b"STORED")
    return stored


def found(connection, numbers):
    """The numbers of the keys that are there, each with its own flags and value."""
    there = []
    numbers = list(numbers)
    for at in range(0, len(numbers), 100):
        names = b" ".join(b"key-%d" % number for number in numbers[at : at + 100])
        for name, (flags, value) in connection.values(b"get " + names + b"\r\n").items():
            assert value == VALUE and name == b"key-%d" % flags
            there.append(flags)
    return there


def has_followed(server, mib):
    """Returns whether the server has followed this limit."""
    return server.ctl("memory").stdout.startswith(f"limit {mib} MiB, at most ")


def end(server, number=signal.SIGTERM):
    os.kill(server.pid, number)
    return server.wait_for_end()


@pytest.mark.parametrize("image", [False, True], ids=["", "image"])
def test_a_lower_limit_gives_memory_back_and_a_higher_one_is_used(start, tmp_path, image):
    options = ["--image", tmp_path / "image"] if image else []
    options += ["--eviction", "fifo"]
    server = start("-t", "2", "-m", "64", "--memory-max", "128", *options)
    with server.connect() as connection:
        fill(connection, 80_000)
        before = resident_bytes(server.pid)
        connection.expect(b"cache_memlimit 24\r\n", b"OK\r\n")
        stats = connection.stats()
        assert int(stats["limit_maxbytes"]) == 24 * MIB
        assert int(connection.stats("settings")["maxbytes"]) == 24 * MIB
        until(lambda: has_followed(server, 24), "less memory")
        until(lambda: resident_bytes(server.pid) < before - 30 * MIB, "pages that went back")
        newest = found(connection, range(70_000, 80_000))
        assert len(newest) > 5000
        few = int(connection.stats()["curr_items"])
        assert few < 25_000
        assert server.ctl("memory", "128").stdout.startswith("memory: 24 MiB -> 128 MiB\nlimit 128 MiB")
        until(lambda: has_followed(server, 128), "more memory")
        fill(connection, 160_000, first=100_000)
        assert int(connection.stats()["curr_items"]) > 100_000
        assert len(found(connection, range(250_000, 260_000))) > 9000


def test_a_store_refuses_a_limit_below_what_it_holds(start):
    server = start("-t", "2", "-m", "64", "--memory-max", "96", "-M")
    with server.connect() as connection:
        assert fill(connection, 30_000) == 30_000
        connection.expect(
            b"cache_memlimit 16\r\n", b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n"
        )
        refused = server.ctl("memory", "16m")
        assert refused.returncode == 1
        assert "16 MiB have no room for the items that are stored" in refused.stderr
        least = refused.stderr.split("at least ")[1].split()[0]
        assert server.ctl("memory", least).returncode == 0
        until(lambda: has_followed(server, least), "less memory")
        assert len(found(connection, range(30_000))) == 30_000
        assert fill(connection, 10_000, first=30_000) < 9000
        assert server.ctl("memory", "96").returncode == 0
        until(lambda: has_followed(server, 96), "more memory")
        assert fill(connection, 20_000, first=40_000) == 20_000
        assert len(found(connection, range(30_000))) == 30_000


def test_values_stay_right_while_the_limit_changes(start):
    """Clients read and write beside the changes, in a cache and in a store."""
    for semantics in ("cache", "store"):
        server = start("-t", "2", "-m", "64", "--memory-max", "96", "--semantics", semantics)
        done = threading.Event()
        rounds = []

        def work(server=server, done=done, rounds=rounds):
            with server.connect() as connection:
                while not done.is_set():
                    fill(connection, 2000)
                    rounds.append(len(found(connection, range(2000))))

        worker = threading.Thread(target=work)
        worker.start()
        for limit in [40, 96, 32, 80, 24, 64] * 2:
            assert server.ctl("memory", str(limit)).returncode == 0
            until(lambda limit=limit: has_followed(server, limit), "the limit")
        done.set()
        worker.join(60)
        assert len(rounds) > 3 and set(rounds) == {2000}
        server.end()


def test_limits_that_cannot_be(start, tmp_path):
    server = start("-t", "1", "-m", "64")
    refused = server.ctl("memory", "65")
    assert refused.returncode == 1 and "start it with a larger --memory-max" in refused.stderr
    said = server.ctl("memory").stdout
    assert re.match(r"limit 64 MiB, at most 64 MiB \(--memory-max\), .+ resident of the process$", said), said
    assert "no size" in server.ctl("memory", "much").stderr
    for options, reason in [
        (["--memory-max", "32"], "32 MiB is less than -m, 64 MiB"),
        (["--memory-max", "128", "-k"], "-k would lock all of it"),
        (["--memory-max", "1t"], "--memory-max: for 1 TiB the server may take 576 MiB beside the limit"),
        (["--memory-max", "16t"], "--memory-max: for 16 TiB the server may take 9 GiB beside the limit"),
        (["--memory-max", "64t"], "--memory-max: 70368744177664 bytes of memory are too many"),
        (["--memory-max", "128", "--local", tmp_path / "local"], "--local without --image has sealed memory"),
    ]:
        ended = run("-p", "-1", "-m", "64", *options)
        assert ended.returncode == 64 and reason in ended.stderr


def test_what_a_limit_that_can_rise_takes_is_printed(start):
    server = start("-t", "1", "-m", "64", "--memory-max", "64g")
    printed = re.search(r", ([0-9.]+) MiB for a limit that can rise \(--memory-max\)", server.stderr())
    assert resident_bytes(server.pid) < (float(printed[1]) + 64) * MIB


def test_pymemcache_sets_the_limit(start):
    """pymemcache's own integration test sets 50 MiB."""
    server = start("-t", "2", "-m", "64")
    client = pymemcache.Client(("127.0.0.1", server.port))
    assert client.cache_memlimit(50)
    assert int(client.stats()[b"limit_maxbytes"]) == 50 * MIB
    assert client.cache_memlimit(64)


@pytest.mark.parametrize("semantics", ["cache", "store"])
def test_a_start_with_another_size_keeps_the_items(start, tmp_path, semantics):
    options = ["-t", "2", "--semantics", semantics, "--image", tmp_path / "image"]
    server = start(*options, "-m", "32")
    with server.connect() as connection:
        fill(connection, 10_000)
        connection.expect(b"set cas 5 0 1\r\nx\r\nset late 6 1000 1\r\ny\r\n", b"STORED\r\nSTORED\r\n")
        cas = connection.values(b"gets cas\r\n")
        connection.send(b"gets cas\r\n")
        line = connection.line()
        assert connection.line() == b"x" and connection.line() == b"END"
        held = found(connection, range(10_000))
        assert len(held) > 9900 and cas
    assert end(server) == 0
    sizes = ["48", "24", "128"]
    for before, size in zip(["32", *sizes], sizes, strict=False):
        server = start(*options, "-m", size)
        said = server.stderr()
        needs = f"resizing the image from {before} MiB to {size} MiB needs {size} MiB beside it until it is"
        assert needs in said and f"resized from {before} MiB" in said
        with server.connect() as connection:
            assert sorted(found(connection, range(10_000))) == sorted(held)
            connection.send(b"gets cas\r\n")
            assert connection.line() == line
            assert connection.line() == b"x" and connection.line() == b"END"
            connection.send(b"mg late t f\r\n")
            assert 900 < int(connection.line().split()[1][1:]) <= 1000
        assert end(server) == 0
        assert min(os.listdir(tmp_path / "image")) == "lock"
        assert not [name for name in os.listdir(tmp_path / "image") if name.startswith("resiz")]


def test_a_smaller_cache_keeps_its_newest_items(start, tmp_path):
    options = ["-t", "1", "--eviction", "fifo", "--image", tmp_path / "image"]
    server = start(*options, "-m", "64")
    with server.connect() as connection:
        fill(connection, 50_000)
    assert end(server) == 0
    server = start(*options, "-m", "16")
    with server.connect() as connection:
        items = int(connection.stats()["curr_items"])
        assert 11_000 < items < 17_000
        newest = found(connection, range(50_000 - items * 9 // 10, 50_000))
        assert len(newest) > items * 8 // 10


def test_a_store_that_does_not_fit_is_refused_with_a_size_that_does(start, tmp_path):
    options = ["-t", "2", "-p", "-1", "-M", "--image", tmp_path / "image"]
    server = start(*options, "-m", "64")
    with server.connect() as connection:
        assert fill(connection, 40_000) == 40_000
    assert end(server) == 0
    ended = run(*options, "-m", "32")
    # A service manager is not to try it again.
    assert ended.returncode == 64
    assert "its items have no room in 32 (-m): -m " in ended.stderr
    assert "Another --image directory begins empty" in ended.stderr
    least = ended.stderr.split("its items have no room in 32 (-m): -m ")[1].split()[0]
    assert 40 < int(least) < 64
    server = start(*options, "-m", least)
    with server.connect() as connection:
        assert len(found(connection, range(40_000))) == 40_000


def allocated_bytes(folder):
    """Returns what the files of a folder take, but for those that go meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        return sum(512 * file.stat().st_blocks for file in folder.iterdir())
    return 0


def test_a_kill_while_an_image_is_resized_leaves_it_whole(start, tmp_path):
    options = ["-t", "2", "-M", "--image", tmp_path / "image"]
    server = start(*options, "-m", "192")
    with server.connect() as connection:
        assert fill(connection, 120_000) == 120_000
    assert end(server) == 0
    kills, beside = 0, tmp_path / "image" / "resizing"
    for least_mib in (0, 16, 64, 128):
        server = start(*options, "-m", "256", ready=False)

        def has_copied(server=server, least_mib=least_mib):
            is_over = "micanite: ready" in server.stderr() or not server.alive()
            return is_over or (beside.exists() and allocated_bytes(beside) >= least_mib * MIB)

        until(has_copied, "some of the copy")
        kills += beside.exists()
        end(server, signal.SIGKILL)
    assert kills > 0
    server = start(*options, "-m", "192")
    assert not beside.exists()
    with server.connect() as connection:
        assert len(found(connection, range(120_000))) == 120_000


@pytest.fixture
def small_disk(tmp_path):
    """A file system in memory, of 72 MiB."""
    with disk.small_disk(tmp_path / "disk", 72 << 10) as path:
        yield path


def fill_up(disk):
    """Takes all the space that a file system has left."""
    with open(disk / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"x" * 65536)


@pytest.mark.parametrize("semantics", ["cache", "store"])
def test_a_full_disk_does_not_end_a_server_whose_limit_can_rise(start, small_disk, semantics):
    """Huge pages were put under what the image had given back: SIGBUS, three seconds after the start."""
    options = ["-t", "1", "--semantics", semantics, "--image", small_disk / "image"]
    server = start(*options, "-m", "64", "--memory-max", "512")
    fill_up(small_disk)
    with server.connect() as connection:
        fill(connection, 120_000)
        # The thread that puts huge pages comes five times a second.
        until(lambda: int(connection.stats()["uptime"]) > 3, "some rounds")
        kept = range(110_000, 120_000) if semantics == "cache" else range(30_000)
        assert len(found(connection, kept)) > 5000
        assert allocated_bytes(small_disk / "image") <= 68 * MIB
    assert end(server) == 0


@pytest.mark.parametrize("how", ["restart", "kill"])
@pytest.mark.parametrize("semantics", ["cache", "store"])
def test_a_server_starts_again_on_a_full_disk(start, small_disk, semantics, how):
    """It wanted pages into which the index may grow, without which it had served. They come with space."""
    options = ["-t", "1", "--semantics", semantics, "--image", small_disk / "image"]
    server = start(*options, "-m", "64", "--memory-max", "256")
    fill_up(small_disk)
    with server.connect() as connection:
        fill_small(connection, 200_000)
        before = int(connection.stats()["curr_items"])
    if how == "restart":
        done = server.ctl("restart")
        assert done.returncode == 0, done
    else:
        server.process.kill()
        server.wait_for_end()
        server = start(*options, "-m", "64", "--memory-max", "256")
    with server.connect() as connection:
        assert int(connection.stats()["curr_items"]) >= before * (1 if semantics == "store" else 0.9)
        (small_disk / "filler").unlink()
        until(lambda: fill_small(connection, 200_000) == 0, "an index that grows when there is space")
    assert end(server) == 0


def fill_small(connection, count):
    """Stores small items. Returns how many were refused."""
    refused = 0
    for first in range(0, count, 1000):
        numbers = range(first, first + 1000)
        connection.send(b"".join(b"ms s%d 1 q\r\nx\r\n" % number for number in numbers) + b"mn\r\n")
        refused += len(connection.lines_before(b"MN"))
    return refused


def test_a_full_disk_does_not_end_a_server_whose_limit_was_lowered(start, small_disk):
    options = ["-t", "2", "--eviction", "fifo", "--image", small_disk / "image"]
    server = start(*options, "-m", "64")
    with server.connect() as connection:
        fill(connection, 80_000)
        assert server.ctl("memory", "24").returncode == 0
        until(lambda: has_followed(server, 24), "less memory")
        until(lambda: allocated_bytes(small_disk / "image") < 34 * MIB, "space that went back")
        fill_up(small_disk)
        fill(connection, 80_000)
        assert server.ctl("memory", "48").returncode == 1
        fill(connection, 80_000)
        assert len(found(connection, range(70_000, 80_000))) > 5000
    assert end(server) == 0


def test_an_image_of_more_partitions_takes_no_more_than_is_printed(start, tmp_path):
    """Its partitions stay with a smaller -t and -m: 32 take up to 9 MiB each beside the limit."""
    image = ["-I", "64k", "--image", tmp_path / "image", "--memory-max", "512"]
    server = start("-t", "8", "-m", "512", *image)
    assert " in 32 partitions" in server.stderr()
    assert end(server) == 0
    refused = run("-p", "-1", "-t", "1", "-m", "64", *image)
    assert refused.returncode == 64
    said = "the image has 32 partitions, which may take 288 MiB beside the limit, more than -m, 64 MiB"
    assert said in refused.stderr
    server = start("-t", "1", "-m", "300", *image)
    assert ", 212 MiB for a limit that can rise (--memory-max)" in server.stderr()
    assert end(server) == 0
    server = start("-t", "1", "-m", "64", *image[:-1], "64")
    assert " in 4 partitions" in server.stderr()


def test_an_empty_cache_with_a_high_greatest_limit_takes_little(start, small_disk):
    """-m 64 --memory-max 4096 took 478 MB while it was empty."""
    options = ["-t", "1", "--image", small_disk / "image"]
    server = start(*options, "-m", "32", "--memory-max", "4096")
    with server.connect() as connection:
        until(lambda: int(connection.stats()["uptime"]) > 3, "some rounds")
        assert allocated_bytes(small_disk / "image") <= 36 * MIB
    assert end(server) == 0


@pytest.mark.parametrize(
    ("how", "semantics", "size"),
    [
        ("restart", "store", 1000), ("kill", "store", 8), ("restart", "cache", 8),
        pytest.param("kill", "store", 1000, marks=pytest.mark.full),
        pytest.param("restart", "store", 8, marks=pytest.mark.full),
        pytest.param("kill", "cache", 8, marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_a_server_whose_limit_was_raised_starts_again(start, tmp_path, semantics, size, how):
    """The start was refused with 64, which the service does not try again."""
    options = ["-t", "1", "-m", "32", "--memory-max", "96", "--semantics", semantics]
    options += ["--image", tmp_path / "image"]
    server = start(*options)
    keys = 64 * MIB // (size + 56)
    with server.connect() as connection:
        connection.expect(b"cache_memlimit 96\r\n", b"OK\r\n")
        until(lambda: has_followed(server, 96), "more memory")
        for first in range(0, keys, 500):
            numbers = range(first, first + 500)
            sets = [b"set t%d 0 0 %d\r\n%b\r\n" % (number, size, b"v" * size) for number in numbers]
            connection.send(b"".join(sets))
            assert [connection.line() for _ in numbers].count(b"STORED") == 500
        items = int(connection.stats()["curr_items"])
    if how == "restart":
        assert server.ctl("restart").returncode == 0
    else:
        end(server, signal.SIGKILL)
        server = start(*options)
    warning = r"no room in 32 MiB \(-m\): the limit is [0-9.]+ MiB, the least that fits"
    until(lambda: re.search(warning, server.stderr()), "the warning")
    with server.connect() as connection:
        limit = int(connection.stats()["limit_maxbytes"])
        assert 32 * MIB < limit < 96 * MIB
        if semantics == "store":
            assert int(connection.stats()["curr_items"]) == items
        until(lambda: " followed to " not in server.ctl("memory").stdout, "the limit")
        until(lambda: allocated_bytes(tmp_path / "image") <= limit + 9 * MIB, "pages that go back")
