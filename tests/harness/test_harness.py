"""The suite's own rules: a test that fails and passes alone is named; a lost item, a wrong value, a crash and
a hang are not forgiven; a test that cannot run is counted as skipped, and has to be expected."""

import os
import signal
import subprocess
import sys

import pytest

from harness.failures import CRASHES, judge_end
from harness.server import PROJECT

OUTSET = """
import os
import pathlib
import signal
import threading
from harness import failures
from harness.poll import until

def same(left, right):
    assert left == right

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()

def first(name):
    marker = pathlib.Path(__file__).parent / name
    seen = marker.exists()
    marker.touch()
    return not seen
"""
UNSTEADY = """
def test_unsteady_{0}():
    assert not first("unsteady {0}")
"""
PASSES = """
def test_good():
    pass
"""
UNIT = "test result: ok. 1 passed; 0 failed; 0 ignored;\n"
SKIPS = """
import pytest
def test_skipped():
    pytest.skip("no moon tonight")
@pytest.mark.parametrize("moons", [2])
@pytest.mark.skipif(True, reason="no moon tonight")
def test_skipped_by_mark(moons):
    pass
@pytest.mark.xfail(reason="no moon tonight")
def test_may_fail():
    assert False
def test_lacks_a_module():
    pytest.importorskip("no_such_module")
"""
EXPECTED = """# A comment.
test_made_up.py::test_skipped*  no moon *
*::test_skipped_by_mark[2]  no moon tonight
*::test_may_fail  no moon tonight
*  could not import 'no_such_module'*
"""
FULL = """
import pytest

@pytest.mark.full
def test_long():
    pass

@pytest.mark.full
@pytest.mark.alone
def test_long_and_alone():
    pass
"""
UNFORGIVABLE = {
    "WrongValue": 'assert not first("x") or (b"VALUE a" == b"VALUE b")',
    "LostItem": 'if first("x"): raise failures.LostItem("a")',
    "Hang": 'until(lambda: not first("x"), "an event", deadline_s=0)',
    "Crash": 'if first("x"): failures.judge_end(1, -11, "")',
}
MORE_UNFORGIVABLE = {
    "a thread's": ("WrongValue", 'in_thread(lambda: same(b"a", b"b" if first("x") else b"a"))'),
    "the test's process": ("Crash", 'if first("x"): os.kill(os.getpid(), signal.SIGSEGV)'),
}


def in_gate(names, gate):
    """These cases, of which the gate runs one."""
    return [pytest.param(name, marks=() if name == gate else pytest.mark.full) for name in names]


@pytest.fixture
def run(tmp_path):
    """Runs scripts/test/blackbox on a folder with this file of tests, then scripts/test/totals on what it
    said."""
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {PROJECT}/tests\nmarkers =\n alone\n full\naddopts = -p no:cacheprovider\n"
    )
    head = 'import pytest\npytest.register_assert_rewrite("harness")\n'
    (tmp_path / "conftest.py").write_text(f'{head}pytest_plugins = ["harness.steady"]\n')
    dropped = ("PYTEST_", "TEST_FULL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)} | {
        "BLACKBOX_PROCESSES": "1", "MICANITE_SKIPS": str(tmp_path / "skips")
    }

    def both(text, unit=UNIT, skips="", expected="", **settings):
        (tmp_path / "test_made_up.py").write_text(OUTSET + text)
        (tmp_path / "skips").write_text(skips)
        (tmp_path / "expected").write_text(expected)
        words = [sys.executable, PROJECT / "scripts/test/blackbox", "--tests", tmp_path]
        variables = environment | settings
        ran = subprocess.run(words, capture_output=True, text=True, env=variables, timeout=300)
        others = f"### suite: unit\n{unit}### suite: loom\n{UNIT}"
        (tmp_path / "log").write_text(f"{others}### suite: blackbox\n{ran.stdout}")
        words = [PROJECT / "scripts/test/totals", *(tmp_path / name for name in ("log", "skips", "expected"))]
        totals = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
        return ran, totals

    return both


