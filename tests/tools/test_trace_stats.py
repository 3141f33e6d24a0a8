"""`micanite trace stats`: what is in a trace, as tables and figures."""

import csv
import xml.dom.minidom

import pytest

from harness.tools.trace import run_trace

# Two prefixes, an hour and a half: time, key, key size, value size, client, operation, TTL.
LINES = [
    "0,user:1,6,100,1,get,0",
    "10,user:1,6,100,1,get,0",
    "3599,user:2,6,300,1,set,60",
    "3600,item/7,6,50,2,get,0",
    "5400,user:1,6,100,1,delete,0",
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


def table(folder, name):
    with (folder / f"{name}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_tables_describe_a_trace(trace, tmp_path):
    told = run_trace("stats", trace, "--csv", tmp_path / "tables")
    assert told.returncode == 0, told.stderr
    lines = {line.split("  ")[0].strip(): line.split()[-3:] for line in told.stdout.splitlines() if line}
    assert lines["requests"] == ["5", "4", "1"] and lines["objects"] == ["3", "2", "1"], told.stdout
    operations = {
        (row["group"], row["operation"]): int(row["requests"])
        for row in table(tmp_path / "tables", "operations")
    }
    assert (
        operations["all", "get"] == 3
        and operations["user", "set"] == 1
        and operations["(others)", "get"] == 1
    )
    reuse = {
        row["hour"]: float(row["share"])
        for row in table(tmp_path / "tables", "reuse")
        if row["group"] == "all"
    }
    assert reuse == {"0": 0.5, "1": 0.5}
    hours = [
        row
        for row in table(tmp_path / "tables", "windows")
        if row["group"] == "all" and row["window_s"] == "3600"
    ]
    assert [(row["start_s"], row["unique_keys"], row["working_set_bytes"]) for row in hours] == [
        ("0", "2", "412"), ("3600", "2", "162")
    ]
    assert not (tmp_path / "tables" / "hours.csv").exists(), "times are no dates"


def test_figures_are_drawn(trace, tmp_path):
    assert run_trace("stats", trace, "--svg", tmp_path / "figures").returncode == 0
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert {
        "operations", "popularity", "rate", "reuse", "sizes-by-bytes", "sizes-by-count", "working-set"
    } <= names
    for path in (tmp_path / "figures").iterdir():
        drawn = xml.dom.minidom.parse(str(path))
        assert drawn.getElementsByTagName("title") and drawn.getElementsByTagName("text")


def test_causes_of_misses(tmp_path):
    path = tmp_path / "requests.csv"
    lines = [
        "0,a,1,50,1,get,0", "1,a,1,50,1,get,0", "2,a,1,0,1,delete,0", "3,a,1,50,1,get,0", "4,b,1,50,1,set,10",
        "20,b,1,50,1,get,0"
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    told = run_trace("stats", path, "--bytes", "64m", "--csv", tmp_path / "tables")
    assert told.returncode == 0, told.stderr
    causes = {row["cause"]: int(row["reads"]) for row in table(tmp_path / "tables", "misses")}
    assert causes == {"compulsory": 1, "invalidation": 2, "capacity": 0}, told.stdout
    # Every item of a megabyte has to go before it is asked for again.
    lines = [f"{at},key{at % 200},6,1000000,1,get,0" for at in range(600)]
    path.write_text("".join(f"{line}\n" for line in lines))
    assert run_trace("stats", path, "--bytes", "64m", "--csv", tmp_path / "tables").returncode == 0
    causes = {row["cause"]: int(row["reads"]) for row in table(tmp_path / "tables", "misses")}
    assert causes["compulsory"] == 200 and causes["capacity"] > 200, causes
    refused = run_trace("stats", path, "--bytes", "10%")
    assert refused.returncode == 64 and "64m" in refused.stderr


def test_policies_have_other_causes(tmp_path):
    """Of 30 items in turn, for which there is too little memory, neither LRU nor FIFO hits any."""
    path = tmp_path / "requests.csv"
    path.write_text("".join(f"{at},key{at % 30:02},5,400000,1,get,0\n" for at in range(300)))
    for policy in ("lru", "fifo", "engine:fifo"):
        told = run_trace("stats", path, "--bytes", "8m", "--policy", policy, "--csv", tmp_path / policy)
        assert told.returncode == 0 and f"({policy})" in told.stdout, told.stderr
        rows = table(tmp_path / policy, "misses")
        causes = {row["cause"]: int(row["reads"]) for row in rows}
        assert causes == {"compulsory": 30, "invalidation": 0, "capacity": 270}, (policy, causes)
        assert {row["policy"] for row in rows} == {policy}
    for words, reason in (
        (("--bytes", "8m", "--policy", "belady"), "simulate"),
        (("--bytes", "8m", "--policy", "arc"), "unknown policy"),
        (("--policy", "lru"), "--bytes"),
        (("--interval", "0"), "--interval"),
    ):
        refused = run_trace("stats", path, *words)
        assert refused.returncode == 64 and reason in refused.stderr, refused.stderr


def test_hits_over_time_and_in_bursts(tmp_path):
    """30 requests a second for 300 s, every other one of a new key; for 5 s six times as many of one key."""
    path = tmp_path / "requests.csv"
    lines = []
    for second in range(300):
        new = range(15) if second % 2 == 0 else range(15, 30)
        lines += [f"{second},new{second}-{at},9,10,1,get,0" for at in new]
        lines += [f"{second},old,9,10,1,get,0" for _ in range(15)]
        lines += [f"{second},old,9,10,1,get,0" for _ in range(150) if 200 <= second < 205]
    path.write_text("".join(f"{line}\n" for line in lines))
    told = run_trace(
        "stats", path, "--bytes", "8m", "--csv", tmp_path / "tables", "--svg", tmp_path / "figures"
    )
    assert told.returncode == 0, told.stderr
    [burst] = table(tmp_path / "tables", "bursts")
    assert (burst["start_s"], burst["seconds"], burst["requests"]) == ("200", "5", "900"), burst
    assert float(burst["peak"]) == 6 and abs(float(burst["hit_ratio_before"]) - 0.5) < 0.01
    assert abs(float(burst["hit_ratio"]) - 165 / 180) < 1e-5
    assert abs(float(burst["keys_per_request"]) - 16 / 180) < 1e-5
    hits = table(tmp_path / "tables", "hits")
    assert len(hits) == 300 and not hits[0]["told_hit_ratio"]
    assert abs(float(hits[202]["simulated_hit_ratio"]) - 165 / 180) < 1e-5
    for name in ("hits", "bursts"):
        assert xml.dom.minidom.parse(str(tmp_path / "figures" / f"{name}.svg"))
    # Every key but one is read once, in the only hour.
    rows = {line.split("  ")[0].strip(): line.split()[-1] for line in told.stdout.splitlines() if line}
    assert float(rows["keys never read twice in an hour, %"]) > 99.9, told.stdout


def test_sizes_of_sets_stand_apart(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text("0,a,1,10,1,get,0\n1,bb,2,30,1,set,0\n2,ccc,3,20,1,add,0\n3,a,1,5,1,append,0\n")
    assert run_trace("stats", path, "--csv", tmp_path / "tables").returncode == 0
    sizes = [(row["what"], row["bytes"]) for row in table(tmp_path / "tables", "sizes")]
    assert [bytes for what, bytes in sizes if what == "set-value"] == ["20", "30"], sizes
    assert [bytes for what, bytes in sizes if what == "set-key"] == ["2", "3"], sizes


def test_other_prefixes(trace):
    told = run_trace("stats", trace, "--delimiter", "/")
    assert told.stdout.split("\n")[2].split() == ["all", "(others)", "item"], told.stdout


def test_impossible_requests_are_refused_with_a_reason(trace, tmp_path):
    refused = run_trace("stats", trace, "--sample", "2")
    assert refused.returncode == 64 and "at most 1" in refused.stderr
    refused = run_trace("stats", tmp_path / "none.csv")
    assert refused.returncode == 1 and "none.csv" in refused.stderr
    (tmp_path / "file").write_text("x")
    refused = run_trace("stats", trace, "--csv", tmp_path / "file")
    assert refused.returncode == 1 and "cannot write" in refused.stderr
