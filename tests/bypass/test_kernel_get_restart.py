"""Stored items survive restarts and starts of `--kernel-get`, owned by one server (`--kernel-get-pin`)."""

import os
import signal
import subprocess
import tempfile

import pytest

from harness.memory import available_bytes
from harness.network import bpf
from harness.network.kernel_get import (
    DEFAULTS,
    AnsweringLink,
    FewRights,
    FromRoot,
    KernelServer,
    Moved,
    answers,
    attached,
)
from harness.network.links import NEAR
from harness.poll import until


@pytest.fixture
def link():
    """A link of the test's own."""
    with AnsweringLink() as link:
        yield link


@pytest.fixture
def pins():
    """A directory in a BPF file system of this test's own: machines without systemd have none at /sys/fs/bpf.
    """
    directory = tempfile.mkdtemp(prefix="micanite-pins-")
    mounted = subprocess.run(
        ["mount", "-t", "bpf", "-o", "mode=700", "none", directory], capture_output=True, text=True
    )
    if mounted.returncode:
        os.rmdir(directory)
        pytest.skip(f"no BPF file system here: {mounted.stderr}")
    pins = f"{directory}/pins"
    os.mkdir(pins)
    yield pins
    # Files that a server which has just ended still has open do not keep the mount here.
    subprocess.run(["umount", "--lazy", directory], check=True)
    os.rmdir(directory)