def test_an_unsteady_test_is_run_once_more_and_named(run):
    """Two tests that fail once count as passed, and both outputs name them."""
    ran, totals = run(PASSES + UNSTEADY.format(1) + UNSTEADY.format(2))
    assert (ran.returncode, totals.returncode) == (0, 0), ran.stdout + totals.stdout
    for number in (1, 2):
        assert f"unsteady test: test_made_up.py::test_unsteady_{number}\n" in ran.stdout
        assert f"unsteady: test_made_up.py::test_unsteady_{number}\n" in totals.stdout
    assert totals.stdout.splitlines()[-1] == "5 passed, 0 failed, 0 skipped"


def test_three_unsteady_tests_fail_the_run(run):
    """More than two are too many."""
    ran, totals = run("".join(UNSTEADY.format(number) for number in (1, 2, 3)))
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout
    assert "3 unsteady tests, 2 are allowed" in totals.stdout


def test_a_test_that_fails_twice_fails_the_run(run):
    """A second failure counts."""
    ran, totals = run(PASSES + "def test_bad():\n    assert 1 == 2\n")
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout
    assert totals.stdout.splitlines()[-1] == "3 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize(("settings", "passed"), [({}, 3), ({"TEST_FULL": "1"}, 5)], ids=["gate", "full"])
def test_full_tests_run_only_where_they_are_asked_for(run, settings, passed):
    """Without TEST_FULL=1 a test with that mark is left out, and counts as nothing."""
    ran, totals = run(PASSES + FULL, **settings)
    assert (ran.returncode, totals.returncode) == (0, 0), ran.stdout + totals.stdout
    assert totals.stdout.splitlines()[-1] == f"{passed} passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("kind", in_gate(UNFORGIVABLE, "WrongValue"))
def test_some_failures_are_never_forgiven(run, kind):
    """A test that fails once in one of these ways, and would pass then, fails the run."""
    ran, totals = run(PASSES + f"def test_bad():\n    {UNFORGIVABLE[kind]}\n")
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout
    assert (
        f"failed test: test_made_up.py::test_bad ({kind})\n" in ran.stdout
        and "unsteady test" not in ran.stdout
    )


@pytest.mark.parametrize("whose", in_gate(MORE_UNFORGIVABLE, "the test's process"))
def test_failures_elsewhere_are_never_forgiven(run, whose):
    """A wrong value that a thread of the test sees, and a crash of the process that runs it."""
    kind, text = MORE_UNFORGIVABLE[whose]
    ran, totals = run(PASSES + f"def test_bad():\n    {text}\n")
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout
    assert f"failed test: test_made_up.py::test_bad ({kind})\n" in ran.stdout


def test_wrong_values_that_the_harness_finds_are_never_forgiven(run, tmp_path):
    """Comparisons in its modules count as those in tests."""
    text = """
from harness.memcached.wire import Connection
def test_bad():
    connection = Connection.__new__(Connection)
    connection._unread = bytearray(b"A\\r\\nMN\\r\\n")
    connection.send = lambda _: None
    connection.expect(b"", b"B\\r\\n" if first("x") else b"A\\r\\n")
"""
    ran, totals = run(PASSES + text)
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout
    assert "failed test: test_made_up.py::test_bad (WrongValue)\n" in ran.stdout


def test_a_failure_and_a_skip_are_a_failure(run):
    """A test that fails, and cannot run the second time, has failed."""
    text = 'import pytest\ndef test_bad():\n    assert not first("x")\n    pytest.skip("no moon")\n'
    ran, totals = run(PASSES + text, expected="*  no moon\n")
    assert (ran.returncode, totals.returncode) == (1, 1), ran.stdout + totals.stdout


def test_each_reason_of_a_skip_is_judged(run):
    """A test that skips for a second, expected reason hides no first one."""
    skips = "a::b frames_pass\tthe moon is gone\na::b frames_pass\tno root\n"
    _, totals = run(PASSES, UNIT * 2, skips, "*  no root\n")
    assert totals.returncode == 1 and "frames_pass: the moon is gone\n" in totals.stdout


def test_a_suite_of_skips_ran_no_test(run):
    """A test that cannot run is not run."""
    _, totals = run(PASSES, UNIT, "a::b frames_pass\tno root\n", "*  no root\n")
    assert totals.returncode == 1 and "suite unit: no test was run\n" in totals.stdout


