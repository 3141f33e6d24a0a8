"""`--numa`: partitions in the memory of their owners' nodes.

No machine of the tests has two nodes. What the server sees of them is made: nodes in sysfs, and answers of
the system calls (harness/tools/nodes.c), or the real calls on the one node that there is. Nothing here can
say what remote memory costs."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from harness import seccomp
from harness.poll import until
from harness.server import PROJECT, command, environment, run
from harness.tools import nodes

PROFILE = PROJECT / "packaging/seccomp/micanite.json"
OFF = "partitions are not bound to them"


@pytest.fixture
def two_nodes():
    """Makes servers on two nodes."""
    if reason := nodes.refused():
        pytest.skip(reason)
    made = []

    def make(*options, **kinds):
        made.append(nodes.TwoNodes(*options, **kinds))
        return made[-1]

    yield make
    for server in made:
        server.end()


def fill(server, items=400):
    """Stores items of both partitions, and returns a function that checks them."""
    values = {b"numa-%d" % number: b"%d" % number * 400 for number in range(items)}
    sets = b"".join(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value) for key, value in values.items())
    with server.connect() as client:
        client.expect(sets, b"STORED\r\n" * items)

    def check():
        with server.connect() as client:
            found = client.values(b"get %s\r\n" % b" ".join(values))
            assert {key: value for key, (_, value) in found.items()} == values

    return check


def nodes_of(server):
    """Returns the nodes on which each partition is to be, and those where its pages are."""
    return [(wanted, sorted(sample)) for wanted, sample, _ in server.partitions()]


def settled(server):
    """Waits until no memory moves, and returns the states."""

    def states():
        found = [state for _, _, state in server.partitions()]
        return found if not any(state.startswith(("queued", "moving")) for state in found) else None

    return until(states, "the end of all moves")


@pytest.mark.parametrize("access", ["erew", "crew"])
def test_partitions_are_on_the_nodes_of_their_owners(two_nodes, access):
    server = two_nodes("-m", "64", "--access", access)
    fill(server)
    server.says("partitions are bound to the nodes of their owners")
    assert nodes_of(server) == [("0", [0]), ("1", [1])]
    assert "node 0: 1 partitions (0)" in server.numa()


def test_partitions_of_all_workers_are_interleaved(two_nodes):
    server = two_nodes("-m", "64")
    fill(server)
    assert nodes_of(server) == [("0,1", [0, 1])] * 2


@pytest.mark.parametrize("kind", ["memory", "image", "local", "store"])
def test_memory_follows_its_partition(two_nodes, tmp_path, kind):
    """Pages move in the background, items stay, and a second move brings them back."""
    options = {
        "memory": [],
        "image": ["--image", tmp_path / "image"],
        "local": ["--local", tmp_path / "local"],
        "store": ["--semantics", "store"],
    }[kind]
    server = two_nodes("-m", "64", "--access", "erew", *options)
    check = fill(server)
    moved = server.ctl("move", "1", "0")
    assert moved.stdout == (
        "partition 1: worker 1 -> 0\n"
        "partition 1: its memory moves to node 0 in the background, see ctl numa\n"
    )
    assert settled(server) == ["bound", "moved"]
    assert nodes_of(server) == [("0", [0]), ("0", [0])]
    pages = server.count("pages_moved")
    assert pages > 0 and server.count("pages_failed") == 0
    check()
    assert server.ctl("move", "1", "1").returncode == 0
    settled(server)
    assert nodes_of(server) == [("0", [0]), ("1", [1])]
    assert server.count("pages_moved") >= 2 * pages
    assert server.count("moves_done") == 2
    check()


def test_a_mode_decides_where_memory_is(two_nodes):
    """Interleaved pages go to the owner; owned pages may stay where they are when all workers use them."""
    server = two_nodes("-m", "64")
    check = fill(server)
    assert server.ctl("mode", "erew").stdout == (
        "mode: crcw -> erew\nthe memory of 2 partitions follows, see ctl numa\n"
    )
    assert settled(server) == ["moved", "moved"]
    assert nodes_of(server) == [("0", [0]), ("1", [1])]
    # The owner stays the same.
    assert server.ctl("mode", "crew").stdout == "mode: erew -> crew\n"
    pages = server.count("pages_moved")
    server.ctl("mode", "crcw", "--partition", "0")
    settled(server)
    assert nodes_of(server)[0] == ("0,1", [0])
    assert server.count("pages_moved") == pages
    check()


def test_moves_there_and_back_end_where_the_owner_is(two_nodes, tmp_path):
    """A newer move replaces an older one, whatever that has done. All memory is present (--local)."""
    server = two_nodes("-m", "512", "--access", "erew", "--local", tmp_path / "local")
    check = fill(server)
    for _ in range(5):
        for owner in (1, 0):
            assert server.ctl("move", "0", str(owner)).returncode == 0
    settled(server)
    assert nodes_of(server)[0] == ("0", [0])
    begun = server.count("moves_begun")
    assert begun == server.count("moves_done") + server.count("moves_cancelled")
    check()


def test_a_server_ends_while_memory_moves(two_nodes, tmp_path):
    server = two_nodes("-m", "1024", "--access", "erew", "--local", tmp_path / "local")
    server.ctl("mode", "crew")
    for partition, (_, owner) in enumerate(server.routes()):
        server.ctl("move", str(partition), str(1 - owner))
    assert any(state.startswith(("queued", "moving")) for _, _, state in server.partitions())
    server.process.terminate()
    assert server.wait_for_end() == 0


def test_the_next_process_takes_the_memory_of_an_image_to_its_nodes(two_nodes, tmp_path):
    """Its owners may run elsewhere: the pages are visited after the start."""
    options = ["-m", "64", "--image", tmp_path / "image"]
    first = two_nodes(*options, "--access", "erew")
    fill(first)
    first.end()
    server = two_nodes(*options, "--access", "crew")
    settled(server)
    assert server.count("moves_done") == 2
    assert [wanted for wanted, _, _ in server.partitions()] == ["0", "1"]


def test_a_restart_in_place_keeps_the_nodes(two_nodes, tmp_path):
    server = two_nodes("-m", "64", "--access", "erew", "--image", tmp_path / "image")
    check = fill(server)
    assert server.ctl("restart").returncode == 0
    check()
    settled(server)
    assert nodes_of(server) == [("0", [0]), ("1", [1])]


def test_a_full_node_leaves_memory_where_it_is(two_nodes):
    server = two_nodes("-m", "64", "--access", "erew", NODES_FULL="1")
    check = fill(server)
    server.ctl("move", "0", "1")
    assert settled(server)[0] == "stays: node 1 has no room"
    server.says("the memory of partition 0 stays where it is: node 1 has no room")
    assert server.count("moves_given_up") == 1
    check()


def test_memory_of_readers_moves_with_the_right_to(two_nodes, tmp_path):
    """Without it the pages stay, and the remedy is named."""
    options = ["-m", "64", "--access", "erew", "--local", tmp_path / "local"]
    remedy = "other processes map them (--local): moving those takes CAP_SYS_NICE"
    for shared, words in [("1", "moved"), ("2", remedy)]:
        server = two_nodes(*options, NODES_SHARED=shared)
        server.ctl("move", "0", "1")
        assert words in settled(server)[0]
        assert (server.count("pages_failed") > 0) == (shared == "2")
        server.end()


def test_a_process_with_its_own_policy_is_left_alone(two_nodes):
    """numactl has decided: 3 is its interleaving."""
    server = two_nodes("-m", "64", NODES_POLICY="3")
    assert OFF in server.stderr() and "(interleave; numactl?)" in server.stderr()
    assert server.stats("numa")["numa"] == "unbound"
    said = server.ctl("move", "0", "1").stdout
    assert "\npartition 0: its memory stays where it is: the process was started with a policy" in said


def test_workers_on_a_node_without_memory_have_no_node(two_nodes):
    """A cpuset of node 0: partitions of the worker on node 1 get what the kernel gives."""
    server = two_nodes("-m", "64", "--access", "erew", NODES_ALLOWED="1")
    check = fill(server)
    assert [wanted for wanted, _, _ in server.partitions()] == ["0", "any"]
    said = server.ctl("move", "0", "1").stdout
    assert said.endswith("stays where it is: the node of worker 1 gives this process no memory\n")
    check()


def test_workers_that_are_not_pinned_keep_to_their_node(two_nodes):
    """So their partitions are in its memory, too."""
    for options in (("--pin", "off"), ("-t", "3")):
        server = two_nodes("-m", "64", "--access", "erew", *options)
        assert ", not pinned" in server.stderr() and OFF not in server.stderr()
        check = fill(server)
        assert [wanted for wanted, _, _ in server.partitions()][:2] == ["0", "1"]
        check()


def test_off_binds_nothing(two_nodes):
    off = two_nodes("-m", "64", "--numa", "off")
    assert OFF in off.stderr() and "because --numa off" in off.stderr()
    assert off.ctl("numa").stdout == "memory is not bound to NUMA nodes: --numa off\n"


def test_the_real_kernel_binds_to_its_node(two_nodes):
    """The one node of this machine is real: its partition is bound, and the other one's node is not there."""
    server = two_nodes("-m", "64", "--access", "erew", real_calls=True)
    check = fill(server)
    wanted = [wanted for wanted, _, _ in server.partitions()]
    assert wanted == ["0", "any"]
    server.ctl("move", "1", "0")
    assert settled(server)[1] == "moved"
    assert nodes_of(server) == [("0", [0]), ("0", [0])]
    policies = {line.split()[1] for line in Path(f"/proc/{server.pid}/numa_maps").read_text().splitlines()}
    assert any(policy.startswith("prefer") and policy.endswith(":0") for policy in policies), policies
    check()


