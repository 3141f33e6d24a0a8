"""memcached's protocols over UDP between hosts: IPv6, addresses that are not allowed, and a restart."""

import threading
from contextlib import ExitStack

import pytest

from harness.memcached.udp import UdpClient, UdpServer
from harness.network.hosts import two_hosts
from harness.poll import until


def test_ipv6():
    server = UdpServer("-t", "2", "-m", "64", "-l", "127.0.0.1,::1")
    try:
        (port,) = {
            int(line.rsplit(":", 1)[1])
            for line in (server.directory / "ports").read_text().splitlines()
            if "UDP INET6" in line
        }
        with UdpClient(port, host="::1") as client:
            assert client.ask(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
        with server.client() as client:
            assert client.ask(b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
    finally:
        server.end()


def test_others_than_those_allowed_are_not_answered():
    """From another host, and from this one at an address that is not loopback."""
    with two_hosts() as hosts, ExitStack() as stack:
        near, far = hosts

        class Near(UdpServer):
            """In its host, as are the connections to it."""

            address = property(lambda self: (near.address, self.port))

            def connect(self, **options):
                with near.inside():
                    return super().connect(**options)

        def server(*options):
            with near.inside():
                started = Near("-l", near.address, "-t", "2", "-m", "64", *options)
            stack.callback(started.end)
            return started

        closed, others, opened = (
            server(), server("--udp-allow", "10.91.0.0/16"),
            server("--udp-allow", f"127.0.0.0/8,{far.address}")
        )
        for running, answered in ((closed, ()), (others, ()), (opened, (far,))):
            for host in hosts:
                before = running.count("not_allowed")
                with host.inside():
                    client = stack.enter_context(UdpClient(running.udp_port, host=near.address))
                if host in answered:
                    assert client.ask(b"mn\r\n") == b"MN\r\n"
                    continue
                client.send(b"set a 0 0 1\r\nx\r\n")
                until(
                    lambda r=running, b=before: r.count("not_allowed") == b + 1,
                    "the datagram to be counted",
                )
                assert client.is_silent()
                with running.connect() as stream:
                    assert stream.get(b"a") is None, "it was not looked at"


@pytest.mark.parametrize("workers", [1, 3])
def test_datagrams_wait_for_the_end_of_a_restart(tmp_path, workers):
    server = UdpServer("-t", workers, "-m", "64", "--image", tmp_path / "image")
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(server.client()) for _ in range(2 * workers)]
            assert clients[0].ask(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
            restarted = []
            restart = threading.Thread(target=lambda: restarted.append(server.ctl("restart")))
            restart.start()
            while restart.is_alive():  # each of them is answered, whenever it came
                for client in clients:
                    assert client.ask(b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
            restart.join()
            assert restarted[0].returncode == 0, restarted[0].stderr
            assert server.stats("settings")["udpport"] == str(server.udp_port)
            for client in clients:
                assert client.ask(b"get a\r\n") == b"VALUE a 0 1\r\nx\r\nEND\r\n"
    finally:
        server.end()