def test_expected_skips_are_counted(run):
    """Every way of pytest's to skip is counted, and fits a name and a reason that are expected."""
    ran, totals = run(PASSES + SKIPS, expected=EXPECTED)
    assert (ran.returncode, totals.returncode) == (0, 0), ran.stdout + totals.stdout
    assert totals.stdout.splitlines()[-1] == "3 passed, 0 failed, 4 skipped"


@pytest.mark.parametrize(
    "expected", ["", "*::test_skipped  no sun tonight\n", "*::test_other  no moon tonight\n"]
)
def test_an_unexpected_skip_fails_the_run(run, expected):
    """A line of the expected skips has to fit both the name and the reason."""
    text = PASSES + SKIPS.partition("@")[0]
    ran, totals = run(text, expected=expected)
    assert (ran.returncode, totals.returncode) == (0, 1), ran.stdout + totals.stdout
    assert "test_made_up.py::test_skipped: no moon tonight\n" in totals.stdout
    assert totals.stdout.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(
    "unit",
    [
        "test result: ok. 5 passed; 0 failed; 0 ignored;\n",
        "     Summary [   2.345s] 5 tests run: 5 passed (1 slow), 3 skipped\n",
    ],
    ids=["cargo", "nextest"],
)
def test_a_rust_test_that_skips_has_not_passed(run, unit):
    """Rust's runners count a test as passed that returns; what was not asked for is no skip."""
    skips = "a::b frames_pass\tno root\n" * 2 + "scripts/package-crates\tno rustup\n"
    _, totals = run(PASSES, unit, skips, "*frames_pass  no root\nscripts/*  no rustup\n")
    assert totals.returncode == 0, totals.stdout
    assert "suite unit: passed 4, failed 0, skipped 1\n" in totals.stdout
    assert totals.stdout.splitlines()[-1] == "6 passed, 0 failed, 2 skipped"
    _, totals = run(PASSES, unit, skips)
    assert totals.returncode == 1 and "a::b frames_pass: no root\n" in totals.stdout


@pytest.mark.parametrize(
    ("unit", "failed"),
    [
        ("     Summary [   0.012s] 4 tests run: 2 passed, 1 failed, 1 timed out, 0 skipped\n", 2),
        ("     Summary [   0.012s] 2/4 tests run: 1 passed (1 leaky), 1 failed, 0 skipped\n", 3),
        ("     Summary [   0.012s] 4 tests run: 3 passed, 1 exec failed, 9 skipped\n", 1),
    ],
)
def test_tests_that_nextest_did_not_see_pass_have_failed(run, unit, failed):
    """Whether they failed, timed out, or did not come to run."""
    _, totals = run(PASSES, unit)
    assert totals.returncode == 1 and f"suite unit: passed {4 - failed}, failed {failed}, " in totals.stdout


def test_a_silent_skip_fails_the_run(run):
    """A test that libtest ignored is named by libtest, one that pytest skipped by the file of skips."""
    silent = "test result: ok. 1 passed; 0 failed; 1 ignored;\n"
    _, totals = run(PASSES, silent)
    assert totals.returncode == 1 and "1 skipped tests are not named\n" in totals.stdout
    _, totals = run(PASSES, "test a::b ... ignored, too slow\n" + silent, expected="a::b  too slow\n")
    assert totals.returncode == 0, totals.stdout
    assert totals.stdout.splitlines()[-1] == "3 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(
    ("status", "said", "is_crash"),
    [
        (-signal.SIGSEGV, "", True),
        (-signal.SIGABRT, "", True),
        (0, "thread 'worker' panicked at src/x.rs", True),
        (1, "ERROR: AddressSanitizer: x", True),
        (0, "", False),
        (1, "refused", False),
        (-signal.SIGTERM, "", False),
        (-signal.SIGKILL, "", False),
    ],
)
def test_crashes_are_told_from_other_ends(status, said, is_crash):
    """Fatal signals and the messages of panics and sanitizers are crashes; an exit status, and signals that
    tests send, are none."""
    judge_end(1, status, said)
    found = CRASHES.copy()
    CRASHES.clear()
    assert bool(found) == is_crash


def test_a_failure_after_the_end_of_a_server_shows_what_it_printed(start):
    """The report of a failed test reads a server's output after the test has ended it."""
    server = start("-v")
    server.end()
    assert server.stderr()
    assert not server.directory.exists()
