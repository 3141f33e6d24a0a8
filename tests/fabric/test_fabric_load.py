"""`micanite load fabric://`: three ways of reading, what the report says of them, and its errors."""

import pytest

from harness.native.endpoint import FabricServer, free_places
from harness.tools.load import is_clean, load, run_load

SHAPE = ("--dataset", "100/1024", "--items", 300, "--operations", 600, "--warmup", "0s", "--timeout", "30s")


@pytest.fixture
def server(provider):
    with FabricServer(provider, "-m", 64) as server:
        yield server


def target(address):
    provider, place = address.split(",")
    return f"fabric://{place}?provider={provider}"


@pytest.mark.parametrize("by", ["own", "other"])
@pytest.mark.parametrize("reads", ["innercache", "one-sided", "two-sided"])
def test_ways_of_reading(server, reads, by):
    report = load(target(server.fabric_address), *SHAPE, f"--fill={by}", "--reads", reads, "--get", 90)
    assert is_clean(report), report
    fabric = report["fabric"]
    assert fabric["reads"] == reads and fabric["gets_one_sided"] + fabric["gets_two_sided"] > 0
    if reads == "two-sided":
        assert fabric["one_sided_ratio"] == 0 and fabric["one_sided_latency_us"] is None, fabric
    else:
        assert 0 < fabric["one_sided_ratio"] <= 1 and fabric["one_sided_latency_us"]["p50"] > 0, fabric
    assert report["get_latency_us"]["p50"] > 0 and report["set_latency_us"]["p50"] > 0


def test_long_values(server):
    shape = (*SHAPE[:1], "100/200000", *SHAPE[2:], "--items", 20, "--operations", 100)
    report = load(target(server.fabric_address), *shape, "--fill=own", "--pipeline", 4)
    assert is_clean(report), report


def test_a_closed_port_is_reported(provider):
    ended = run_load(target(free_places(provider, 1)), *SHAPE[:4])
    assert ended.returncode == 1, ended
    assert "nobody listens there; start a server there: micanite serve --fabric" in ended.stderr, ended
