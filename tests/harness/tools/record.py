"""Recordings of a running server."""

import subprocess

from harness.server import command, environment


def done(ended):
    """The text that a request which was done has printed."""
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout


def refused(ended):
    """The reason why it was not."""
    assert (ended.returncode, ended.stdout) == (1, ""), ended
    return ended.stderr


def cat(file):
    """The requests of a recording, and what `micanite trace cat` remarks."""
    ended = subprocess.run(
        [command()[0], "trace", "cat", str(file)], capture_output=True, text=True, timeout=60,
        env=environment(),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return [line.split(",") for line in ended.stdout.splitlines()], ended.stderr


class Recording:
    """A recording of all keys of a server, from here to the end of a block."""

    def __init__(self, server, name="all.rec", *options):
        self.server, self.file = server, server.directory / name
        done(server.ctl("record", self.file, "--fraction", 1, *options))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.told = done(self.server.ctl("record", "--stop"))

    def requests(self):
        """Operation, length of key and value, expiry and outcome of each request; keys have one number each.
        """
        lines, remarks = cat(self.file)
        assert remarks == ""
        times = [int(line[0]) for line in lines]
        assert times == sorted(times)
        return [
            (operation, int(key), value, expiry, outcome)
            for _, _, key, value, operation, expiry, outcome in lines
        ]

    def numbers(self):
        return [line[1] for line in cat(self.file)[0]]
