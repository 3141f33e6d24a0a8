"""`micanite load --workload`: published workloads, against real servers."""

import pytest

from harness.native.server import NativeServer
from harness.network.claims import free_port
from harness.poll import until
from harness.tools.load import PATIENT, SHORT, load_some, run_load

USAGE = 64
HITS = {"fb-usr": 0.982, "fb-app": 0.929, "fb-etc": 0.814, "fb-var": 0.937, "fb-sys": 0.987}
GETS = {"fb-usr": 0.997, "fb-app": 0.834, "fb-etc": 0.736, "fb-var": 0.18, "fb-sys": 0.675}
ITEMS = ("--items", 2000, "--fill")
# Number of answers from which on shares are reliable.
ENOUGH = 1000


@pytest.fixture(scope="module")
def server():
    """A server of ours with all ports, of which UDP has the number of TCP."""
    port = free_port()
    with NativeServer("-p", port, "-U", port, "-t", 2, "-m", 256) as server:
        yield server


def is_as_published(report, pool):
    """Returns whether the hit ratio is the pool's. Values must be right; datagrams may be lost."""
    assert report["wrong_values"] == report["refused"] == report["unsent"] == 0, report
    assert report["answered"] >= 0.9 * report["sent"] > 0, report
    return is_near(report["hit_ratio"], HITS[pool], GETS[pool] * report["answered"], 0.005)


def is_near(share, expected, whole, tolerance):
    """Returns whether a share is as expected: within four standard deviations and a tolerance."""
    return abs(share - expected) <= 4 * (expected * (1 - expected) / whole) ** 0.5 + tolerance


def run(*words, least=ENOUGH):
    """The report of a run with enough answers."""
    return load_some(*words, least=least)[0]


def run_and_count(server, *words, names=("cmd_get", "cmd_set")):
    """The same with what it added to these counters of the server."""
    report, before = load_some(*words, least=ENOUGH, before=server.stats)
    after = server.stats()
    return report, [int(after[name]) - int(before[name]) for name in names]


@pytest.mark.parametrize("pool", HITS)
def test_a_pool_over_tcp(server, pool):
    report = run(f"memcached://127.0.0.1:{server.port}", *PATIENT, *ITEMS, "--workload", pool)
    assert is_as_published(report, pool), report


@pytest.mark.parametrize("pool", HITS)
def test_gets_in_datagrams_and_writes_over_tcp(server, pool):
    url = f"memcached+udp://127.0.0.1:{server.port}"
    report, (sets,) = run_and_count(
        server,
        url,
        *SHORT,
        *ITEMS,
        "--workload",
        pool,
        "--seed",
        2,
        "--tcp-writes",
        "--pipeline",
        2,
        names=("cmd_set",),
    )
    assert is_as_published(report, pool), report
    assert sets > 0


@pytest.mark.parametrize("pool", [pool for pool in HITS if pool != "fb-etc"])
def test_a_pool_over_the_native_protocol(server, pool):
    report = run(
        f"native://127.0.0.1:{server.native_port}", *SHORT, *ITEMS, "--workload", pool, "--seed", 3,
        "--pipeline", 4
    )
    assert is_as_published(report, pool), report


def test_several_keys_per_request_and_threads(server):
    url = f"memcached://127.0.0.1:{server.port}"
    report = run(
        url, *PATIENT, *ITEMS, "--workload", "fb-etc", "--multiget", 5, "--threads", 2, "--connections", 4
    )
    assert report["wrong_values"] == report["refused"] == report["lost"] == 0
    assert abs(report["hit_ratio"] - HITS["fb-etc"]) < 0.1


@pytest.mark.parametrize("mix", [None, "50/20/30"])
def test_operations(start, mix):
    server = start("-t", 1, "-m", 128)
    url = f"memcached://127.0.0.1:{server.port}"
    run(url, *PATIENT, *ITEMS, "--workload", "fb-app", least=1)
    words = (url, *PATIENT, *ITEMS[:2], "--workload", "fb-app", *(("--mix", mix) if mix else ()))
    _, counts = run_and_count(server, *words, names=("cmd_get", "cmd_set", "delete_hits", "delete_misses"))
    gets, sets, deletes = counts[0], counts[1], counts[2] + counts[3]
    shares = (0.5, 0.2, 0.3) if mix else (0.834, 0.052, 0.114)
    for count, share in zip((gets, sets, deletes), shares, strict=True):
        whole = gets + sets + deletes
        assert is_near(count / whole, share, whole, 0.03), counts


@pytest.mark.parametrize(
    "protocol, words",
    [
        ("memcached", ("--get", 100)),
        ("memcached", ("--get", 100, "--workload", "etc-model", "--rate", 2000)),
        ("native", ("--workload", "fb-usr", "--mix", "1/0/0")),
        ("native", ("--get", 100, "--rate", 2000)),
    ],
)
def test_missed_keys_are_stored(protocol, words):
    with NativeServer("-t", 1, "-m", 64) as server:
        url = f"{protocol}://127.0.0.1:{server.native_port if protocol == 'native' else server.port}"
        words = ("--items", 100, *words)
        empty = run(url, *SHORT, *words, least=1)
        assert empty["hit_ratio"] == 0 and int(server.stats()["curr_items"]) == 0

        def finds_what_it_stored():
            # Each run asks for the same keys first: one that was cut short would never get to the others.
            report = run(url, *SHORT, *words, "--demand-fill", least=1000)
            assert report["wrong_values"] == 0, report
            return report["hit_ratio"] > 0.9 and int(server.stats()["curr_items"]) > 50

        until(finds_what_it_stored, "most items to be there")


