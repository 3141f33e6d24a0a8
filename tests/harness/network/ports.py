"""The ways by which native datagrams reach a server: the kernel's sockets, and the ports around them.

A server behind such a port has a host of its own and a link to that of its clients (harness.links); a test
that takes the fixture `port`, and starts its servers with it, runs over all of them."""

import functools
import os
from dataclasses import dataclass, field

from harness.native.client import NativeClient
from harness.native.server import NativeServer
from harness.network.links import BASE, NEAR, Links, permitted
from harness.server import command

# TCP port of servers on hosts of their own, where it is free; the same on each address.
TCP_PORT = 11200
KERNEL, XDP, DPDK, KERNEL_GET = "kernel", "xdp", "dpdk", "kernel-get"


def dpdk_binary():
    """The build with DPDK, where there is one."""
    binary = os.environ.get("MICANITE_DPDK_BIN")
    return binary if binary and os.path.exists(binary) else None


@functools.cache
def why_not(kind):
    """Returns the reason for which there is no such port here, or None."""
    if kind == KERNEL:
        return None
    if kind == DPDK and not dpdk_binary():
        return "MICANITE_DPDK_BIN names no binary with DPDK"
    return permitted()


class PortServer(NativeServer):
    """A server at one end of a link. Its TCP port is asked on its own host. Use it with `with`."""

    def __init__(self, kind, link, *options, driver="net_af_packet0", **settings):
        self.kind, self.link = kind, link
        options = list(options)
        if "--native" not in options:
            options += ["--native", BASE]
        if "-t" not in options:
            options += ["-t", 1]
        if "-p" not in options:
            options += ["-p", TCP_PORT]
        if kind == KERNEL_GET:
            if "-l" not in options:
                options += ["-l", f"127.0.0.1,{link.server.address},{link.server.address6}"]
            # NAPI receives the frames that XDP sends back, and a veth end has NAPI only with GRO.
            link.clients.run("ethtool", "-K", link.far, "gro", "on")
        with link.server.inside():
            super().__init__(*port_options(kind, link, driver), *options, **settings)
        if kind == KERNEL_GET:
            # Without the program everything would be answered all the same.
            assert (state := self.stats("kernel")["kernel_get"]).startswith("on"), state

    def words(self):
        return [dpdk_binary(), "serve"] if self.kind == DPDK else command()

    def connect(self, **options):
        with self.link.server.inside():
            return super().connect(**options)

    def client(self, learn=True, host=None, **options):
        with self.link.clients.inside():
            client = NativeClient(self.native_port, host=host or self.link.server.address, **options)
        return client.learn() if learn else client


def port_options(kind, link, driver="net_af_packet0"):
    """The words that give a server its port; `driver` is one of DPDK's for an interface of the kernel's."""
    if kind == XDP:
        return ["--bypass", f"xdp:{NEAR}"]
    if kind == KERNEL_GET:
        return ["--kernel-get", NEAR]
    queues = "qpairs" if driver.startswith("net_af_packet") else "queue_count"
    device = f"{driver},iface={NEAR},{queues}={link.queues}"
    return ["--bypass", f"dpdk:{device}", "--bypass-ip", link.prefixes]


@dataclass
class Port:
    """One of the ways, with a number of workers."""

    kind: str
    workers: int
    links: Links = field(default=None, repr=False)

    def __str__(self):
        return f"workers{self.workers}" if self.kind == KERNEL else f"{self.kind}{self.workers}"

    def server(self, *options, **settings):
        """Starts a server behind such a port; `-t` in the options, else one worker."""
        if self.kind == KERNEL:
            return NativeServer(*options, **settings)
        options = [str(option) for option in options]
        queues = int(options[options.index("-t") + 1]) if "-t" in options and self.kind != KERNEL_GET else 1
        kept = {"queues": queues} | (
            {"addressed": False, "whole_checksums": True} if self.kind == DPDK else {}
        )
        return LentServer(self.links, kept, self.kind, *options, **settings)


class LentServer(PortServer):
    """A server whose link is another's when it has ended."""

    def __init__(self, links, kept, kind, *options, **settings):
        self.give_back = functools.partial(links.give_back, link := links.take(**kept), **kept)
        # It also ends itself, and with that returns the link, when it does not become ready.
        super().__init__(kind, link, *options, **settings)

    def end(self):
        super().end()
        self.give_back()
        self.give_back = lambda: None


def ports(*ways):
    """Returns those of these (kind, workers) that exist here."""
    return [Port(kind, workers) for kind, workers in ways if why_not(kind) is None]


def is_full():
    """Returns whether this is make test-full: everything runs in every set-up."""
    return os.environ.get("TEST_FULL") == "1"


@functools.cache
def every_port():
    """For tests of what any server does: the kernel's sockets, and the ways around the kernel."""
    others = ((KERNEL, 1), (KERNEL, 4), (XDP, 1)) if is_full() else ()
    return ports((KERNEL, 2), (XDP, 2), (DPDK, 1), (KERNEL_GET, 2), *others)


@functools.cache
def many_workers():
    """For tests of what workers do among themselves. Those behind a DPDK port never sleep: several of them
    would leave the tests no CPU."""
    return ports((KERNEL, 2), *(((KERNEL, 4),) if is_full() else ()), (XDP, 2))


@functools.cache
def each_kind():
    """For tests that start servers with options of their own."""
    return ports((KERNEL, 2), (XDP, 2), (DPDK, 2), (KERNEL_GET, 2))


@functools.cache
def around_the_kernel():
    """For tests of frames and interfaces."""
    return ports((XDP, 1), (DPDK, 1))
