"""`micanite ctl doctor`: what the machine allows for ports around the kernel, as root and as nobody.

A veth pair between two network namespaces of the test's own stands for the interface."""

import json
import shlex
import subprocess

import pytest

from harness.network import links
from harness.poll import until
from harness.server import command, environment, run_ctl

WIDTH = 100


@pytest.fixture
def link():
    """A veth pair of two queues; the end port0 is the server's."""
    if reason := links.permitted():
        pytest.skip(reason)
    with links.Link(queues=2) as made:
        yield made


def inside(link, *words, prefix=()):
    """Runs `micanite ctl doctor` on the server's host, whose /sys it has to see."""
    words = ["ip", "netns", "exec", link.server.name, *prefix, command()[0], "ctl", "doctor", *words]
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=environment()
    )


def judged(link, *words, prefix=()):
    """Returns the report for programs and the exit status."""
    ended = inside(link, "--json", *words, prefix=prefix)
    assert ended.stderr == ""
    return json.loads(ended.stdout), ended.returncode


def findings(report, title):
    """The findings of the section whose title begins so."""
    (section,) = [section for section in report["sections"] if section["title"].startswith(title)]
    return section["findings"]


def test_it_reads_well_and_changes_nothing(link):
    def state():
        shown = [["ip", "-d", "address"], ["ethtool", "-l", links.NEAR], ["ethtool", "-k", links.NEAR]]
        return [link.server.run(*words) for words in shown]

    def settled():
        shown = link.server.run("ip", "address", "show", "dev", links.NEAR)
        return "fe80" in shown and "tentative" not in shown and "state UP" in shown

    until(settled, "the interface to have its addresses")
    before = state()
    ended = inside(link)
    assert ended.returncode in (0, 1), ended.stderr
    assert state() == before
    lines = ended.stdout.splitlines()
    assert max(len(line) for line in lines if not line.startswith(" " * 12)) <= WIDTH
    assert not any(line != line.rstrip() or "\x1b" in line for line in lines)
    for title in ("this machine", "memory", "AF_XDP", "DPDK", "fabric", f"{links.NEAR}: veth", "verdict:"):
        assert any(line.startswith(title) for line in lines), title


def test_the_recipe_for_a_veth_pair_starts_a_server(link, start):
    report, status = judged(link, links.NEAR)
    best = report["verdict"]["best"]
    assert (best["name"], best["grade"], best["workers"] >= 1) == (f"xdp:{links.NEAR}", "software", True)
    assert status == 0 and report["verdict"]["works"], report["verdict"]["text"]
    *_, line = report["verdict"]["recipe"]
    words = shlex.split(line)
    assert words[:2] == ["micanite", "serve"]
    # The recipe's size of memory is left out, for the sake of the other tests.
    assert words[-2:] == ["-m", "1024"]
    with link.server.inside():
        server = start(*words[2:-2])
    assert f"xdp:{links.NEAR}" in server.stderr()
    # The server's own program is attached now, and the doctor names its owner.
    taken, status = judged(link, links.NEAR)
    (program,) = [it for it in findings(taken, links.NEAR) if "XDP program is attached already" in it["text"]]
    assert (status, program["state"]) == (1, "missing")
    server.end()
    assert judged(link, links.NEAR)[1] == 0


def test_an_unprivileged_user_is_told_the_missing_rights(link):
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all"]
    report, status = judged(link, links.NEAR, prefix=nobody[:-2])
    lacking = [
        it for it in findings(report, "AF_XDP") if "lacks CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF" in it["text"]
    ]
    assert status == 1 and [it["state"] for it in lacking] == ["missing"], findings(report, "AF_XDP")
    assert lacking[0]["commands"][0] in report["verdict"]["recipe"] or "docker" in lacking[0]["commands"][0]
    assert "missing" in report["verdict"]["text"]


def test_an_interface_that_is_down_or_too_long_or_taken_is_found(link):
    link.far_state("down")
    link.near_state("down")
    down, status = judged(link, links.NEAR)
    commands = [it["commands"] for it in findings(down, links.NEAR) if it["text"] == "it is down"]
    assert (status, commands) == (1, [[f"ip link set dev {links.NEAR} up"]])
    link.near_state("up")
    link.far_state("up")
    link.set_mtu(9000)
    long, status = judged(link, links.NEAR)
    commands = [it["commands"] for it in findings(long, links.NEAR) if it["text"].startswith("MTU 9000")]
    assert (status, commands) == (1, [[f"ip link set dev {links.NEAR} mtu 1500"]])


def test_providers_of_one_sided_reads_are_listed_with_their_promises():
    """Each known provider has a line, or the report says what is lacking."""
    report = json.loads(run_ctl("doctor", "--json", "lo").stdout)
    found = findings(report, "fabric")
    texts = [it["text"] for it in found]
    if texts[0].startswith("libfabric cannot be loaded"):
        assert found[0]["commands"] == ["apt-get install libfabric1"] and len(texts) == 1
        return
    if not texts[0].startswith("built in: libfabric "):
        assert "without the feature libfabric" in texts[0] and len(texts) == 1
        (command,) = found[0]["commands"]
        assert "libfabric-dev" in command and "--features libfabric" in command
        return
    lines = dict(text.split(": ", 1) for text in texts[1:])
    assert list(lines) == ["net;ofi_rxm", "tcp;ofi_rxm", "shm", "verbs;ofi_rxm", "efa"]
    # These need no device.
    assert "reads complete without the target" in lines["net;ofi_rxm"]
    assert "reads wait for the target" in lines["tcp;ofi_rxm"]
    assert "neither keys nor ranges are checked" in lines["shm"]
    assert {it["state"] for it in found} <= {"fine", "note"}


def test_the_loopback_is_no_port():
    ended = run_ctl("doctor", "--json", "lo")
    report = json.loads(ended.stdout)
    assert "lo" not in [port["name"] for port in report["ports"]]
    assert any("nothing to bypass" in it["text"] for it in findings(report, "lo"))


@pytest.mark.parametrize("words", [["no-such-nic"], ["lo", "lo"], ["a/b"], ["--apply"]])
def test_a_wrong_command_line_is_usage(words):
    ended = run_ctl("doctor", *words)
    assert (ended.returncode, ended.stdout) == (64, "")
    assert ended.stderr


def test_sysfs_of_another_namespace_is_noticed(link):
    with link.server.inside():
        ended = run_ctl("doctor", links.NEAR)
    assert (ended.returncode, ended.stdout) == (64, "")
    assert "ip netns exec" in ended.stderr


def test_libfabric_is_here():
    """Names what is not tested where libfabric is missing."""
    report = json.loads(run_ctl("doctor", "--json").stdout)
    if not findings(report, "fabric")[0]["text"].startswith("built in: libfabric "):
        pytest.skip("there is no libfabric 1.17 or newer (Debian: libfabric-dev)")