def test_new_keys_are_new_to_every_run(server):
    words = ("--workload", "fb-var", "--sweep", "5k,5k,5k", "--seed", 100, "--mix", "50/50/0")
    report = run(f"memcached://127.0.0.1:{server.port}", *PATIENT, *ITEMS, *words)
    assert report["wrong_values"] == 0 and is_near(
        report["hit_ratio"], HITS["fb-var"], report["answered"] / 2, 0.03
    ), report


def test_the_published_model(server):
    report = run(
        f"memcached://127.0.0.1:{server.port}", *PATIENT, *ITEMS, "--workload", "etc-model", "--get", 90
    )
    assert report["hit_ratio"] == 1 and report["wrong_values"] == report["refused"] == 0, report
    assert report["plan"]["workload"] == "etc-model"


def test_the_self_test():
    ended = run_load("--self-test", "--workload", "fb-etc", "--quiet")
    assert ended.returncode == 0 and "memcached over UDP" in ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "words, reason",
    [
        (("memcached://127.0.0.1:1", "--workload", "etc"), "etc-model"),
        (("memcached://127.0.0.1:1", "--workload", "fb-etc", "--get", "50"), "--mix 90/8/2"),
        (("memcached://127.0.0.1:1", "--workload", "fb-etc", "--popularity", "uniform"), "part of fb-etc"),
        (("memcached://127.0.0.1:1", "--workload", "fb-etc", "--dataset", "tiny"), "cannot be used with"),
        (("memcached://127.0.0.1:1", "--workload", "fb-etc", "--mix", "0/0/0"), "is no mix"),
        (("memcached://127.0.0.1:1", "--workload", "etc-model", "--mix", "1/1/1"), "--get"),
        (("memcached://127.0.0.1:1", "--demand-fill", "--multiget", "2"), "one key per GET"),
        (("memcached://127.0.0.1:1", "--tcp-writes"), "memcached+udp://"),
        (("memcached+udp://127.0.0.1:1", "--workload", "fb-etc"), "--tcp-writes"),
        (("native://127.0.0.1:1", "--workload", "fb-etc"), "use memcached://"),
    ],
)
def test_usage(words, reason):
    ended = run_load(*words)
    assert ended.returncode == USAGE, ended.stderr
    assert reason in " ".join(ended.stderr.split()), ended.stderr


LAWS = {
    "ycsb-a": 0.5, "ycsb-b": 0.95, "ycsb-c": 1.0, "ycsb-d": 0.95, "mica-tiny": 0.95, "mica-xlarge": 0.95,
    "innercache-zipf-10": 0.1, "innercache-latest-90": 0.9
}


@pytest.mark.parametrize("workload", LAWS)
def test_a_choice_of_laws(server, workload):
    url = f"memcached://127.0.0.1:{server.port}"
    report, (gets, sets) = run_and_count(
        server, url, *PATIENT, *ITEMS, "--workload", workload, "--pipeline", 4
    )
    assert report["wrong_values"] == report["refused"] == report["lost"] == 0, report
    assert report["plan"]["workload"] == workload and report["plan"]["get_percent"] == 100 * LAWS[workload]
    # --fill has stored 2,000, and the share is drawn.
    whole = gets + sets - 2000
    assert is_near(gets / whole, LAWS[workload], whole, 0.02), (gets, sets)


def test_read_modify_write_is_a_get_and_a_set(server):
    url = f"memcached://127.0.0.1:{server.port}"
    report, (gets, sets) = run_and_count(server, url, *PATIENT, *ITEMS, "--workload", "ycsb-f")
    assert report["wrong_values"] == report["refused"] == 0 and report["hit_ratio"] == 1.0, report
    assert is_near((sets - 2000) / gets, 0.5, gets, 0.02), (gets, sets)


def test_the_large_values_of_innercache(server):
    url = f"memcached://127.0.0.1:{server.port}"
    report = run(url, *PATIENT, "--items", 20, "--fill", "--workload", "innercache-zipf-50-512k", least=2)
    assert report["wrong_values"] == report["refused"] == 0, report
    # A cache evicts what nobody has asked for since its log went round, here after 250 stores.
    assert report["hit_ratio"] > 0.9


def test_laws_may_be_changed_one_by_one(server):
    url = f"memcached://127.0.0.1:{server.port}"
    report = run(
        url, *PATIENT, *ITEMS, "--workload", "ycsb-b", "--get", 80, "--popularity", "uniform", least=1
    )
    plan = report["plan"]
    assert (plan["get_percent"], plan["popularity"], plan["workload"]) == (80, "uniform", "ycsb-b")


def test_an_unknown_workload_lists_the_known_ones(server):
    refused = run_load(f"memcached://127.0.0.1:{server.port}", "--workload", "ycsb-e")
    assert refused.returncode == USAGE and "ycsb-a" in refused.stderr and "innercache" in refused.stderr
    refused = run_load(f"memcached://127.0.0.1:{server.port}", "--workload", "ycsb-f", "--multiget", 2)
    assert refused.returncode == USAGE and "--multiget" in refused.stderr
    refused = run_load(f"native://127.0.0.1:{server.native_port}", "--workload", "innercache-zipf-50")
    assert refused.returncode == USAGE and "memcached://" in refused.stderr
