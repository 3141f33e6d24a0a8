"""Many processes at once over more data than memory holds: a miss is fine, a wrong value never is."""

import hashlib
import multiprocessing
import random
import zlib

from harness.failures import nothing_wrong

KEYS = 60_000
BATCH = 50
CLIENTS = 3
ROUNDS = 1500


def value_of(name, version):
    """The value that version `version` of a key has: anybody who knows the key can check it."""
    size = zlib.crc32(name) % 4000 + 20
    seed = hashlib.sha256(b"%b %d" % (name, version)).hexdigest().encode()
    return (b"%d " % version + seed * (size // len(seed) + 1))[:size]


def check(name, value):
    """Returns whether a value is some version of this key's value."""
    version, space, _ = value.partition(b" ")
    return bool(space) and version.isdigit() and value == value_of(name, int(version))


def hammer(server, seed, rounds, results):
    """One client process. Puts (hits, misses, the first wrong value or None) into `results`."""
    try:
        results.put(hammer_rounds(server, random.Random(seed), rounds))
    except BaseException as error:
        results.put((0, 0, f"client {seed}: {error!r}"))


def hammer_rounds(server, generator, rounds):
    """Batches of sets, multi-gets, deletes and touches over keys that all processes share."""
    hits = misses = 0
    with server.connect() as connection:
        for _ in range(rounds):
            names = [b"hammer-%d" % int(KEYS * generator.random() ** 2) for _ in range(BATCH)]
            for name, value in connection.values(b"get " + b" ".join(dict.fromkeys(names)) + b"\r\n").items():
                hits += 1
                if not check(name, value[1]):
                    return hits, misses, f"{name!r}: {value[1][:100]!r}"
            requests = []
            for name in names:
                if generator.random() < 0.1:
                    requests.append(b"delete %b noreply\r\n" % name)
                else:
                    value = value_of(name, generator.randrange(1000))
                    requests.append(
                        b"set %b 0 %d %d noreply\r\n%b\r\n"
                        % (name, generator.choice([0, 0, 1, 100]), len(value), value)
                    )
            connection.send(b"".join(requests) + b"mn\r\n")
            if (line := connection.line()) != b"MN":
                return hits, misses, f"a noreply batch was answered: {line!r}"
            misses += BATCH
    return hits, misses, None


def test_a_miss_is_fine_a_wrong_value_never(start, workers):
    server = start("-t", workers, "-m", "64")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    processes = [
        context.Process(target=hammer, args=(server, seed, ROUNDS, results)) for seed in range(CLIENTS)
    ]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=240) for _ in processes]
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    nothing_wrong([wrong for _, _, wrong in outcomes if wrong])
    assert sum(hits for hits, _, _ in outcomes) > 1000, outcomes
    assert server.alive()
    stats = server.stats()
    assert int(stats["evictions"]) > 0, "the data was to be more than memory holds"
