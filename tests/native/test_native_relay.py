"""The native protocol over a bad network: a relay that loses, doubles, delays and reorders datagrams, by a
seed."""

import itertools
import random

import pytest

from harness.native import Opcode, Status
from harness.native.client import NativeClient
from harness.native.server import Difference, NativeServer
from harness.network.claims import free_ports
from harness.tools.programs import Increments, Relay

BAD = {"loss": 0.3, "duplicate": 0.3, "reorder": 0.2, "reorder_ms": 3}
MILLION = 1_000_000
# Each has at most as many increments in the air as the server remembers, and much waiting to do.
CLIENTS = 64
DEADLINE_S = 400


def served(workers, access):
    """A server whose ports follow each other, as a relay needs them."""
    return NativeServer("-t", workers, "-m", 64, "--access", access, "--native", free_ports(workers)[0])


@pytest.mark.parametrize(
    ("workers", "access", "count"),
    [
        pytest.param(1, "erew", 100_000, marks=pytest.mark.full),
        pytest.param(2, "erew", MILLION, marks=pytest.mark.full),
        (2, "crcw", 100_000),
        pytest.param(4, "crew", 100_000, marks=pytest.mark.full),
    ],
)
def test_increments_through_a_bad_network_are_exact(workers, access, count):
    """The client library sends: every increment counts once, and every one is answered."""
    with served(workers, access) as server:
        counted = Difference(server, "answered_again", "forgotten", "requests")
        with (
            Relay(server.native_port, workers, seed=workers, **BAD) as relay,
            Increments(f"127.0.0.1:{relay.port}", count=count, clients=CLIENTS) as increments,
        ):
            report = increments.report(DEADLINE_S)
        assert report["done"] == count and report["datagrams_resent"] > 0
        assert counted("answered_again") > 0 and counted("requests") > count
        assert_bad(relay.counters)
        assert relay.counters["clients"] > CLIENTS, "one more reads"


def assert_bad(counters, reorder=BAD["reorder"]):
    """The relay has been in the way of everything, and done what it was asked to do."""
    assert counters["ports_not_relayed"] == counters["refused"] == 0
    all_datagrams = counters["from_clients"] + counters["from_server"]
    for name, share in (
        ("lost", 0.3), ("duplicated", 0.7 * 0.3), ("reordered", 0.7 * reorder * (1 + 0.3 * (1 - reorder)))
    ):
        # Far beyond chance: the fewest datagrams here are some thousand.
        assert abs(counters[name] / all_datagrams - share) < 0.05, (name, counters)


def test_owners_change_while_increments_get_lost():
    generator = random.Random(1)
    modes = itertools.cycle(["erew", "crcw", "crew"])
    changes = 0
    while changes <= 8:
        with served(2, "erew") as server:
            partitions = len(server.routes())
            with (
                Relay(server.native_port, 2, seed=3, **BAD) as relay,
                Increments(f"127.0.0.1:{relay.port}", count=30_000, clients=CLIENTS) as increments,
            ):
                while increments.runs():
                    words = (
                        ("mode", next(modes))
                        if changes % 8 == 7
                        else ("move", generator.randrange(partitions), changes % 2)
                    )
                    changed = server.ctl(*words)
                    assert changed.returncode == 0, changed.stderr
                    changes += 1
                increments.report(DEADLINE_S)
            assert_bad(relay.counters)


def test_the_suites_own_client_through_a_bad_network():
    """Each operation until it is answered: what is known to be stored is there, what was deleted is not.

    Nothing is reordered: a second copy of a set, come late, undoes what came after it (docs/protocol.md).
    Ports around the kernel have their bad network in test_port_faults.py."""
    with served(2, "erew") as server:
        counted = Difference(server, "answered_again")
        with Relay(server.native_port, 2, seed=4, **BAD | {"reorder": 0}) as relay:
            with NativeClient(relay.port, resend_s=0.02) as client:
                client.learn()
                work(client, random.Random(2))
                assert client.resent > 0
        assert counted("answered_again") > 0
        assert_bad(relay.counters, reorder=0)


def work(client, generator):
    """Operations on a few keys, with their values known at every moment."""
    known = {}
    client.introduce()
    for turn in range(200):
        key = b"key-%d" % generator.randrange(20)
        match generator.randrange(5):
            case 0:
                known[key] = b"%d" % (turn + 1)
                client.set(key, known[key])
            case 1:
                assert client.get(key) == known.get(key)
            case 2:
                status = client.status(Opcode.APPEND, key, value=b"0")
                assert status == (Status.OK if key in known else Status.NOT_STORED)
                if key in known:
                    known[key] += b"0"
            case 3:
                reply = client.do(Opcode.INCREMENT, key, argument=turn)
                if key in known and len(known[key]) < 19:
                    known[key] = b"%d" % (int(known[key]) + turn)
                    assert reply.number == int(known[key])
                elif key not in known:
                    assert reply.status == Status.NOT_FOUND
                else:
                    client.status(Opcode.DELETE, key)
                    del known[key]
            case _:
                # Resent, the second one finds nothing.
                assert client.status(Opcode.DELETE, key) in (Status.OK, Status.NOT_FOUND)
                known.pop(key, None)
                assert client.get(key) is None


def test_a_good_relay_changes_nothing_but_the_ports():
    with served(3, "erew") as server:
        with Relay(server.native_port, 3) as relay:
            with NativeClient(relay.port) as client, server.client() as direct:
                client.learn()
                assert [port for port, _ in client.directory.cores] == list(range(relay.port, relay.port + 3))
                assert [port for port, _ in direct.directory.cores] == list(
                    range(server.native_port, server.native_port + 3)
                )
                assert client.directory.owners == direct.directory.owners
                forwarded = Difference(server, "forwarded")
                for number in range(100):
                    client.set(b"key-%d" % number, b"v")
                assert forwarded("forwarded") == 0, "each port leads to its own"
                assert client.resent == 0
        counters = relay.counters
        assert counters["lost"] == counters["duplicated"] == counters["reordered"] == counters["unsent"] == 0
        assert counters["sent"] == counters["from_clients"] + counters["from_server"]
