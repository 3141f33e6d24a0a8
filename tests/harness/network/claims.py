"""Ports that a test has to name itself: they stay this process's, and the kernel gives them to nobody."""

import random
import socket
from pathlib import Path

LEAST_PORT = 10_000
# Abstract sockets whose names stand for ports. The kernel frees the names when the process ends.
CLAIMS = []


def unassigned():
    """Returns the ports that nobody gets who leaves the choice to the kernel; all, if it chooses from all."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = range(LEAST_PORT, 1 << 16)
    return [port for port in ports if not first <= port <= last] or ports


def claim(port):
    """Returns a socket that claims a port, or None if another test has it or somebody uses it."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0micanite-test-port-{port}")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("", port))
    except (OSError, OverflowError):
        name.close()
        return None
    return name


def free_ports(count):
    """Returns this many consecutive ports of TCP and UDP that no other test gets until this process ends."""
    while True:
        first = random.choice(unassigned())
        claimed = [claim(port) for port in range(first, first + count)]
        if all(claimed):
            CLAIMS.extend(claimed)
            return list(range(first, first + count))
        for name in filter(None, claimed):
            name.close()


def free_port():
    """Returns one such port."""
    return free_ports(1)[0]
