"""Our programs that tests run beside a server: the relay, increments by the real client library, the lab."""

import json
import os
import signal
import subprocess
from pathlib import Path

from harness.failures import Hang, nothing_wrong
from harness.poll import DEADLINE_S
from harness.server import PROJECT


def lab():
    """The benchmarks and the report: MICANITE_LAB_BIN, or what cargo builds."""
    return os.environ.get("MICANITE_LAB_BIN") or built("micanite-lab", "bench/Cargo.toml")


def tools():
    """The test tools: MICANITE_TEST_TOOLS_BIN, or what cargo builds."""
    return os.environ.get("MICANITE_TEST_TOOLS_BIN") or built("micanite-test-tools", "Cargo.toml")


def built(package, manifest):
    """A package's binary, built by cargo in the workspace of a manifest: at once, when it is up to date."""
    words = ["cargo", "build", "--quiet", "--manifest-path", manifest, "--package", package]
    subprocess.run(words, cwd=PROJECT, check=True)
    return str(Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")).resolve() / "debug" / package)


class Relay:
    """A bad network before a server. Use it with `with`; `counters` are there afterwards."""

    def __init__(self, server_port, ports, host="127.0.0.1", **faults):
        words = [
            word for name, value in faults.items() for word in (f"--{name.replace('_', '-')}", str(value))
        ]
        self.process = subprocess.Popen(
            [tools(), "relay", "--to", f"{host}:{server_port}", "--ports", str(ports), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("relay: listening on "), line
        self.port = int(line.rsplit(":", 1)[1])
        self.counters = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            said, _ = self.process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        self.counters = json.loads(said)


class Tool:
    """A command of `micanite-test-tools` at work. Use it with `with`, which ends it."""

    def __init__(self, *words, stdin=subprocess.DEVNULL):
        self.process = subprocess.Popen(
            [tools(), *map(str, words)],
            stdin=stdin,
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

    def ended(self, deadline_s):
        """Waits for its end; returns what it said, and what it said of errors."""
        try:
            return self.process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired as error:
            raise Hang(f"micanite-test-tools does not end: {error}") from error


class Increments(Tool):
    """`micanite-test-tools increments` at work; `report` waits for its end."""

    def __init__(self, address, **options):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__("increments", "--server", address, *words)

    def report(self, deadline_s):
        """Returns the report of the increments; every number must be exact."""
        said, wrong = self.ended(deadline_s)
        report = json.loads(said) if said.strip() else {}
        nothing_wrong(report.get("wrong_sums"))
        assert self.process.returncode == 0, f"{wrong}{said}"
        assert (report["unknown"], report["failed"]) == (0, 0), report
        return report
