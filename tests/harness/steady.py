"""A pytest plugin: says of each failure if a second run may forgive it (scripts/test/blackbox), ends tests
that hang, and notes those that cannot run (scripts/test/totals)."""

import json
import os
import queue
import signal
import subprocess

import pytest

from harness import failures

# Longer than any test takes on a machine that is busy with other work.
TEST_SECONDS_MAX = 600
# A test that goes on after that hears of it again.
REPEAT_SECONDS = 5
# Raised by clients of the server and by its end, when a deadline has passed.
DEADLINES = (TimeoutError, queue.Empty, subprocess.TimeoutExpired)
# Comparisons of bytes that were false in this test. Replies and values are bytes.
DIFFERENT_BYTES = []


def has_bytes(value):
    """Bytes, or something with bytes in it."""
    if isinstance(value, dict):
        return has_bytes(list(value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(has_bytes(one) for one in value)
    return isinstance(value, bytes | bytearray | memoryview)


def pytest_assertrepr_compare(op, left, right):
    """Called for a comparison that is false."""
    if has_bytes(left) or has_bytes(right):
        DIFFERENT_BYTES.append(op)


def unforgivable(error):
    """The name of the kind of failure, if a second run never forgives it; else None."""
    while error is not None:
        if isinstance(error, failures.Unforgivable):
            return type(error).__name__
        if isinstance(error, DEADLINES):
            return failures.Hang.__name__
        error = error.__cause__ or error.__context__
    return failures.WrongValue.__name__ if DIFFERENT_BYTES else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """A test that does not end is a hang."""

    def hung(*_):
        raise failures.Hang(f"the test did not end within {TEST_SECONDS_MAX} s")

    DIFFERENT_BYTES.clear()
    before = signal.signal(signal.SIGALRM, hung)
    signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS_MAX, REPEAT_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A server that crashed fails the test, also when the test did not notice."""
    try:
        return (yield)
    finally:
        failures.raise_crashes()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """The kind goes with the report, from pytest-xdist's workers too."""
    report = yield
    if report.failed and (kind := unforgivable(call.excinfo.value)):
        report.user_properties.append(("unforgivable", kind))
    return report


def pytest_configure(config):
    """A thread that fails fails its test. Reports are written by the process that gathers them."""
    for name in ("PytestUnhandledThreadExceptionWarning", "PytestUnraisableExceptionWarning"):
        config.addinivalue_line("filterwarnings", f"error::pytest.{name}")
    if hasattr(config, "workerinput"):
        return
    if path := os.environ.get("MICANITE_TEST_REPORTS"):
        config.pluginmanager.register(Reports(path))
    if path := os.environ.get("MICANITE_SKIPS"):
        config.pluginmanager.register(Skips(path))


class Reports:
    """Writes each report as a line of JSON."""

    def __init__(self, path):
        self.file = open(path, "a", buffering=1)  # noqa: SIM115 (open as long as pytest runs)

    def pytest_runtest_logreport(self, report):
        """One of set-up, call and teardown."""
        properties = dict(report.user_properties)
        if report.when not in ("setup", "call", "teardown"):
            # The process that ran the test has died.
            properties["unforgivable"] = failures.Crash.__name__
        line = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "when": report.when,
            "seconds": report.duration
        } | properties
        self.file.write(json.dumps(line, default=str) + "\n")

    def pytest_collectreport(self, report):
        """A file that cannot be read is a failed test, and one that is left out a skipped test."""
        if not report.passed:
            line = {"test": report.nodeid, "outcome": report.outcome, "when": "collect"}
            self.file.write(json.dumps(line | {"unforgivable": "Unreadable"}) + "\n")


class Skips:
    """Appends each test that did not run, a tab, and the reason, as crates/test-skip does for Rust."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        """A test was skipped, or failed as it may."""
        if report.skipped:
            with open(self.path, "a") as skips:
                skips.write(f"{report.nodeid}\t{' '.join(reason(report).split())}\n")

    # A whole file was skipped.
    pytest_collectreport = pytest_runtest_logreport


def reason(report):
    """Returns the reason of a skip without the exception's name, or that of a failure that may be."""
    if hasattr(report, "wasxfail"):
        return report.wasxfail.removeprefix("reason: ")
    _, _, message = report.longrepr
    return message.partition(": ")[2] or message
