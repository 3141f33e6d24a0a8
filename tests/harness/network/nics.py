"""A server's host with several interfaces, and a host of clients that has one for each of them.

Apart, each interface is one end of a veth pair with a network of its own. Switched, all are ports of one
bridge, and the clients have a single interface with an address in each network."""

import contextlib
import itertools
import os
from pathlib import Path

from harness.native.client import NativeClient
from harness.native.server import NativeServer
from harness.network import bpf
from harness.network.hosts import Host, ip
from harness.network.links import BASE
from harness.network.ports import TCP_PORT

NUMBERS = itertools.count()


class Nics:
    """`server` and `clients` are hosts. Use it with `with`."""

    def __init__(self, count, queues=1, switched=False):
        unique = f"mi{os.getpid()}-{next(NUMBERS)}"
        self.count, self.queues, self.switched = count, queues, switched
        self.names = [f"nic{number}" for number in range(count)]
        self.server = Host(f"{unique}s", self.address(0), self.names[0])
        self.clients = Host(f"{unique}c", self.address(0, 2))
        self.far = "far0"
        self._stack = contextlib.ExitStack()
        self._hosts = [self.server, self.clients]
        try:
            self._make(f"{unique}m")
        except BaseException:
            self.close()
            raise

    @staticmethod
    def address(number, host=1):
        """The address of the server's host, or of another one, in the network of an interface."""
        return f"10.93.{number}.{host}"

    @staticmethod
    def address6(number, host=1):
        """The same over IPv6."""
        return f"fd93:{number + 1}::{host}"

    def _make(self, middle):
        for host in self._hosts:
            host.make()
            self._stack.callback(host.delete)
        if self.switched:
            ip("netns", "add", middle)
            self._stack.callback(ip, "netns", "delete", middle)
            ip("-n", middle, "link", "add", "bridge", "type", "bridge")
            ip("-n", middle, "link", "set", "bridge", "up")
        queues = ("numrxqueues", str(self.queues), "numtxqueues", str(self.queues))
        for number, name in enumerate(self.names):
            peer = f"port{number}" if self.switched else f"far{number}"
            where = middle if self.switched else self.clients.name
            pair = ("name", name, *queues, "type", "veth", "peer", "name", peer, *queues, "netns", where)
            self.server.ip("link", "add", *pair)
            if self.switched:
                ip("-n", middle, "link", "set", peer, "master", "bridge", "up")
        if self.switched:
            # Otherwise any interface answers for the addresses of all.
            with self.server.inside():
                Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1")
            pair = ("name", self.far, "type", "veth", "peer", "name", "portc", "netns", middle)
            self.clients.ip("link", "add", *pair)
            ip("-n", middle, "link", "set", "portc", "master", "bridge", "up")
        for number, name in enumerate(self.names):
            far = self.far if self.switched else f"far{number}"
            self._address(self.server, name, number, 1)
            self._address(self.clients, far, number, 2)
            self.server.wait_until_up(name)
            self.clients.wait_until_up(far)
        with self.server.inside():
            pass  # whether it is permitted

    def _address(self, host, interface, number, last):
        host.ip("address", "add", f"{self.address(number, last)}/24", "dev", interface)
        host.ip("address", "add", f"{self.address6(number, last)}/64", "dev", interface, "nodad")
        host.ip("link", "set", interface, "up")

    def direct(self, number):
        """Directs datagrams for port BASE + i to queue i of an interface, as flow rules of a NIC do."""
        bpf.attach(self.clients, f"far{number}", "egress", "direct", BASE=BASE, QUEUES=self.queues)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes the hosts, and with them the interfaces."""
        self._stack.close()


class NicsServer(NativeServer):
    """A server at all interfaces, by the kernel's sockets or AF_XDP. Its TCP port is its own host's."""

    def __init__(self, nics, kind, *options, at=None, **settings):
        self.nics = nics
        if kind == "xdp":
            places = [word for name in nics.names for word in ("--bypass", f"xdp:{name}")]
        else:
            places = ["--native-at", at or ",".join(nics.names)]
        options = ["-p", TCP_PORT, "--native", BASE, *places, *options]
        with nics.server.inside():
            super().__init__(*options, **settings)

    def connect(self, **options):
        with self.nics.server.inside():
            return super().connect(**options)

    def client(self, learn=True, **options):
        """A client that was given the address of the first interface."""
        with self.nics.clients.inside():
            client = NativeClient(self.native_port, **{"host": self.nics.address(0)} | options)
        return client.learn() if learn else client

    def counts(self, name):
        """A counter of each worker."""
        found = self.stats("native")
        return [int(found[f"{worker}:{name}"]) for worker in range(int(self.stats()["threads"]))]
