"""`micanite ctl nic`: a plan for a network interface, printed or applied.

A veth pair in a network namespace of the test's own stands for the interface. It has queues to set, and
neither flow rules nor interrupts. Rules are made with a program in ethtool's place that answers as ethtool
does for a driver that has them."""

import os
import shutil
import subprocess
import sys
import uuid

import pytest

from harness.server import command, environment, run_ctl

WORKERS = ["--native", "9000", "--cores", "2", "--cpus", "0,1"]

# Keeps its state beside itself: the rules, one a line (number, family, port, queue), and what it was asked to
# change.
ETHTOOL = f"#!{sys.executable}" + '''
import os, sys

HERE = os.path.dirname(os.path.abspath(__file__))
WILD = {"udp4": ("0.0.0.0", "255.255.255.255", "UDP over IPv4"),
        "udp6": ("::", ":".join(["ffff"] * 8), "UDP over IPv6")}

def path(name): return os.path.join(HERE, name)

def read(name): return open(path(name)).read().split("\\n")[:-1] if os.path.exists(path(name)) else []

def rule(line):
    number, family, port, queue = line.split()
    address, mask, kind = WILD[family]
    return (f"Filter: {number}\\n\\tRule Type: {kind}\\n\\tSrc IP addr: {address} mask: {mask}\\n"
            f"\\tDest IP addr: {address} mask: {mask}\\n\\tSrc port: 0 mask: 0xffff\\n"
            f"\\tDest port: {port} mask: 0x0\\n\\tAction: Direct to queue {queue}\\n")

def refuse(reason):
    sys.exit(reason)

arguments = sys.argv[1:]
option, words = arguments[0], arguments[2:]
rules = {line.split()[0]: line for line in read("rules")}
queues = (["4"] + read("queues"))[-1]
if option in ("-L", "-K", "-X", "-N", "-C", "-G"):
    with open(path("changes"), "a") as changes:
        print(*arguments, file=changes)
if option == "--version":
    print("ethtool version 6.1")
elif option == "-i":
    print("driver: rules")
elif option == "-l":
    print("Pre-set maximums:\\nRX:\\tn/a\\nTX:\\tn/a\\nCombined:\\t4")
    print(f"Current hardware settings:\\nRX:\\tn/a\\nTX:\\tn/a\\nCombined:\\t{queues}")
elif option == "-k":
    print("generic-receive-offload: on\\nntuple-filters: on")
elif option == "-x":
    table = "     ".join(str(at % int(queues)) for at in range(8))
    print(f"RX flow hash indirection table for v0 with {queues} RX ring(s):\\n    0:      {table}")
elif option == "-n" and words[:1] == ["rule"]:
    if words[1] not in rules:
        refuse("rmgr: Cannot get RX class rule: No such file or directory")
    print(rule(rules[words[1]]))
elif option == "-n":
    print(f"{queues} RX rings available\\nTotal {len(rules)} rules\\n", *map(rule, rules.values()), sep="\\n")
elif option == "-N" and words[0] == "delete":
    rules.pop(words[1])
elif option == "-N" and words[1] in read("refused"):
    refuse("rmgr: Cannot insert RX class rule: Invalid argument")
elif option == "-N":
    number = str(min(map(int, rules), default=1024) - 1)
    rules[number] = f"{number} {words[1]} {words[3]} {words[5]}"
    print(f"Added rule with ID {number}")
elif option == "-L":
    open(path("queues"), "w").write(words[1] + "\\n")
elif option not in ("-K", "-X"):
    refuse("netlink error: Operation not supported")
open(path("rules"), "w").writelines(line + "\\n" for line in rules.values())
'''


def needs(*tools):
    """Skips where one of these programs is missing."""
    for tool in tools:
        if shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            pytest.skip(f"{tool} is not installed")


