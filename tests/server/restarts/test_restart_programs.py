"""A restart in place whose program is moved, removed or replaced between its trial and its execution."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from harness.poll import until
from harness.server import command


@pytest.mark.parametrize("change", ["removed", "replaced"])
def test_a_program_that_changes_after_its_trial_restarts(start, tmp_path, key, monkeypatch, change):
    """A deployment may move files while the server waits for its clients."""
    size = 20 << 20
    program = tmp_path / "micanite"
    shutil.copy2(command()[0], program)
    with monkeypatch.context() as other:
        other.setenv("MICANITE_BIN", str(program))
        server = start("-t", "1", "-m", "256", "-I", "32m", "--image", tmp_path / "image")
    with server.connect() as client:
        client.set(key, b"x" * size)
    with server.connect() as reader:
        reader.send(b"get %b\r\n" % key)
        assert reader.line() == b"VALUE %b 0 %d" % (key, size)
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "restarting when" in server.stderr(), "the restart to begin")
        program.unlink()
        if change == "replaced":
            program.write_bytes(b"no program")
        assert reader.exactly(size) == b"x" * size
    with server.connect() as client:
        assert client.get(key) == b"x" * size
    process = Path(f"/proc/{server.pid}")
    assert (process / "comm").read_text() == "micanite\n"
    # The next one executes what its path leads to again.
    program.unlink(missing_ok=True)
    shutil.copy2(command()[0], program)
    assert server.ctl("restart").returncode == 0
    assert (process / "exe").readlink() == program


def test_a_server_restarts_from_a_directory_that_is_gone(start, tmp_path, key, monkeypatch):
    """A deployment removes the directory of the release before."""
    release = tmp_path / "release"
    release.mkdir()
    with monkeypatch.context() as other:
        other.chdir(release)
        server = start("-t", "1", "-m", "64", "--image", tmp_path / "image")
    with server.connect() as client:
        client.set(key, b"1")
    release.rmdir()
    for _ in range(2):
        restarted = server.ctl("restart")
        assert restarted.returncode == 0, restarted.stderr
        with server.connect() as client:
            assert client.get(key) == b"1"


def test_a_restart_tries_and_runs_in_the_same_directory(start, tmp_path, key, monkeypatch):
    """Relative paths mean the directory of the start, also when its name leads to another one."""
    release, moved = tmp_path / "release", tmp_path / "moved"
    release.mkdir()
    (release / "micanite.toml").write_text("memory-limit = 64\n")
    with monkeypatch.context() as other:
        other.chdir(release)
        server = start("-t", "1", "--image", tmp_path / "image", "--config", "micanite.toml")
    release.rename(moved)
    release.mkdir()
    (release / "micanite.toml").write_text("no option\n")
    restarted = server.ctl("restart")
    assert restarted.returncode == 0, restarted.stderr
    (release / "micanite.toml").write_text("memory-limit = 64\n")
    (moved / "micanite.toml").write_text("no option\n")
    assert server.ctl("restart").returncode != 0
    with server.connect() as client:
        client.set(key, b"1")