@pytest.mark.parametrize(
    "refused", ["get_mempolicy", "mbind", "mbind,set_mempolicy,get_mempolicy,move_pages"]
)
def test_a_filter_that_refuses_the_calls_costs_one_warning(two_nodes, refused):
    """As container engines do."""
    if seccomp.library() is None:
        pytest.skip("there is no libseccomp")
    prefix = [sys.executable, PROJECT / "tests/harness/seccomp.py", PROFILE, refused]
    server = two_nodes("-m", "64", "--access", "erew", prefix=prefix, real_calls=True)
    check = fill(server)
    warnings = [line for line in server.stderr().splitlines() if "NUMA" in line]
    assert len(warnings) == 1, warnings
    assert "warning" in warnings[0] and "Operation not permitted" in warnings[0]
    assert "--cap-add SYS_NICE" in warnings[0] and "--numa off" in warnings[0]
    assert "its memory stays where it is: the kernel refuses" in server.ctl("move", "1", "0").stdout
    check()


def test_refused_moves_name_the_call(two_nodes):
    if seccomp.library() is None:
        pytest.skip("there is no libseccomp")
    prefix = [sys.executable, PROJECT / "tests/harness/seccomp.py", PROFILE, "move_pages"]
    server = two_nodes("-m", "64", "--access", "erew", prefix=prefix, real_calls=True)
    check = fill(server)
    server.ctl("move", "1", "0")
    assert settled(server)[1].startswith("stays: the kernel refuses move_pages (Operation not permitted")
    check()


