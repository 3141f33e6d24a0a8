"""Failures that a second run never forgives: a lost item, a wrong value, a crash and a hang."""

import signal

CRASH_SIGNALS = [
    signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP
]
CRASH_WORDS = ("panicked at", "AddressSanitizer", "ThreadSanitizer", "PANIC in ")


class Unforgivable(AssertionError):
    """The base of these."""


class LostItem(Unforgivable):
    """An item that the server acknowledged is not there."""


class WrongValue(Unforgivable):
    """A reply, or a value in it, is not the right one."""


class Crash(Unforgivable):
    """The server ended by itself."""


class Hang(Unforgivable):
    """Something that was waited for did not happen within its deadline."""


def nothing_wrong(found):
    """Fails with what was found wrong: values of another key, broken or mixed ones."""
    if found:
        raise WrongValue(repr(found)[:4096])


def nothing_lost(missing):
    """Fails with the acknowledged items that are missing, or with how many they are."""
    if missing:
        raise LostItem(repr(missing)[:4096])


# Crashes of servers since the last test, and servers that did not end.
CRASHES = []


def judge_end(pid, status, said):
    """Notes a crash: an exit status (as of subprocess) of a fatal signal that no test sends, or a panic's
    message."""
    words = [word for word in CRASH_WORDS if word in said]
    if -status in CRASH_SIGNALS or words:
        CRASHES.append(f"server {pid} crashed, status {status}:\n{said[-4096:]}")


def raise_crashes():
    """Fails the test during which a server crashed, or did not end."""
    crashes = CRASHES.copy()
    CRASHES.clear()
    if crashes:
        raise Crash("\n".join(crashes))
