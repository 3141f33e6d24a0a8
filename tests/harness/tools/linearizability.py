"""`micanite-test-tools linearizability`: clients of several ports at once, whose histories must be
linearizable."""

import contextlib
import json
import subprocess

from harness.failures import WrongValue
from harness.tools.programs import Tool

DEADLINE_S = 120


class Clients(Tool):
    """The clients at work. Use it with `with`; `report` waits for their end."""

    def __init__(self, *ports, killed=(), commands=False, **options):
        words = [word for port in ports for word in ("--port", port)]
        words += [word for port in killed for word in ("--killed-port", port)]
        words += ["--commands"] if commands else []
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value]:
                words += [option] if one is True else [option, one]
        self.seconds = float(options.get("seconds", 2))
        stdin = subprocess.PIPE if commands else subprocess.DEVNULL
        super().__init__("linearizability", *words, stdin=stdin)

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
        said, wrong = self.ended(self.seconds + DEADLINE_S)
        if self.process.returncode != 0:
            raise WrongValue(f"{wrong}{said}")
        return json.loads(said)


def check(*ports, replies=(), until=(), **options):
    """Runs the clients to their end, which is not before those of each port have met `replies`, and any of
    them `until`: a machine that stands still executes few operations."""
    kinds = sorted({port.partition("=")[0] for port in ports})
    wanted = [*until, *(f"{kind} {reply}" for kind in kinds for reply in replies)]
    with Clients(*ports, until=wanted, **options) as clients:
        report = clients.report()
    assert_met(report, wanted)
    return report


def assert_met(report, replies):
    """The clients have met these replies, as the report names them."""
    missing = [reply for reply in replies if not report["replies"].get(reply)]
    assert not missing, (missing, report)
