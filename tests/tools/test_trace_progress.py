"""Progress of `micanite trace`: on a terminal a line that is gone in the end, elsewhere hardly anything."""

import os
import pty
import subprocess
import time

import pytest

from harness.server import command, environment

LINES = "".join(f"0, {number}, 100\n" for number in range(5000)).encode()
DEADLINE_S = 60


@pytest.mark.parametrize("name", ["convert", "stats", "simulate"])
def test_progress_names_the_part_read(tmp_path, name):
    """The trace comes by a pipe, and ends when something was said."""
    more = {"convert": [tmp_path / "out"], "stats": [], "simulate": ["--policy", "lru", "--bytes", "1m"]}
    words = [command()[0], "trace", name, "-", *more[name]]
    terminal, its_end = pty.openpty()
    os.set_blocking(terminal, False)
    said = b""
    running = subprocess.Popen(
        list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=its_end,
        env=environment()
    )
    os.close(its_end)
    with running:
        deadline = time.monotonic() + DEADLINE_S
        while b"million requests" not in said:
            assert time.monotonic() < deadline, said
            running.stdin.write(LINES)
            said += read(terminal)
        running.stdin.close()
        assert running.wait(DEADLINE_S) == 0
    while piece := read(terminal):
        said += piece
    os.close(terminal)
    # The total is unknown, so there is no percentage, and nothing of the line stays.
    assert b"%" not in said and said.endswith(b"\r\x1b[K"), said


def read(terminal):
    """Returns the bytes that can be read now."""
    try:
        return os.read(terminal, 65536)
    except (BlockingIOError, OSError):  # nothing now, or never again
        return b""


def test_a_trace_by_the_standard_input_is_read_without_a_word(tmp_path):
    path = tmp_path / "out.recording.zst"
    words = [command()[0], "trace", "convert", "-", str(path)]

    def convert(content):
        ended = subprocess.run(
            words, input=content, capture_output=True, timeout=DEADLINE_S, env=environment()
        )
        assert (ended.returncode, ended.stderr) == (0, b"") and b": 5000 requests" in ended.stdout

    convert(LINES)
    convert(path.read_bytes())
