"""Attacks by TCP connections."""

import contextlib
import itertools
import os
import time

from harness.attacks.target import DRIP_S, MIB, SMALL_BUFFER_BYTES, Crowd, attack, flood


@attack
def connections_beyond_the_limit(target):
    """Takes every connection there is, and asks for more."""
    held = []
    while True:
        new = target.connect()
        held.append(new)
        new.setblocking(True)
        new.sendall(b"mn\r\n")
        try:
            if new.recv(64) != b"MN\r\n":
                held.pop().close()
                yield
        except OSError:
            held.pop().close()
            yield


@attack
def connections_that_come_and_go(target):
    """Connects and leaves, as fast as it can."""
    while True:
        with contextlib.suppress(OSError):
            target.connect().close()
        yield


@attack
def half_open(target):
    """Connections that have begun a line, and say no more."""
    held = [target.connect() for _ in range(200)]
    for one in held:
        one.send(b"get half-a-key")
    while True:
        yield
        time.sleep(DRIP_S)


@attack
def slow_writers(target):
    """Values that come a byte at a time."""
    held = [target.connect() for _ in range(200)]
    for number, one in enumerate(held):
        one.send(b"set slow%d 0 0 1000000\r\n" % number)
    while True:
        for one in held:
            with contextlib.suppress(OSError):
                one.send(b"x")
        yield
        time.sleep(DRIP_S)


@attack
def slow_lines(target):
    """Lines that come a byte at a time."""
    for at in itertools.count():
        if at % 200 == 0:
            held = [target.connect() for _ in range(200)]
        for one in held:
            with contextlib.suppress(OSError):
                one.send(b"x")
        yield
        time.sleep(DRIP_S)


@attack
def slow_readers(target):
    """Large values that are asked for and taken a few bytes at a time."""
    target.store(b"large", b"x" * MIB)
    held = [target.connect(SMALL_BUFFER_BYTES) for _ in range(100)]
    for one in held:
        with contextlib.suppress(BlockingIOError):
            one.send(b"get large\r\n" * 1000)
    while True:
        for one in held:
            with contextlib.suppress(OSError):
                one.recv(1)
        yield
        time.sleep(DRIP_S)


@attack
def endless_lines(target):
    """No line ever ends."""
    return flood(Crowd(target, 20, b"x" * (256 << 10), reads=True))


@attack
def endless_keys(target):
    """A get whose key never ends."""
    return flood(Crowd(target, 20, b"get " + b"k" * (256 << 10), reads=True))


@attack
def deep_pipelines(target):
    """Requests without waiting for replies, which are read."""
    return flood(Crowd(target, 20, b"get none\r\n" * 20_000, reads=True))


@attack
def pipelines_not_read(target):
    """Requests without waiting for replies, which nobody reads."""
    target.store(b"some", b"x" * 1000)
    return flood(Crowd(target, 20, b"get some\r\n" * 20_000, reads=False))


@attack
def huge_multi_gets(target):
    """Lines of 100,000 keys."""
    line = b"get " + b" ".join(b"k%x" % number for number in range(100_000)) + b"\r\n"
    return flood(Crowd(target, 20, line, reads=True))


@attack
def values_beyond_the_limit(target):
    """Values that are too large, to their end."""
    return flood(Crowd(target, 10, b"set big 0 0 67108864\r\n" + b"x" * (64 * MIB) + b"\r\n", reads=True))


@attack
def large_values(target):
    """The largest values, stored and read by many at once."""
    target.store(b"large", b"x" * MIB)
    return flood(
        Crowd(
            target, 20, b"set large 0 0 1048576\r\n" + b"x" * MIB + b"\r\n" + b"get large\r\n" * 20,
            reads=True
        )
    )


@attack
def garbage(target):
    """Random bytes; those that are taken for the binary protocol, too."""
    return flood(Crowd(target, 20, b"\x80" + os.urandom(MIB), reads=True))


@attack
def appends_to_a_long_value(target):
    """Each copies the value that is there; nobody waits for a reply."""
    target.store(b"long", b"x" * 900_000)
    return flood(Crowd(target, 1, b"append long 0 0 1 noreply\r\nx\r\n" * 2400, reads=True))


@attack
def small_batches_of_appends(target):
    """Many connections with two appends to a long value at a time: no turn is long, but all of them together
    are."""
    target.store(b"long", b"x" * 900_000)
    return flood(Crowd(target, 200, b"append long 0 0 1\r\nx\r\n" * 2, reads=True))


@attack
def meta_appends_and_touches(target):
    """Items that move: by appends, and because they have no room for an expiry."""
    value = b"x" * 500_000
    moves = b"".join(b"set long%d 0 0 500000\r\n%b\r\n" % (number, value) for number in range(8))
    moves += (
        b"".join(
            b"touch long%d 100\r\nms long%d 1 MA q\r\nx\r\nmg long%d t q\r\n" % (number, number, number)
            for number in range(8)
        )
        * 20
    )
    return flood(Crowd(target, 1, moves, reads=True))


@attack
def administration(target):
    """Reports and flushes, one behind the other."""
    return flood(
        Crowd(
            target,
            1,
            b"stats\r\nstats reset\r\nflush_namespace x\r\nstats sizes\r\nstats conns\r\nstats detail on\r\n"
            * 200,
            reads=True,
        )
    )
