"""Two hosts in one machine: network namespaces joined by a veth pair, made for a test, removed after it."""

import contextlib
import ctypes
import itertools
import os
import subprocess

import pytest

from harness.poll import DEADLINE_S, until

# The kernel may finish its work on a network late: machines were seen that stood for 40 seconds.
PROGRAM_S = 2 * DEADLINE_S
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
NUMBERS = itertools.count()


class NotPermitted(pytest.skip.Exception):
    """Skips a test where network namespaces or programs are missing; the message says why."""


def program(*words):
    """Runs a program of iproute2 or one like it, which may be where only root's search path looks; says why
    it could not."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, timeout=PROGRAM_S, env=os.environ | {"PATH": path}
        )
    except FileNotFoundError as error:
        raise NotPermitted(f"there is no `{words[0]}` (Debian: iproute2)") from error
    if ended.returncode:
        raise NotPermitted(f"{' '.join(words)}: {ended.stderr.strip()}")
    return ended.stdout


def ip(*words):
    """Runs `ip`."""
    return program("ip", *words)


class Host:
    """A network namespace with one interface."""

    def __init__(self, name, address, interface=None, address6=None):
        self.name, self.address, self.interface = name, address, interface or f"{name}v"
        self.address6 = address6

    def make(self):
        """Makes the namespace."""
        ip("netns", "add", self.name)
        self.ip("link", "set", "lo", "up")

    def delete(self):
        """Removes it, and the interfaces in it."""
        ip("netns", "delete", self.name)

    def ip(self, *words):
        """`ip` inside."""
        return ip("-n", self.name, *words)

    def tc(self, *words):
        """`tc` inside."""
        return program("tc", "-n", self.name, *words)

    def run(self, *words):
        """Another program inside."""
        return program("ip", "netns", "exec", self.name, *words)

    @contextlib.contextmanager
    def inside(self):
        """Files and processes that this thread opens and starts meanwhile belong to the host."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            enter(there)
            try:
                yield self
            finally:
                enter(own)
        finally:
            os.close(there)
            os.close(own)

    def link(self, state):
        """Takes its interface up or down."""
        self.ip("link", "set", self.interface, state)

    def wait_until_up(self, interface):
        """Waits until the kernel sends by an interface that was taken up: it begins in the background, and
        drops datagrams before. That takes long while other namespaces are removed."""
        until(lambda: "state UP" in self.ip("-o", "link", "show", "dev", interface), f"{interface} to be up")

    def counters(self, protocol):
        """The kernel's counters of a protocol ("Udp", "Ip") here."""
        with self.inside(), open("/proc/thread-self/net/snmp") as lines:
            names, values = [line.split()[1:] for line in lines if line.startswith(protocol + ":")]
        return {name: int(value) for name, value in zip(names, values, strict=True)}


def enter(descriptor):
    """Takes this thread into a namespace."""
    if LIBC.setns(descriptor, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise NotPermitted(f"setns: {os.strerror(number)}")


@contextlib.contextmanager
def two_hosts():
    """Two hosts, which reach each other and nobody else."""
    unique = f"mn{os.getpid()}-{next(NUMBERS)}"
    hosts = [Host(unique + side, f"10.90.0.{number}") for number, side in enumerate("ab", 1)]
    with contextlib.ExitStack() as stack:
        for host in hosts:
            ip("netns", "add", host.name)
            stack.callback(ip, "netns", "delete", host.name)
        one, other = hosts
        # Made inside, so that no name is taken outside; the pair ends with its namespaces.
        one.ip("link", "add", one.interface, "type", "veth", "peer", other.interface, "netns", other.name)
        for host in hosts:
            host.ip("address", "add", f"{host.address}/24", "dev", host.interface)
            host.ip("link", "set", "lo", "up")
            host.link("up")
        with one.inside():
            pass  # whether it is permitted
        yield hosts


@contextlib.contextmanager
def star(count):
    """Makes so many hosts at one bridge, in a namespace of its own: they reach each other and nobody else."""
    unique = f"ms{os.getpid()}-{next(NUMBERS)}"
    hosts = [Host(unique + chr(ord("a") + number), f"10.91.0.{number + 1}") for number in range(count)]
    middle = f"{unique}m"
    with contextlib.ExitStack() as stack:
        for name in [middle, *(host.name for host in hosts)]:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
        ip("-n", middle, "link", "add", "bridge", "type", "bridge")
        ip("-n", middle, "link", "set", "bridge", "up")
        for number, host in enumerate(hosts):
            port = f"port{number}"
            host.ip("link", "add", host.interface, "type", "veth", "peer", port, "netns", middle)
            ip("-n", middle, "link", "set", port, "master", "bridge", "up")
            host.ip("address", "add", f"{host.address}/24", "dev", host.interface)
            host.ip("link", "set", "lo", "up")
            host.link("up")
        with hosts[0].inside():
            pass  # whether it is permitted
        yield hosts
