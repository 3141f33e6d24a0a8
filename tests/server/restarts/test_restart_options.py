"""A restart in place after each option was changed: the server serves, the new program or the old one. A
restart that cannot succeed is refused before anything ends, with the difference and the way out."""

import contextlib
import os
import re
import signal
import socket
import urllib.request

import pytest

from harness.memcached.wire import Connection
from harness.network.claims import free_port, free_ports
from harness.poll import until
from harness.server import PROJECT, run_ctl

REFERENCE = PROJECT / "docs/reference/options.md"
# The reference leaves these out.
HIDDEN = {"hash-seed", "no-prefetch", "memory-file"}

TAKEN, FREE, DIRECTORY = "a taken port", "a free port", "a directory of the test"
NEW, OLD = "the new program", "the old program"
NOWHERE = "/no/such/directory"

# Name in the file: a changed value, and who serves then. Where the machine decides, nobody is named.
CHANGES = {
    "port": [(TAKEN, OLD), (FREE, NEW)],
    "listen": [("203.0.113.1", OLD), ("127.0.0.1,127.0.0.2", NEW)],
    "unix-socket": [(f"{NOWHERE}/socket", OLD), (f"{DIRECTORY}/socket", NEW)],
    "unix-mask": [("0777", NEW)],
    "max-connections": [("50", NEW)],
    "udp-port": [(TAKEN, OLD), (FREE, NEW)],
    "udp-allow": [("127.0.0.0/16", NEW)],
    "protocol": [("ascii", NEW)],
    "max-requests-per-event": [("32", NEW)],
    "listen-backlog": [("64", NEW)],
    "io": [("io_uring", None), ("auto", NEW)],
    "memory-limit": [("16777216t", OLD), ("24", NEW), ("40", NEW)],
    "memory-max": [("64", NEW)],
    "max-item-size": [("2m", OLD)],
    "semantics": [("store", OLD)],
    "disable-evictions": [("true", OLD)],
    "eviction": [("lru", OLD)],
    "image": [(f"{DIRECTORY}/micanite.toml/image", OLD), (f"{DIRECTORY}/other", NEW)],
    "namespace-delimiter": [("/", NEW)],
    "item-size": [("100", NEW)],
    "value-buffers": [("32m", NEW)],
    # Not beside memory-max.
    "lock-memory": [("true", OLD)],
    "threads": [("3", NEW), ("2", NEW)],
    "access": [("crew", NEW)],
    "pin": [("on", NEW)],
    "balance": [("auto", NEW)],
    "numa": [("off", NEW)],
    "auth-file": [(f"{NOWHERE}/users", OLD)],
    "enable-sasl": [("true", None)],
    "enable-ssl": [("true", OLD)],
    "tls-cert": [(f"{NOWHERE}/cert.pem", OLD)],
    "tls-key": [(f"{NOWHERE}/key.pem", OLD)],
    "tls-client-ca": [(f"{NOWHERE}/ca.pem", OLD)],
    "allow-unauthenticated": [("udp", None)],
    "enable-shutdown": [("true", NEW)],
    "disable-flush-all": [("true", NEW)],
    "disable-dumping": [("true", NEW)],
    "disable-watch": [("true", NEW)],
    "user": [("no-such-user", None)],
    "pidfile": [(f"{NOWHERE}/pid", OLD), (f"{DIRECTORY}/pid", NEW)],
    "daemon": [("true", NEW)],
    "drain-seconds": [("7", NEW)],
    "enable-coredumps": [("true", NEW)],
    "hash-seed": [("12345", OLD)],
    "no-prefetch": [("true", NEW)],
    "verbose": [("1", NEW)],
    "log-format": [("json", NEW)],
    "admin": [(TAKEN, OLD), (FREE, NEW)],
    "admin-files": [(f"{DIRECTORY}", None)],
    "admin-hosts": [("cache.example", NEW)],
    "admin-names": [("true", NEW)],
    "control-socket": [(f"{NOWHERE}/ctl", OLD), (f"{DIRECTORY}/another.ctl", NEW)],
    "native.port": [(TAKEN, OLD), (FREE, NEW)],
    "native.at": [("no-such-interface", OLD)],
    "native.payload": [("4096", NEW)],
    "native.gro": [("off", NEW)],
    "native.busy-poll": [("50", None)],
    "native.queue": [("1m", NEW)],
    "bypass.port": [("xdp:no-such-interface", OLD)],
    "bypass.ip": [("10.0.0.2/24", OLD)],
    "bypass.gateway": [("10.0.0.1", OLD)],
    "bypass.busy-poll": [("50", OLD)],
    "bypass.dpdk-args": [("--no-huge", OLD)],
    "kernel-get.interface": [("no-such-interface", OLD)],
    "kernel-get.mode": [("generic", None)],
    "kernel-get.pin": [(f"{NOWHERE}", OLD)],
    "kernel-get.spread": [("50", None)],
    "local.path": [(f"{NOWHERE}/local", OLD), (f"{DIRECTORY}/local", NEW)],
    "local.mode": [("0660", NEW)],
    "local.clients": [("20", NEW)],
    "fabric.address": [("no-such-provider,127.0.0.1", OLD)],
    "fabric.cache": [("128m", OLD)],
    "fabric.policy": [("fifo", OLD)],
    "fabric.write": [("through", OLD)],
    "fabric.frozen": [("20", OLD)],
    "fabric.push": [("20", OLD)],
    "fabric.clients": [("20", OLD)],
    "fabric.message": [("1m", OLD)],
    "fabric.trusted": [("true", OLD)],
    "extended": [("no_such_word", OLD), ("idle_timeout=100", NEW)],
    "memory-file": [("/tmp/file", OLD)],
    "disable-cas": [("true", NEW)],
    "enable-largepages": [("true", NEW)],
    "slab-growth-factor": [("1.5", NEW)],
    "slab-min-size": [("64", NEW)],
    "napi-ids": [("2", NEW)],
}


