"""Workers without a partition: the start says so where it is true, and what would give them one."""

import re

import pytest

from harness.server import Server

IDLE = re.compile(r"warning: workers? ([\d ]+) owns? no partition.*?(?:; use (.*))?$", re.MULTILINE)


def found(*options):
    """Workers that the start calls idle, and what it proposes."""
    server = Server("-p", "-1", *options)
    try:
        said = IDLE.search(server.stderr())
        owners = {owner for _, owner in server.routes()}
    finally:
        server.end()
    idle = {int(number) for number in said[1].split()} if said else set()
    remedies = re.split(", | or ", said[2]) if said and said[2] else []
    return idle, remedies, owners


def test_a_worker_without_a_partition_is_named_and_each_remedy_helps():
    idle, remedies, owners = found("-t", 2, "-m", 32, "--access", "erew")
    assert (idle, owners) == ({1}, {0})
    assert [remedy.split()[0] for remedy in remedies] == ["-m", "-I", "-t"]
    for remedy in remedies:
        option, value = remedy.split()
        options = {"-t": 2, "-m": 32} | {option: value}
        words = [word for pair in options.items() for word in pair]
        idle, _, owners = found(*words, "--access", "erew")
        assert idle == set() and owners == set(range(int(options["-t"]))), remedy


@pytest.mark.parametrize(
    "options",
    [
        ("-t", 2, "-m", 32, "--access", "crew"),
        ("-t", 2, "-m", 32, "--access", "crcw"),
        ("-t", 2, "-m", 32),
        ("-t", 2, "-m", 64, "--access", "erew"),
        ("-t", 1, "-m", 32, "--access", "erew"),
    ],
    ids=lambda options: " ".join(map(str, options)),
)
def test_workers_that_have_something_to_do_are_not_called_idle(options):
    assert found(*options)[0] == set()


def test_several_workers_are_named():
    idle, remedies, owners = found("-t", 4, "-m", 32, "--access", "erew")
    assert (idle, owners) == ({1, 2, 3}, {0})
    assert remedies[-1] == "-t 1"


def test_an_interface_without_a_partition_is_named():
    options = ("-t", 2, "-m", 32, "--access", "erew", "--native", "-1")
    server = Server("-p", "-1", *options, "--native-at", "127.0.0.2,127.0.0.3")
    try:
        assert "no worker of 127.0.0.3 owns a partition" in server.stderr()
        assert "no worker of 127.0.0.2" not in server.stderr()
    finally:
        server.end()


def test_an_image_keeps_its_partitions(tmp_path):
    image = ("--image", tmp_path / "image", "-m", 32, "--access", "erew")
    assert found("-t", 1, *image)[0] == set()
    idle, remedies, _ = found("-t", 2, *image)
    assert idle == {1}
    assert remedies == ["another --image directory with more memory (-m) and without the items", "-t 1"]
