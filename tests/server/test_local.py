"""`serve --local`: what the server says, refuses and counts, and loads by `micanite load local://`."""

import contextlib
import itertools
import os
import re
import resource
import socket
import stat
from pathlib import Path

import pytest

from harness.failures import Hang
from harness.memory import MIB, printed_budget_bytes, resident_bytes
from harness.poll import until
from harness.server import run, run_ctl
from harness.tools.load import ENDLESS, is_clean, load, run_load, start_load

SHAPE = ("--dataset", "8/100", "--items", 2000, "--warmup", "0s", "--timeout", "30s")


@pytest.fixture
def place(tmp_path):
    """Path of a socket."""
    return tmp_path / "local"


def stats(server, group="local"):
    with server.connect() as connection:
        return connection.stats(group)


def test_a_start_says_what_readers_see_and_what_they_cost(start, place):
    server = start("-m", 64, "--local", place)
    said = server.stderr()
    assert re.search(r"64 MiB that readers map \(--local\) were made in \d+ ms, \d+ ms per GiB", said), said
    assert re.search(rf"local +{place}, mode 0600: at most 256 readers, 1\.0 MiB for their notes", said), said
    assert "can see the whole memory" in said and "secret of the index" in said, said
    assert "watch and recordings do not see its gets" in said, said
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600


def test_an_open_socket_is_warned_of(start, place, tmp_path):
    said = start("--local", place, "--local-mode", "0666").stderr()
    assert "every user of this host may attach" in said, said
    users = tmp_path / "users"
    users.write_text("me:secret\n")
    # It answers nobody who has not logged in.
    closed = start("--local", tmp_path / "b", "--local-mode", "0666", "-Y", users, ready=False)
    until(lambda: "micanite: ready" in closed.stderr(), "the start")
    assert "every user" not in closed.stderr()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--kernel-get", "lo", "-U", -1], "leave one of the two out"),
        (["-B", "binary"], "-B binary refuses"),
        (["-s", "PLACE"], "choose another path"),
        (["--local-mode", "rw"], "no octal mode"),
        (["--local-clients", 0], "--local-clients"),
    ],
)
def test_what_does_not_go_together_is_refused(place, options, words):
    ended = run("--local", place, *(place if word == "PLACE" else word for word in options))
    assert ended.returncode == 64 and words in ended.stderr, ended


def test_options_without_local_are_refused():
    ended = run("--local-clients", 5)
    assert ended.returncode == 64 and "there is no --local PATH" in ended.stderr, ended


def test_a_directory_that_is_missing_is_named(tmp_path):
    ended = run("-p", -1, "--local", tmp_path / "none" / "local")
    assert ended.returncode == 71 and "--local" in ended.stderr and "has to exist" in ended.stderr, ended


def test_loads_read_the_memory(start, place):
    server = start("-m", 64, "--local", place)
    shape = (*SHAPE, "--operations", "20k", "--connections", 4)
    report = load(f"local://{place}", *shape, "--fill", "--get", 90)
    assert is_clean(report), report
    assert report["hit_ratio"] == 1 and report["local_ratio"] > 0.9, report
    until(lambda: int(stats(server)["local_hits"]) > 15_000, "the hits of readers")
    counted = stats(server)
    assert counted["local_clients"] == "0" and int(counted["local_nonsense"]) == 0, counted
    assert int(stats(server, "")["get_hits"]) >= int(counted["local_hits"])


def test_a_closed_place_is_reported(place):
    ended = run_load(f"local://{place}", *SHAPE[:4])
    assert ended.returncode == 1, ended
    said = f"nobody listens there; start a server there: micanite serve --local {place}"
    assert said in ended.stderr, ended


def test_every_mode_and_store_serve_readers(start, tmp_path):
    for number, options in enumerate([["-t", 2, "--access", "erew"], ["-t", 2, "--access", "crew"], ["-M"]]):
        place = tmp_path / str(number)
        start("-m", 64, "--local", place, *options)
        report = load(f"local://{place}", *SHAPE, "--fill", "--get", 50, "--operations", "5k")
        assert is_clean(report) and report["hit_ratio"] == 1 and report["local_ratio"] > 0.9, report