class Configured:
    """A server whose options stand in a file, where a restart finds others."""

    def __init__(self, start, directory):
        self.file = directory / "micanite.toml"
        self.options = {
            "port": str(free_port()),
            "memory-limit": "32",
            "threads": "1",
            "image": f"{directory}/image",
            "control-socket": f"{directory}/ctl",
        }
        self.write(self.options)
        self.server = start("--config", self.file, own_port=False)
        self.store()

    def write(self, options):
        lines = (f"{name} = '{value}'\n" for name, value in options.items())
        self.file.write_text("".join(lines))

    def store(self):
        with self.connect() as connection:
            connection.set(b"key", b"kept")

    def connect(self):
        host = self.options.get("listen", "127.0.0.1").split(",")[0]
        return Connection((host, int(self.options["port"])), timeout_s=30)

    def restart_with(self, changed):
        """Restarts with changed options; returns the reason if that was refused. They stay if it was not."""
        options = self.options | changed
        self.write(options)
        done = run_ctl("restart", "--socket", self.options["control-socket"])
        said = done.stderr
        if done.returncode == 0:
            self.options = options
        else:
            assert done.returncode == 1 and said.strip(), (done, self.server.stderr())
        self.write(self.options)
        return said if done.returncode else None

    def check(self):
        """It serves, in the same process, and has what is in its image."""
        assert self.server.alive(), self.server.stderr()
        with self.connect() as connection:
            assert connection.get(b"key") == b"kept", self.server.stderr()


def table():
    """The names of all options."""
    rows = re.findall(r'^\| <a id="[^"]+"></a>[^|]+\| `([^`]+)` \|', REFERENCE.read_text(), re.MULTILINE)
    return set(rows) | HIDDEN


def test_every_option_is_among_the_changes():
    assert table() == set(CHANGES)


SECTIONS = {name.split(".")[0] if "." in name else "" for name in CHANGES}