def test_metrics_count_by_node(two_nodes):
    server = two_nodes("-m", "64", "--access", "erew", "--admin", "-1")
    fill(server)
    server.ctl("move", "1", "0")
    settled(server)
    said = server.stderr()
    address = said[said.index("http://") :].split()[0]
    with urllib.request.urlopen(f"{address}metrics", timeout=60) as answer:
        shown = answer.read().decode()
    for line in [
        "micanite_numa_bound 1",
        'micanite_numa_partitions{node="0"} 2',
        'micanite_partition_numa_node{partition="1",node="0"} 1',
        'micanite_numa_moves_total{result="done"} 1',
        'micanite_numa_pages_total{result="failed"} 0',
    ]:
        assert line in shown.splitlines(), line
    assert 'micanite_numa_sampled_pages{node="0"}' in shown
    stats = server.stats("numa")
    shown = [stats[name] for name in ("numa", "numa_nodes", "1:node", "1:memory")]
    assert shown == ["bound", "2", "0", "moved"]


def test_the_doctor_lists_partitions_by_node(two_nodes):
    server = two_nodes("-m", "64", "--access", "erew")
    fill(server)

    def findings(*words):
        asked = subprocess.run(
            nodes.launcher(command()[0], "ctl", "doctor", "lo", "--json", *words),
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(**server.places()),
        )
        (memory,) = [it for it in json.loads(asked.stdout)["sections"] if it["title"] == "memory"]
        return " ".join(finding["text"] for finding in memory["findings"])

    assert "the running server: node 1: 1 partitions (1)" in findings("-p", str(server.port))
    assert "but none answers" in findings("--socket", str(server.directory / "none"))


def test_one_node_is_as_before(start):
    """No thread, no line, no system call of memory policies, and nothing to tell of a move."""
    server = start("-t", "2", "-m", "64", "--access", "erew", "-v")
    assert "numa" not in server.stderr().lower()
    names = [Path(path).read_text() for path in server_threads(server.pid)]
    assert "numa\n" not in names
    assert server.ctl("move", "0", "1").stdout == "partition 0: worker 0 -> 1\n"
    assert server.ctl("numa").stdout == "memory is not bound to NUMA nodes: this machine has one NUMA node\n"
    assert server.stats("numa") == {
        "numa_nodes": "1", "numa": "unbound", "numa_reason": "this machine has one NUMA node"
    }
    policies = {line.split()[1] for line in Path(f"/proc/{server.pid}/numa_maps").read_text().splitlines()}
    assert policies == {"default"}


def server_threads(pid):
    """Returns the files with the names of a process's threads."""
    return sorted(Path(f"/proc/{pid}/task").glob("*/comm"))


def test_a_wrong_word_is_refused():
    ended = run("--numa", "on")
    assert ended.returncode == 64 and "'on' is neither bind nor off" in ended.stderr