class Namespace:
    """A network namespace with an interface v0 of four queues each way."""

    def __init__(self):
        self.name = f"micanite-test-{uuid.uuid4().hex[:8]}"

    def run(self, *words, **options):
        """Runs a command in it."""
        words = ["ip", "netns", "exec", self.name, *map(str, words)]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, **options)

    def nic(self, *words, **extra_environment):
        """Runs `micanite ctl nic` in it."""
        return self.run(command()[0], "ctl", "nic", *words, env=environment(**extra_environment))

    def state(self):
        """All that the command may change."""
        queues = "cd /sys/class/net/v0/queues && grep . */xps_cpus */rps_cpus"
        asked = [["ethtool", "-l", "v0"], ["ethtool", "-k", "v0"], ["sh", "-c", queues]]
        return [self.run(*words).stdout for words in asked]

    def queues(self):
        """Returns the numbers of receive and transmit queues."""
        current = self.run("ethtool", "-l", "v0").stdout.split("Current hardware settings:")[1]
        return [int(line.split()[1]) for line in current.splitlines() if line.startswith(("RX:", "TX:"))]


@pytest.fixture
def namespace():
    """A network namespace that ends with the test."""
    needs("ip", "ethtool")
    if os.cpu_count() < 2:
        pytest.skip("one CPU: there is nothing to divide")
    space = Namespace()
    made = subprocess.run(["ip", "netns", "add", space.name], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    try:
        several = ["numrxqueues", "4", "numtxqueues", "4"]
        pair = ["v0", *several, "type", "veth", "peer", "name", "v1", *several]
        subprocess.run(["ip", "-n", space.name, "link", "add", *pair], check=True)
        yield space
    finally:
        subprocess.run(["ip", "netns", "delete", space.name], check=True)


@pytest.fixture
def rules(tmp_path):
    """A directory for PATH whose ethtool knows flow rules."""
    tool = tmp_path / "ethtool"
    tool.write_text(ETHTOOL)
    tool.chmod(0o755)
    return tmp_path


def search_path(directory):
    """PATH with this directory first."""
    return f"{directory}:{os.environ['PATH']}"


def lines_of(path):
    """The lines of a file that there may be."""
    return path.read_text().splitlines() if path.exists() else []


def test_a_plan_is_printed_and_changes_nothing(namespace):
    before = namespace.state()
    printed = namespace.nic("v0", *WORKERS)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "ethtool -L v0 rx 2 tx 2\n" in printed.stdout
    assert "worker 1: UDP port 9001 -> queue 1 -> CPU 1" in printed.stdout
    assert "flow rules: not possible" in printed.stdout
    assert namespace.state() == before


def test_a_shell_runs_the_printed_plan(namespace):
    printed = namespace.nic("v0", *WORKERS)
    ran = namespace.run("sh", "-e", input=printed.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert namespace.queues() == [2, 2]
    commands = [
        line
        for line in namespace.nic("v0", *WORKERS).stdout.splitlines()
        if line and not line.startswith("#")
    ]
    assert commands == []


def test_apply_reports_settings_that_cannot_be_changed(namespace):
    before = namespace.state()
    applied = namespace.nic("v0", *WORKERS, "--apply")
    assert (applied.returncode, applied.stderr) == (1, "")
    assert "done      ethtool -L v0 rx 2 tx 2\n" in applied.stdout
    assert "refused   flow rules: this driver has none" in applied.stdout
    assert "refused   interrupts: " in applied.stdout
    assert namespace.queues() == [2, 2]
    features = namespace.run("ethtool", "-k", "v0").stdout
    assert "generic-receive-offload: on" in features
    for queue, mask in enumerate((1, 2)):
        path = f"/sys/class/net/v0/queues/tx-{queue}/xps_cpus"
        assert int(namespace.run("cat", path).stdout.strip().replace(",", ""), 16) == mask
    _, back = applied.stdout.split("To take it back:\n")
    assert namespace.run("sh", "-e", input=back).returncode == 0
    assert namespace.state() == before


def test_more_workers_than_queues_share_them(namespace):
    printed = namespace.nic("lo", *WORKERS)
    assert printed.returncode == 0
    assert "2 workers share 1 queue" in printed.stdout
    assert namespace.nic("lo", *WORKERS, "--apply").returncode == 1


def test_two_interfaces_have_different_workers(namespace):
    printed = namespace.nic("v0", "v1", *WORKERS).stdout
    first, second = printed.split("# v1: ")
    assert "worker 0" in first and "worker 1" not in first
    assert "worker 1" in second and "worker 0" not in second


def test_rules_are_made_and_taken_back(namespace, rules):
    (rules / "rules").write_text("40 udp4 53 0\n")
    one = ["--native", "9000", "--cores", "1", "--cpus", "0"]
    applied = namespace.nic("v0", *one, "--apply", PATH=search_path(rules))
    assert applied.stderr == ""
    # The second CPU has no worker: everything else has queue 0.
    assert lines_of(rules / "rules") == ["40 udp4 53 0", "39 udp4 9000 1", "38 udp6 9000 1"]
    changes = lines_of(rules / "changes")
    assert changes[0] == "-L v0 combined 2"
    assert changes[-1] == "-X v0 equal 1"
    assert "micanite ctl nic v0 --undo 39,38\n" in applied.stdout

    again = namespace.nic("v0", *one, "--apply", PATH=search_path(rules))
    assert "fine      flow rules" in again.stdout
    assert len(lines_of(rules / "rules")) == 3

    undone = namespace.nic("v0", "--undo", "39,38", PATH=search_path(rules))
    assert (undone.returncode, undone.stderr) == (0, "")
    assert lines_of(rules / "rules") == ["40 udp4 53 0"]
    missing = namespace.nic("v0", "--undo", "39", PATH=search_path(rules))
    assert missing.returncode == 1
    assert "No such file" in missing.stdout


def test_everything_else_stays_spread_where_a_rule_is_refused(namespace, rules):
    one = ["--native", "9000", "--cores", "1", "--cpus", "0"]
    (rules / "refused").write_text("udp4\n")
    applied = namespace.nic("v0", *one, "--apply", PATH=search_path(rules))
    assert applied.returncode == 1
    assert (
        "refused   ethtool -N v0 flow-type udp4 dst-port 9000 action 1: rmgr: Cannot insert" in applied.stdout
    )
    assert "done      ethtool -N v0 flow-type udp6 dst-port 9000 action 1" in applied.stdout
    assert not any(line.startswith("-X") for line in lines_of(rules / "changes"))


def test_rules_of_other_kinds_are_never_deleted(namespace, rules):
    (rules / "rules").write_text("40 udp4 53 0\n")
    tool = rules / "ethtool"
    tool.write_text(tool.read_text().replace("Src port: 0 mask: 0xffff", "Src port: 7 mask: 0x0"))
    undone = namespace.nic("v0", "--undo", "40", PATH=search_path(rules))
    assert undone.returncode == 1
    assert "left alone" in undone.stdout
    assert lines_of(rules / "rules") == ["40 udp4 53 0"]


def test_a_running_server_says_its_ports_and_cpus(start):
    needs("ethtool")
    server = start("-t", "2", "--native", "-1")
    listed = server.ctl("directory").stdout.split("node\n")[1].split("\n\n")[0]
    printed = server.ctl("nic", "lo")
    assert (printed.returncode, printed.stderr) == (0, "")
    for row in listed.splitlines():
        number, port, _ = row.split()
        assert f"worker {number}: UDP port {port} -> queue 0 -> CPU " in printed.stdout


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["nosuch0", *WORKERS], 1, "no interface nosuch0"),
        (["nosuch0", "--undo", "1"], 1, "no interface nosuch0"),
        (["lo", "nosuch0", *WORKERS, "--apply"], 1, "no interface nosuch0"),
        (["lo", "--native", "9000", "--cores", "1", "--cpus", "60000"], 1, "not online"),
        (["lo", "--socket", "/nonexistent"], 1, "--native"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_unknown_names_are_refused(words, status, reason):
    needs("ethtool")
    ended = run_ctl("nic", *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert reason in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["lo", "--native", "9000"],
        ["lo", "--cores", "2"],
        ["lo", "--native", "0", "--cores", "1"],
        ["lo", "--native", "9000", "--cores", "0"],
        ["lo", "--native", "65535", "--cores", "2", "--cpus", "0,1"],
        ["lo", "--native", "9000", "--cores", "2", "--cpus", "0"],
        ["lo", "--native", "9000", "--cores", "2", "--cpus", "0,0"],
        ["lo", "--native", "9000", "--cores", "2", "--cpus", "1-0"],
        ["lo", "lo", *WORKERS],
        ["../lo", *WORKERS],
        ["lo", "eth0", "--undo", "1"],
        ["lo", "--undo", "x"],
        ["lo", "--undo", "1", "--apply"],
    ],
    ids=" ".join,
)
def test_usage(words):
    ended = run_ctl("nic", *words)
    assert (ended.returncode, ended.stdout) == (64, "")
    assert ended.stderr