@pytest.mark.parametrize("section", sorted(SECTIONS), ids=lambda name: name or "general")
def test_a_server_serves_after_a_restart_with_any_option_changed(start, tmp_path, section):
    configured = Configured(start, tmp_path)
    names = [name for name in CHANGES if (name.split(".")[0] if "." in name else "") == section]
    with contextlib.ExitStack() as stack:
        tcp = stack.enter_context(socket.socket())
        udp = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        for name in names:
            for value, who in CHANGES[name]:
                taken = udp if name in ("udp-port", "native.port") else tcp
                # Each worker has a native port.
                ports = {TAKEN: taken.getsockname()[1], FREE: free_ports(4)[0]}
                value = str(ports.get(value, value))
                value = value.replace(DIRECTORY, str(tmp_path))
                refused = configured.restart_with({name: value})
                if name == "image" and refused is None:
                    configured.store()
                configured.check()
                assert who is None or (refused is None) == (who == NEW), (name, value, refused)


def test_a_refused_restart_names_the_difference_and_the_way_out(start, tmp_path):
    configured = Configured(start, tmp_path)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        elsewhere = "Another --image directory begins empty"
        for changed, difference, way_out in [
            ({"semantics": "store"}, "the image is a cache, not a store (--semantics)", elsewhere),
            ({"eviction": "lru"}, "the image evicts by s3-fifo, not by lru (--eviction)", elsewhere),
            ({"max-item-size": "2m"}, "the largest item of the image has about", elsewhere),
            ({"port": str(port)}, f"TCP 127.0.0.1:{port}: Address already in use", "choose another port"),
            ({"hash-seed": "12345"}, "the image has another seed than 12345 (--hash-seed)", ""),
        ]:
            said = configured.restart_with(changed)
            assert said and difference in said and way_out in said, said
            configured.check()


def test_an_address_that_overlaps_the_own_one_is_named(start, tmp_path):
    """The server itself is in the way, not another one."""
    configured = Configured(start, tmp_path)
    for listen in ["0.0.0.0", "127.0.0.1,0.0.0.0"]:
        said = configured.restart_with({"listen": listen})
        assert said and "which overlaps it" in said and "stop the server, and start it" in said, said
        configured.check()
    # An address of no interface is no overlap.
    said = configured.restart_with({"listen": "192.0.2.1"})
    assert said and "This machine has no such address" in said, said
    configured.check()


def test_a_restart_that_leaves_a_store_no_room_is_refused(start, tmp_path):
    """The refusal names a memory that suffices, and the server still has everything."""
    config = tmp_path / "micanite.toml"
    options = ["-t", "1", "--semantics", "store", "--image", tmp_path / "image", "--config", config]
    config.write_text("memory-limit = '64'\n")
    server = start(*options)
    value = b"x" * 100_000
    with server.connect() as client:
        for number in range(200):
            client.set(b"key-%d" % number, value)
        config.write_text("memory-limit = '8'\n")
        refused = server.ctl("restart")
        assert refused.returncode == 1 and "its items have no room in 8 (-m)" in refused.stderr
        least = re.search(r"-m (\d+) suffices", refused.stderr)[1]
        assert client.get(b"key-0") == value
    config.write_text(f"memory-limit = '{least}'\n")
    assert server.ctl("restart").returncode == 0
    with server.connect() as client:
        for number in range(200):
            assert client.get(b"key-%d" % number) == value


def test_new_sockets_are_open_before_the_old_server_ends(start, tmp_path):
    """A port that is free in the trial is not lost to another server meanwhile: the trial hands it over."""
    config = tmp_path / "micanite.toml"
    config.write_text("")
    options = ["-t", "1", "--image", tmp_path / "image", "--config", config, "--drain-seconds", "60"]
    server = start(*options)
    port = free_port()
    with server.connect() as reader:
        value = b"x" * (1 << 20)
        reader.set(b"key", value[:900_000])
        # Replies that are not read keep the old server.
        reader.send(b"get key\r\n" * 50)
        reader.line()
        config.write_text(f"admin = '{port}'\n")
        os.kill(server.pid, signal.SIGUSR2)
        until(lambda: "restarting when" in server.stderr(), "the restart to begin")
        with pytest.raises(OSError), socket.socket() as other:
            other.bind(("127.0.0.1", port))
            other.listen()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as metrics:
        assert metrics.status == 200
