"""Ends of a recording: at its limits, on a full disk, with its server."""

import resource

import pytest

from harness.admin import Admin
from harness.poll import until
from harness.tools import disk
from harness.tools.record import Recording, cat, done


def test_time_is_limited(start):
    server = start()
    file = server.directory / "short.rec"
    done(server.ctl("record", file, "--seconds", 1))
    until(lambda: server.stats()["recording"] == "0", "the recording to end")
    assert "ended after its time" in done(server.ctl("record"))
    server.says(f"the recording to {file} has ended after its time")
    assert cat(file) == ([], "")


def get_until_it_ends(server, connection, key):
    """Fills the recording with gets of a hundred keys, as long as it takes a few at most."""
    for _ in range(10_000):
        if server.stats()["recording"] == "0":
            return
        connection.values(b"get " + b" ".join(key % number for number in range(100)) + b"\r\n")
    raise AssertionError("the recording has no end")


def test_the_file_is_limited(start):
    server = start("-t", "2", "--admin", "-1")
    admin = Admin(server)
    assert admin.sum("micanite_recording") == 0
    with server.connect() as connection:
        with Recording(server, "small.rec", "--bytes-max", "8k"):
            get_until_it_ends(server, connection, b"prefix%d:x")
            assert "ended at its length" in done(server.ctl("record"))
            small = server.directory / "small.rec"
            assert admin.sum("micanite_recorded_bytes") == small.stat().st_size
            assert admin.sum("micanite_recorded_requests_total") == len(cat(small)[0])
            # There is nothing to stop any more.
            done(server.ctl("record", server.directory / "next.rec"))
    file = server.directory / "small.rec"
    assert 8000 < file.stat().st_size <= 8192
    lines, remarks = cat(file)
    assert remarks == "" and len(lines) > 80


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    with disk.small_disk(tmp_path / "disk", 64) as path:
        yield path


def test_a_full_disk_ends_it_and_the_server_goes_on(start, small_disk):
    server = start("-t", "2")
    file = small_disk / "full.rec"
    done(server.ctl("record", file, "--fraction", 1))
    with server.connect() as connection:
        get_until_it_ends(server, connection, b"key%d")
        told = done(server.ctl("record"))
        assert "ended because the file could not be written: No space left on device" in told
        connection.set(b"still", b"here")
        assert connection.get(b"still") == b"here"
    server.says("No space left on device")
    lines, remarks = cat(file)
    assert "could not be written" in remarks and "cut off" not in remarks
    assert f": {len(lines)} requests of" in told and file.stat().st_size > 60_000
    assert {line[4] for line in lines} == {"get"}


def test_a_limit_on_the_size_of_files_ends_it_and_the_server_goes_on(start):
    server = start("-t", "2")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (50_000, 50_000))
    file = server.directory / "limited.rec"
    done(server.ctl("record", file, "--fraction", 1))
    with server.connect() as connection:
        get_until_it_ends(server, connection, b"key%d")
        assert "ended because the file could not be written: File too large" in done(server.ctl("record"))
        connection.set(b"still", b"here")
        assert connection.get(b"still") == b"here"
    lines, remarks = cat(file)
    assert "could not be written" in remarks and "cut off" not in remarks
    assert len(lines) > 1000 and file.stat().st_size <= 50_000


def test_a_killed_server_leaves_a_readable_recording(start):
    server = start()
    file = server.directory / "killed.rec"
    done(server.ctl("record", file, "--fraction", 1))
    with server.connect() as connection:
        for n in range(100):
            connection.set(b"key%d" % n, b"x")
        until(lambda: file.stat().st_size >= 32 + 100 * 24, "the requests to be written")
    server.process.kill()
    server.wait_for_end()
    lines, remarks = cat(file)
    assert len(lines) == 100 and "it has no end: the server was killed" in remarks


def test_it_ends_with_the_server(start):
    server = start("-t", "2")
    file = server.directory / "ended.rec"
    done(server.ctl("record", file, "--fraction", 1))
    with server.connect() as connection:
        connection.set(b"last", b"x")
    server.process.terminate()
    assert server.wait_for_end() == 0
    lines, remarks = cat(file)
    assert [line[4] for line in lines] == ["set"] and remarks == ""


def test_a_restart_in_place_ends_it(start, tmp_path):
    server = start("-t", "2", "--image", tmp_path / "image")
    file = server.directory / "restarted.rec"
    done(server.ctl("record", file, "--fraction", 1))
    with server.connect() as connection:
        connection.set(b"before", b"x")
    done(server.ctl("restart"))
    assert done(server.ctl("record")) == "nothing is recorded\n"
    with server.connect() as connection:
        assert connection.get(b"before") == b"x"
    lines, remarks = cat(file)
    assert [line[4] for line in lines] == ["set"] and remarks == ""