@pytest.mark.parametrize("ending", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("semantics", ["cache", "store"])
def test_pinned_memory_outlives_the_server(link, pins, semantics, ending):
    """Acknowledged items are there again, and the kernel answers for them; another size is refused."""
    options = ("--kernel-get-pin", pins, "--semantics", semantics)
    said = {b"key-%d" % number: b"v%d" % number for number in range(500)}
    for start in range(3):
        with KernelServer(link, *options) as server:
            moved = Moved(server)
            with server.connect() as stream, server.client() as client:
                for name, value in said.items():
                    if start == 0:
                        stream.set(name, value)
                    assert client.ask(b"get %b\r\n" % name) == b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (
                        name, len(value), value
                    )
                gone = b"gone-%d" % start
                stream.set(gone, b"x")
                assert stream.ask(b"delete %b\r\n" % gone) == b"DELETED"
                assert client.ask(b"get gone-0 gone-1 gone-2\r\n") == b"END\r\n"
            assert moved()["answered"] == 501
            os.kill(server.pid, getattr(signal, ending))
            server.wait_for_end()
        until(lambda: attached(link) is None, "the interface to be free")
    with pytest.raises(AssertionError, match=r"ended with 71:\n.*holds an image of other sizes"):
        KernelServer(link, *options, "-m", 128).end()


class Configured(KernelServer):
    """A server whose options stand in a file: a restart may find others there."""

    def __init__(self, link, file, *options, **written):
        self.file = file
        self.write(**written)
        super().__init__(link, "--config", file, *options, mode=None)

    def write(self, **options):
        lines = [f'{name.replace("_", "-")} = "{value}"\n' for name, value in options.items()]
        self.file.write_text("".join(lines))

    def restart(self, **options):
        """Restarts it with these options in its file."""
        self.write(**options)
        done = self.ctl("restart")
        assert done.returncode == 0, (done.stderr, self.stderr())


def is_refused(link, directory):
    """A second server does not get at what is pinned there."""
    others = ("-p", DEFAULTS["-p"] + 1, "-U", DEFAULTS["-U"] + 1)
    with pytest.raises(
        AssertionError, match=f"ended with 71:(?s:.*)another server works in {directory}: process "
    ):
        KernelServer(link, *others, "--kernel-get-pin", directory).end()
    return True


def stored(server):
    """The numbers that are stored, over TCP."""
    with server.connect() as stream:
        return {number for number in range(10) if stream.get(b"key-%d" % number) == b"%d" % number}


def store(server, number):
    with server.connect() as stream:
        stream.set(b"key-%d" % number, b"%d" % number)


@pytest.mark.parametrize("then", ["the same", "another", "no pin", "no kernel-get"])
def test_a_restart_keeps_other_servers_off_pinned_memory(link, pins, tmp_path, then):
    """This holds for any change of the option while the memory is written, through several restarts."""
    one, two = f"{pins}/one", f"{pins}/two"
    options = {
        "the same": {"kernel_get": NEAR, "kernel_get_pin": one},
        "another": {"kernel_get": NEAR, "kernel_get_pin": two},
        "no pin": {"kernel_get": NEAR},
        "no kernel-get": {},
    }[then]
    with Configured(link, tmp_path / "config", kernel_get=NEAR, kernel_get_pin=one) as server:
        store(server, 0)
        for number in (1, 2):
            server.restart(**options)
            store(server, number)
            assert is_refused(link, one)
            assert then != "another" or is_refused(link, two)
            assert stored(server) == set(range(number + 1))
            assert answers(server) == ("kernel_get" in options)
        # It is its own.
        server.restart(kernel_get=NEAR, kernel_get_pin=one)
        assert is_refused(link, one)
        store(server, 3)
    until(lambda: attached(link) is None, "the interface to be free")
    with KernelServer(link, "--kernel-get-pin", one) as server:
        assert stored(server) == {0, 1, 2, 3}
        assert answers(server)


def test_a_restart_that_adds_a_pin_keeps_the_items(link, pins, tmp_path):
    """It is pinned as it is, and is there after the worst of ends."""
    with Configured(link, tmp_path / "config", kernel_get=NEAR) as server:
        store(server, 0)
        for number in (1, 2):
            server.restart(kernel_get=NEAR, kernel_get_pin=pins)
            store(server, number)
            assert answers(server) and is_refused(link, pins)
        os.kill(server.pid, signal.SIGKILL)
        server.wait_for_end()
    until(lambda: attached(link) is None, "the interface to be free")
    with KernelServer(link, "--kernel-get-pin", pins) as server:
        assert stored(server) == {0, 1, 2}
        assert answers(server)


def test_a_restart_does_not_pin_where_others_are(link, pins, tmp_path):
    """Pins that are there already, or are another server's, stay, and the server goes on."""
    taken, old = f"{pins}/taken", f"{pins}/old"
    with KernelServer(link, "--kernel-get-pin", old) as server:
        store(server, 0)
    others = ("-p", DEFAULTS["-p"] + 1, "-U", DEFAULTS["-U"] + 1)
    with (
        Configured(link, tmp_path / "config", kernel_get=NEAR) as server,
        KernelServer(link, *others, "--kernel-get-pin", taken),
    ):
        store(server, 1)
        for directory, why in (
            (old, "holds another image than the server has now"), (taken, "another server works in")
        ):
            server.write(kernel_get=NEAR, kernel_get_pin=directory)
            refused = server.ctl("restart")
            assert refused.returncode == 1 and directory in refused.stderr and why in refused.stderr, refused
            assert stored(server) == {1} and answers(server)
    with KernelServer(link, "--kernel-get-pin", old) as server:
        assert stored(server) == {0}


def test_memory_that_cannot_be_pinned_ends_the_start(link, pins):
    """Without rights a server serves without the program, but not without the memory that it was told to
    keep."""
    with pytest.raises(
        AssertionError, match=r"ended with 71:\n.*--kernel-get-pin: creating BPF maps requires .*CAP_BPF"
    ) as failed:
        FewRights(["kill"], link, "--kernel-get-pin", pins).end()
    assert "Without --kernel-get-pin the server would start" in str(failed.value)
    assert os.listdir(pins) == []


@pytest.mark.parametrize("program", ["there", "refused"])
def test_a_pin_of_roots_is_not_lost_in_a_restart_as_another_user(link, pins, program):
    """The new user cannot open the memory again, with or without the program."""
    if program == "refused":
        link.server.ip("link", "set", "dev", NEAR, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp")
    with FromRoot(link, "-u", "nobody", "--kernel-get-pin", pins) as server:
        assert server.kernel_text().startswith("on" if program == "there" else "off")
        store(server, 0)
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "cannot open it again" in server.stderr() or not server.alive(), "the refusal")
        assert stored(server) == {0}


class FewFiles(Configured):
    """A server that may open fewer files than its connections want."""

    def words(self):
        return ["prlimit", "--nofile=256:900", *super().words()]

    def files_left(self):
        """Files that it may still open."""
        with open(f"/proc/{self.pid}/limits") as lines:
            limit = next(int(line.split()[3]) for line in lines if line.startswith("Max open files"))
        return limit - len(os.listdir(f"/proc/{self.pid}/fd"))

    def connections_left(self):
        """Connections that it says it can have, but for the one that asks."""
        return int(self.stats()["max_connections"]) - 1


def test_every_connection_has_a_descriptor_beside_the_maps(link, tmp_path):
    """Each partition takes one, here 64 of them; also when the option is gone and they are still there."""
    if available_bytes() < 2 << 30:
        pytest.skip("less than 2 GiB of memory are free")
    options = ("-t", 16, "-m", 1024, "-I", "512k", "-c", 1000)
    with FewFiles(link, tmp_path / "config", *options, kernel_get=NEAR) as server:
        assert len(server.routes()) == 64
        for restart in ({"kernel_get": NEAR}, {}, {}):
            assert server.files_left() >= server.connections_left() > 100
            server.restart(**restart)
        assert server.files_left() >= server.connections_left() > 100


def test_a_restart_does_not_go_from_maps_to_files(link, tmp_path):
    """It is refused before anything ends, and the way that it names leads there: also where no option tells
    of the maps."""
    image = tmp_path / "image"
    with Configured(link, tmp_path / "config", kernel_get=NEAR) as server:
        store(server, 0)
        for _ in range(2):
            server.write(image=image)
            refused = server.ctl("restart")
            assert refused.returncode == 1, (refused.stdout, server.stderr())
            assert "end the server and start it again" in refused.stderr, refused.stderr
            assert server.alive() and stored(server) == {0} and not image.exists()
            server.restart()
        assert server.ctl("snapshot", image).returncode == 0
    with Configured(link, tmp_path / "config", image=image) as server:
        assert stored(server) == {0}
        # From files to files, as ever.
        server.restart(image=image)
        assert stored(server) == {0}
