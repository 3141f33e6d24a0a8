"""`--pin`: the CPUs of the workers."""

import contextlib
import os
from pathlib import Path

import pytest

from harness.server import run

ALLOWED = sorted(os.sched_getaffinity(0))


def cpus_of_workers(server):
    """Returns the CPUs of each worker, once all serve."""
    count = int(server.stats()["threads"])
    with contextlib.ExitStack() as stack:
        # Each goes to the worker that has fewest.
        for connection in [stack.enter_context(server.connect()) for _ in range(2 * count)]:
            assert connection.ask(b"mn\r\n") == b"MN"
    tasks = Path(f"/proc/{server.pid}/task").iterdir()
    threads = {(task / "comm").read_text().strip(): int(task.name) for task in tasks}
    return [sorted(os.sched_getaffinity(threads[f"worker-{number}"])) for number in range(count)]


def is_pinned(server):
    """Returns whether the server says that its workers are pinned; their CPUs agree."""
    cpus, said = cpus_of_workers(server), server.stats("settings")["pin"]
    assert all(len(one) == 1 if said == "on" else one == ALLOWED for one in cpus), (said, cpus)
    assert (", not pinned" in server.stderr()) == (said == "off")
    return said == "on"


def test_workers_use_all_cpus_unless_something_relies_on_pins(start):
    """Flow rules bring datagrams of the native protocol to the CPUs of their workers."""
    workers = ("-t", min(2, len(ALLOWED)))
    assert not is_pinned(start(*workers))
    assert is_pinned(start(*workers, "--native", -1))
    assert not is_pinned(start(*workers, "--native", -1, "--pin", "off"))
    assert not is_pinned(start("-t", len(ALLOWED) + 1, "--native", -1))
    assert is_pinned(start(*workers, "--pin", "on"))


def test_a_list_names_the_cpu_of_each_worker(start):
    chosen = ALLOWED[::-1][:2]
    server = start("-t", len(chosen), "--pin", ",".join(map(str, chosen)))
    assert cpus_of_workers(server) == [[cpu] for cpu in chosen] and is_pinned(server)


@pytest.mark.parametrize(
    "options, words",
    [
        (("-t", 1000, "--pin", "on"), "there are 1000 workers (-t), and"),
        (("-t", 2, "--pin", ALLOWED[0]), "there are 2 workers (-t), and 1 CPU in this list"),
        (("-t", 1, "--pin", 4095), "CPU 4095 may not be used"),
        (("--pin", "cores"), "'cores' is neither auto, on, off, nor a list of CPUs"),
    ],
)
def test_cpus_that_do_not_suffice_are_refused(options, words):
    ended = run("-p", -1, *options)
    assert ended.returncode == 64 and words in ended.stderr and "--pin" in ended.stderr, ended


def test_a_restart_with_cpus_that_may_not_be_used_is_refused(start, tmp_path, key):
    config = tmp_path / "micanite.toml"
    config.write_text('pin = "off"\n')
    server = start("-t", 1, "--image", tmp_path / "image", "--config", config)
    with server.connect() as client:
        client.set(key, b"x")
        config.write_text('pin = "4095"\n')
        refused = server.ctl("restart")
        assert refused.returncode == 1 and "CPU 4095 may not be used" in refused.stderr, refused
        assert client.get(key) == b"x"
