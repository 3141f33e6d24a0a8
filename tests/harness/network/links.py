"""A veth pair between the host of a server and that of its clients: it stands for a NIC and the network
before it.

Only what is tested crosses it: a test asks its server's TCP port on the server's own loopback."""

import contextlib
import itertools
import os
import subprocess
from pathlib import Path

from harness.network import bpf
from harness.network.hosts import Host, NotPermitted, ip

NUMBERS = itertools.count()
NEAR, FAR = "port0", "link{}"
PREFIX = "mc-"
BASE = 11300


class Link:
    """`server` and `clients` are hosts with addresses of the same networks. Use it with `with`."""

    def __init__(
        self, queues=1, mtu=1500, addressed=True, whole_checksums=False, directed=True, clients=None
    ):
        number = next(NUMBERS)
        self.queues, self.mtu = queues, mtu
        self.addressed = addressed  # whether the server's kernel has the addresses as well
        self.whole_checksums = (
            whole_checksums  # else the kernel of the clients leaves them to a NIC, and there is none
        )
        self.directed = directed and queues > 1  # whether port i leads to queue i
        self.number = number
        net = f"10.92.{number % 256}"
        net6 = f"fd92:{number % 65536:x}"
        unique = f"{PREFIX}{os.getpid()}-{number}"
        self.server = Host(f"{unique}s", f"{net}.1", NEAR, f"{net6}::1")
        self.clients = clients or Host(f"{unique}c", f"{net}.2")
        self.owns_clients = clients is None
        self.far = FAR.format(number)
        self.client_addresses = (f"{net}.2", f"{net6}::2")
        self._stack = contextlib.ExitStack()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self):
        hosts = [self.server, self.clients] if self.owns_clients else [self.server]
        for host in hosts:
            host.make()
            self._stack.callback(host.delete)
        self.plug_in()
        with self.server.inside():
            pass  # whether it is permitted

    def plug_in(self):
        """Makes the pair; a test may have deleted an end of it, and with that both."""
        queues = ("numrxqueues", str(self.queues), "numtxqueues", str(self.queues))
        pair = (
            "name", NEAR, *queues, "type", "veth", "peer", "name", self.far, *queues, "netns",
            self.clients.name
        )
        self.server.ip("link", "add", *pair)
        if self.addressed:
            self._address(self.server, NEAR, (self.server.address, self.server.address6))
        self._address(self.clients, self.far, self.client_addresses)
        self.set_mtu(self.mtu)
        self.near_state("up")
        self.far_state("up")
        if self.whole_checksums:
            self.clients.run("ethtool", "-K", self.far, "tx", "off", "gso", "off", "tso", "off")

    def _address(self, host, interface, addresses):
        host.ip("address", "replace", f"{addresses[0]}/24", "dev", interface)
        host.ip("address", "replace", f"{addresses[1]}/64", "dev", interface, "nodad")

    def set_mtu(self, near, far=None):
        """Sets the MTU of both ends, or of each."""
        self.server.ip("link", "set", NEAR, "mtu", str(near))
        self.clients.ip("link", "set", self.far, "mtu", str(far or near))

    def near_state(self, state):
        """Takes the server's end up or down."""
        self._state(self.server, NEAR, self.server.address6, state)

    def far_state(self, state):
        """Takes the clients' end up or down."""
        self._state(self.clients, self.far, self.client_addresses[1], state)

    def _state(self, host, interface, address6, state):
        host.ip("link", "set", interface, state)
        if state == "up" and (self.addressed or host is self.clients):
            # An interface that goes down loses its IPv6 addresses.
            host.ip("address", "replace", f"{address6}/64", "dev", interface, "nodad")

    def direct(self, directed=True):
        """Directs datagrams for port BASE + i to queue i, or lets the kernel choose the queue."""
        if directed and self.queues > 1:
            bpf.attach(self.clients, self.far, "egress", "direct", BASE=BASE, QUEUES=self.queues)
        else:
            with contextlib.suppress(NotPermitted):
                bpf.detach(self.clients, self.far)

    def lose(self, share):
        """Loses this share of the datagrams from now on, in each direction."""
        for direction in ("egress", "ingress"):
            bpf.attach(self.clients, self.far, direction, "lose", LOSS=int(share * 65536))

    @property
    def prefixes(self):
        """The server's addresses as `--bypass-ip` takes them."""
        return f"{self.server.address}/24,{self.server.address6}/64"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Removes the hosts, and with them the pair."""
        self._stack.close()


class Links:
    """Links that servers take one after the other. Their clients share one host."""

    def __init__(self):
        self.free = {}
        self.stack = contextlib.ExitStack()
        self.clients = None

    def take(self, **options):
        """A link with these options that nobody uses."""
        free = self.free.setdefault(tuple(sorted(options.items())), [])
        if free:
            return free.pop()
        if self.clients is None:
            remove_left_over()
            self.clients = Host(f"{PREFIX}{os.getpid()}-clients", None)
            self.clients.make()
            self.stack.callback(self.clients.delete)
        link = self.stack.enter_context(Link(clients=self.clients, **options))
        link.direct(link.directed)
        return link

    def give_back(self, link, **options):
        """Takes back a link whose server has ended."""
        self.free[tuple(sorted(options.items()))].append(link)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()


def remove_left_over():
    """Namespaces of runs that were killed."""
    for name in os.listdir("/run/netns") if os.path.isdir("/run/netns") else []:
        process = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and process.isdigit() and not Path(f"/proc/{process}").exists():
            with contextlib.suppress(NotPermitted):
                ip("netns", "delete", name)


def permitted():
    """Returns the reason for which links are impossible here, or None."""
    try:
        with Link():
            return None
    except (NotPermitted, subprocess.SubprocessError) as error:
        return str(error)