def test_readers_go_on_through_a_restart_in_place(start, place, tmp_path):
    """The next program takes over the files of the image; readers attach anew."""
    server = start("-m", 64, "--local", place, "--image", tmp_path / "image")
    load(f"local://{place}", *SHAPE, "--fill", "--get", 100, "--operations", 2000)
    paced = ("--duration", "8s", "--rate", 2000, "--json", "-", "--quiet")
    before = stats(server)["local_attached"]
    client = start_load(f"local://{place}", *SHAPE, *paced)
    until(lambda: stats(server)["local_attached"] != before, "another reader")
    restarted = server.ctl("restart")
    assert restarted.returncode == 0, restarted.stderr
    until(lambda: stats(server)["local_attached"] != "0", "the reader at the next program")
    out, said = client.communicate(timeout=120)
    assert client.returncode == 0, said
    assert '"wrong_values": 0' in out, out
    report = load(f"local://{place}", *SHAPE, "--get", 100, "--operations", 2000)
    assert report["hit_ratio"] == 1, report


def test_a_restart_without_an_image_would_lose_the_items(start, place):
    server = start("-m", 64, "--local", place)
    refused = server.ctl("restart")
    assert refused.returncode != 0 and "this discards all items" in refused.stderr, refused


def test_memory_stays_within_what_was_printed(start, place):
    """Shared memory counts once, however many readers map it."""
    server = start("-m", 128, "--local", place, "-c", 64)
    budget = printed_budget_bytes(server)
    shape = (*SHAPE, "--fill", *ENDLESS, "--connections", 8)
    clients = [start_load(f"local://{place}", *shape) for _ in range(3)]
    try:
        until(lambda: int(stats(server)["local_clients"]) >= 24, "the readers")
        # The proportional size leaves out what readers map, too; the rest of it is theirs.
        # While readers come and go, sizes that are read one after the other do not belong together.
        pids = [server.pid, *(process.pid for process in clients)]
        bound = 128 * MIB + 24 * 4096 + 16 * MIB
        until(lambda: sum(shared_bytes(pid) for pid in pids) < bound, "shared memory within its bound")
        assert resident_bytes(server.pid) < budget + 32 * MIB
        assert all(process.poll() is None for process in clients)
    finally:
        for process in clients:
            process.kill()
            process.communicate()


def shared_bytes(pid):
    """The proportional size of memory in files without a name."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Shmem"))


def test_a_recording_says_that_it_misses_readers(start, place, tmp_path):
    server = start("--local", place)
    began = server.ctl("record", tmp_path / "rec", "--seconds", 1)
    assert "gets of readers on this host (--local) are missing" in began.stdout + began.stderr, began


def pauses(pid, name):
    """Returns how often the thread of this name has waited for something."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        if (thread / "comm").read_text().strip() == name:
            status = (thread / "status").read_text()
            return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[1])
    raise AssertionError(f"there is no thread {name}")


@pytest.mark.parametrize("name", ["local", "control"])
def test_a_shortage_of_descriptors_takes_no_core(start, place, tmp_path, name):
    """The thread that accepts pauses before it tries again."""
    control = tmp_path / "control"
    server = start("--local", place, "--control-socket", control)
    limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)

    def pauses_often():
        numbers = {int(number) for number in os.listdir(f"/proc/{server.pid}/fd")}
        # A new descriptor gets the lowest free number.
        free = next(number for number in itertools.count() if number not in numbers)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (free, limits[1]))
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(Hang):
            client.connect(str(place if name == "local" else control))
            before = pauses(server.pid, name)
            return until(lambda: pauses(server.pid, name) >= before + 5, "pauses", deadline_s=5)

    # The server may close a descriptor meanwhile, and accept the client with its number.
    until(pauses_often, "pauses of the thread that accepts")
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
    assert run_ctl("ping", "--socket", control).returncode == 0
    assert load(f"local://{place}", "--fill", "--operations", 100, *SHAPE)["answered"] == 100
