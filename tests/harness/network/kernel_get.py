"""Servers that answer GETs in the kernel (`--kernel-get`), at one end of a link, and clients at the other."""

import contextlib
import json

from harness.memcached.udp import UdpClient
from harness.network import bpf
from harness.network.frames import mac_of
from harness.network.hosts import NotPermitted
from harness.network.links import NEAR, Link
from harness.network.ports import TCP_PORT
from harness.network.rights import as_nobody
from harness.poll import until
from harness.server import Server

UDP_PORT = 11211
# Places of the program: in the driver, or behind it.
MODES = ("native", "generic")
# Options of a server, unless a test sets others.
DEFAULTS = {
    "-m": 64, "-t": 1, "-p": TCP_PORT, "-U": UDP_PORT, "--udp-allow": "10.92.0.0/16,fd92::/16,127.0.0.0/8"
}


class AnsweringLink(Link):
    """A link whose frames have room for replies, as a NIC's buffers have; `padded=False`: as veth makes them.
    """

    def __init__(self, padded=True, **options):
        super().__init__(**options)
        try:
            # A veth end takes frames of XDP only where it has a program of its own.
            self.clients.ip(
                "link", "set", "dev", self.far, "xdpdrv", "obj", str(bpf.compiled("pass")), "sec", "xdp"
            )
            self.pad(padded)
            self.know_each_other()
        except BaseException:
            self.close()
            raise

    def know_each_other(self):
        """Makes both ends neighbours beforehand: no first datagram waits for that."""
        near, far = mac_of(self.server, NEAR), mac_of(self.clients, self.far)
        for address, address_far in zip(
            (self.server.address, self.server.address6), self.client_addresses, strict=True
        ):
            self.clients.ip("neigh", "replace", address, "lladdr", near.hex(":"), "dev", self.far)
            self.server.ip("neigh", "replace", address_far, "lladdr", far.hex(":"), "dev", NEAR)

    def pad(self, padded):
        """Gives the clients' datagrams room behind them, or no longer."""
        if padded:
            bpf.attach(self.clients, self.far, "egress", "pad", ROOM=self.mtu + 14)
        else:
            with contextlib.suppress(NotPermitted):
                bpf.detach(self.clients, self.far)


class KernelServer(Server):
    """A server with `--kernel-get`; `mode` None: without. Its TCP port is asked on its own host. Use it with
    `with`."""

    def __init__(self, link, *options, mode="auto", **settings):
        self.link = link
        options = [str(option) for option in options]
        for name, value in DEFAULTS.items():
            if name not in options:
                options += [name, str(value)]
        if "-l" not in options:
            options += ["-l", f"127.0.0.1,{link.server.address},{link.server.address6}"]
        if mode:
            options += ["--kernel-get", NEAR, "--kernel-get-mode", mode]
        with link.server.inside():
            super().__init__(*options, **settings)
        self.udp_port = until(lambda: self.ports().get("UDP"), "the port file")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def connect(self, **options):
        with self.link.server.inside():
            return super().connect(**options)

    def client(self, host=None, port=None, **options):
        """A client of its UDP port, on the clients' host."""
        with self.link.clients.inside():
            return UdpClient(port or self.udp_port, host=host or self.link.server.address, **options)

    def count(self, name):
        """A number of `stats udp`."""
        return int(self.stats("udp")[name])

    def kernel(self):
        """The program's counters, by name; what it says of itself is text."""
        counters = {name.removeprefix("kernel_get_"): value for name, value in self.stats("kernel").items()}
        return {name: int(value) if value.isdigit() else value for name, value in counters.items()}

    def kernel_text(self):
        """Returns the server's text about the program: its place, or the reason for none."""
        return self.stats("kernel")["kernel_get"]


class Moved:
    """Growth of the program's counters since the object was made, without those that stayed."""

    def __init__(self, server):
        self.server, self.before = server, server.kernel()

    def __call__(self):
        after = self.server.kernel()
        names = [name for name, value in after.items() if isinstance(value, int)]
        return {name: after[name] - self.before[name] for name in names if after[name] != self.before[name]}


class FewRights(KernelServer):
    """A server that runs as nobody with some capabilities, and may lock little memory."""

    def __init__(self, capabilities, *arguments, **settings):
        self.capabilities = capabilities
        super().__init__(*arguments, **settings)

    def words(self):
        self.directory.chmod(0o1777)
        return as_nobody(self.capabilities, memlock=65536) + super().words()


class FromRoot(KernelServer):
    """A server that root starts and that then becomes somebody else."""

    def words(self):
        self.directory.chmod(0o1777)
        return super().words()


def answers(server, key=b"a", host=None):
    """Asks over UDP for what was stored over TCP: whether the kernel answered. The reply must be right
    whoever does."""
    with server.connect() as stream:
        stream.set(key, b"value")
    moved = Moved(server)
    with server.client(host=host) as client:
        assert client.ask(b"get %b\r\n" % key) == b"VALUE %b 0 5\r\nvalue\r\nEND\r\n" % key
    return moved().get("answered", 0) == 1


def attached(link):
    """The XDP program at the server's interface, as `ip` shows it; None without one."""
    (found,) = json.loads(link.server.ip("-j", "link", "show", "dev", NEAR))
    return found.get("xdp")
