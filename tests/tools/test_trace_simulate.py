"""`micanite trace simulate`: misses against memory, on a trace made here."""

import csv
import random
import subprocess

import pytest

from harness.server import command, environment


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Requests of 2,000 objects of 100 bytes: a hundred of them again and again, the others in turn."""
    rng = random.Random(1)
    path = tmp_path_factory.mktemp("trace") / "made.csv"
    with path.open("w", encoding="ascii") as file:
        file.write("# time, object, size\n")
        for number in range(40_000):
            rare = 100 + number // 2 % 1_900
            key = rng.randrange(100) if number % 2 else rare
            file.write(f"{number // 1000}, {key}, 100\n")
    return path


def simulate(*arguments):
    words = [command()[0], "trace", "simulate", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment())


def rows(path):
    with path.open(encoding="ascii") as file:
        return {(row["policy"], int(row["bytes"])): row for row in csv.DictReader(file)}


def test_table_csv_figure_and_recommendation(trace, tmp_path):
    out, figure = tmp_path / "out.csv", tmp_path / "out.svg"
    done = simulate(
        trace, "--accounting", "payload", "--bytes", "20000", "400000", "--csv", out, "--svg", figure
    )
    assert done.returncode == 0, done.stderr
    assert "40000 requests" in done.stdout and "Recommended: " in done.stdout, done.stdout
    ratios = rows(out)
    names = {"s3-fifo", "clock", "approximate-lru", "lru", "fifo", "belady"}
    assert set(ratios) == {(name, size) for name in names for size in (20_000, 400_000)}
    # Everything fits into the larger one (but for what the ends of a log's laps leave unused): each object
    # misses once.
    assert all(float(ratios[name, 400_000]["object_miss_ratio"]) == 0.05 for name in names)
    # The scan leaves no policy but those that see through it the hundred objects that are worth it.
    assert float(ratios["s3-fifo", 20_000]["object_miss_ratio"]) < 0.51
    assert 0.4 < float(ratios["belady", 20_000]["object_miss_ratio"]) < 0.5
    assert float(ratios["lru", 20_000]["byte_miss_ratio"]) > 0.6
    assert figure.read_text(encoding="utf-8").startswith("<svg")


def test_sample_and_warm_up(trace, tmp_path):
    out = tmp_path / "out.csv"
    done = simulate(
        trace,
        "--policy",
        "lru,engine:fifo",
        "--bytes",
        "400%",
        "--sample",
        "0.5",
        "--warmup",
        "0.5",
        "--csv",
        out,
    )
    assert done.returncode == 0, done.stderr
    assert "simulated with 50" in done.stdout, done.stdout
    assert [row["object_miss_ratio"] for row in rows(out).values()] == ["0.000000"] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--policy", "arc"), "unknown policy 'arc': one of s3-fifo"),
        (("--bytes", "x"), "is no size"),
        (("--sample", "2"), "neither auto nor"),
        (("--warmup", "1"), "below 1"),
        (("--memory", "10%"), "say bytes"),
    ],
)
def test_options_that_make_no_sense(trace, arguments, says):
    done = simulate(trace, *arguments)
    assert done.returncode == 64 and says in done.stderr, done.stderr


def test_sizes_are_read_as_serve_reads_them(trace, tmp_path):
    out = tmp_path / "out.csv"
    words = ("--bytes", "1.5mb", "1.5MiB", "64GB", "64GiB", "--memory", "1.5gb", "--policy", "lru")
    done = simulate(trace, *words, "--csv", out)
    assert done.returncode == 0, done.stderr
    assert {size for _, size in rows(out)} == {3 << 19, 64 << 30}


def test_no_trace(tmp_path):
    done = simulate(tmp_path / "absent.csv")
    assert done.returncode == 1 and "absent.csv" in done.stderr, done.stderr
