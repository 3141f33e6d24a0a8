"""`micanite trace generate`: published workloads as traces; and how `micanite trace` reads and writes where
that is not easy."""

import fcntl
import struct
import subprocess
import termios

import pytest

from harness.poll import until
from harness.server import command, environment
from harness.tools.trace import run_trace

GETS = {"ycsb-b": 95, "mica-small": 95, "innercache-zipf-10": 10, "fb-etc": 73.6, "etc-model": 100}


@pytest.mark.parametrize("workload", GETS)
def test_a_workload_is_a_trace(workload, tmp_path):
    path = tmp_path / "made.csv"
    made = run_trace("generate", workload, "--items", 1000, "--requests", 20000)
    assert made.returncode == 0, made.stderr
    assert made.stdout == run_trace("generate", workload, "--items", 1000, "--requests", 20000).stdout
    assert (
        made.stdout
        != run_trace("generate", workload, "--items", 1000, "--requests", 20000, "--seed", 2).stdout
    )
    path.write_text(made.stdout)
    told = run_trace("stats", path)
    lines = {line.split("  ")[0].strip(): line.split()[-1] for line in told.stdout.splitlines() if line}
    assert lines["requests"] == "20,000" and abs(float(lines["get %"]) - GETS[workload]) < 1.5, told.stdout


def test_every_item_is_stored_before(tmp_path):
    made = run_trace("generate", "mica-tiny", "--items", 500, "--requests", 10, "--fill")
    stored = made.stdout.splitlines()[:500]
    assert len({line.split(",")[1] for line in stored}) == 500 and all(",set," in line for line in stored)


def test_a_pool_follows_the_day(tmp_path):
    """The rate is lowest at 08:00 and highest at 17:00, and requests are the same for the same seed."""
    words = ("generate", "fb-etc", "--items", 3000, "--requests", 380_000, "--daily")
    made = run_trace(*words)
    assert made.returncode == 0 and made.stdout == run_trace(*words).stdout, made.stderr
    hours = [0] * 48
    for line in made.stdout.splitlines():
        hours[int(line.split(",")[0]) // 3600] += 1
    assert 0.4 < hours[8] / hours[17] < 0.7 and hours[8] < hours[3], hours


def test_items_of_another_size_have_the_memory_of_the_first(tmp_path):
    """Small items follow large ones, and all of them fit. S3-FIFO forgets the large ones slowly."""
    path, misses = tmp_path / "made.csv", tmp_path / "misses.csv"
    words = ("mica-large", "--items", 20_000, "--requests", 60_000, "--fill", "--then", "mica-tiny,100000")
    made = run_trace("generate", *words)
    path.write_text(made.stdout)
    times_s = [int(line.partition(",")[0]) for line in made.stdout.splitlines()]
    assert len(times_s) == 240_000 and times_s == sorted(times_s), made.stderr
    told = run_trace("simulate", path, "--bytes", "16m", "--sample", 1, "--warmup", 0.75, "--csv", misses)
    ratios = {line.split(",")[0]: float(line.split(",")[2]) for line in misses.read_text().splitlines()[1:]}
    most = {"s3-fifo": 0.2, "clock": 0.1, "approximate-lru": 0.1, "lru": 0, "fifo": 0, "belady": 0}
    assert set(ratios) == set(most), told.stdout + told.stderr
    assert all(ratios[policy] <= most[policy] for policy in most), ratios


@pytest.mark.parametrize(
    "words",
    [
        ("fb-etc", "--rate", 5), ("ycsb-e",), ("ycsb-b", "--items", 0), ("ycsb-b", "--daily"),
        ("ycsb-b", "--rate", 5, "--then", "fb-etc"), ("ycsb-b", "--then", "ycsb-a,0"),
        ("ycsb-b", "--then", "ycsb-a,"), ("ycsb-b", "--then", "ycsb-e"),
    ],
)  # fmt: skip
def test_contradictory_options_are_refused(words):
    assert run_trace("generate", *words).returncode == 64


def unread(pipe):
    """Returns how many bytes nobody has read."""
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


def test_a_pipe_brings_a_trace_in_pieces():
    words = [command()[0], "trace", "cat", "/dev/stdin"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as running:
        for piece in ("0,k", ",1,", "2,3,get,0\n", "1,k,1,2,3,get,0\n"):
            running.stdin.write(piece)
            running.stdin.flush()
            until(lambda: unread(running.stdin) == 0, "the piece to be read")
        running.stdin.close()
        assert running.stdout.read().splitlines() == ["0,k,1,2,get,,", "1000,k,1,2,get,,"]


@pytest.mark.parametrize("what", ["cat", "stats", "simulate"])
def test_a_full_disk_is_told(what, tmp_path):
    path = tmp_path / "made.csv"
    path.write_text("0,k,1,2,3,get,0\n")
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [command()[0], "trace", what, path], stdout=full, stderr=subprocess.PIPE, text=True,
            env=environment(), timeout=60
        )
    assert ended.returncode == 1 and "No space left" in ended.stderr and "panicked" not in ended.stderr


def test_a_sample_without_keys_is_an_error(tmp_path):
    path = tmp_path / "made.csv"
    path.write_text("0,k,1,2,3,get,0\n")
    ended = run_trace("simulate", path, "--sample", "0.0000001")
    assert ended.returncode == 1 and "no key that is read is in the sample" in ended.stderr
