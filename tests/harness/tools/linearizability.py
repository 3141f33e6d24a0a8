"""`micanite-test-tools linearizability`: clients of several ports at once, whose histories must be
linearizable."""

import contextlib
import json
import subprocess

from harness.failures import Hang, WrongValue
from harness.tools.programs import tools

DEADLINE_S = 120


class Clients:
    """The clients at work. Use it with `with`; `report` waits for their end."""

    def __init__(self, *ports, killed=(), commands=False, **options):
        words = [word for port in ports for word in ("--port", port)]
        words += [word for port in killed for word in ("--killed-port", port)]
        words += ["--commands"] if commands else []
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
        self.seconds = float(options.get("seconds", 2))
        self.process = subprocess.Popen(
            [tools(), "linearizability", *words],
            stdin=subprocess.PIPE if commands else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.runs():
            self.process.kill()
        self.process.communicate()

    def runs(self):
        """Returns whether the process still runs."""
        return self.process.poll() is None

    def command(self, word):
        """Gives a command, and waits until it is noted."""
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n", self.process.stderr.read()

    @contextlib.contextmanager
    def loss(self):
        """Items may be lost within."""
        self.command("loss")
        yield
        self.command("found")

    def report(self):
        """Returns what was counted; every history must be linearizable."""
        try:
            said, wrong = self.process.communicate(timeout=self.seconds + DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            raise Hang(f"the clients do not end: {error}") from error
        if self.process.returncode != 0:
            raise WrongValue(f"{wrong}{said}")
        return json.loads(said)


def check(*ports, **options):
    """Runs the clients to their end."""
    with Clients(*ports, **options) as clients:
        return clients.report()
