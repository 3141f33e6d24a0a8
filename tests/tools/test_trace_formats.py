"""Traces of every format through `micanite trace`: told by their content, compressed or not, converted; and
what real clients ask, read back from captured packets."""

import random
import socket
import struct
import subprocess

import bmemcached
import pymemcache
import pytest

from harness.memcached.udp import UdpClient
from harness.network.capture import CannotCapture, Capture
from harness.server import Server, command, environment

TWITTER = "0,ns:a,4,0,1,get,0\n1,ns:a,4,10,1,set,60\n3,b,1,0,2,delete,0\n"
CACHELIB = (
    "op_time,key,key_size,op,op_count,size,cache_hits,ttl\n"
    "1700000000,k,20,GET,2,7,2,0\n1700000001,k,20,SET,1,9,0,60\n"
    "1700000001,k,20,INCR,1,9,0,0\n"
)
OBJECTS = "# time, object, size\n0, 7, 100\n2, 8, 200\n"
ORACLE = b"".join(struct.pack("<IQIq", *record) for record in [(0, 7, 100, 2), (1, 2**64 - 1, 200, -1)])


def run(*words):
    """Runs micanite with these words, to its end."""
    return subprocess.run(
        [command()[0], *map(str, words)], capture_output=True, text=True, timeout=60, env=environment()
    )


def cat(path, *options):
    """The requests of a trace as rows, and what was said about it."""
    ended = run("trace", "cat", path, *options)
    assert ended.returncode == 0, ended.stderr
    return [line.split(",") for line in ended.stdout.splitlines()], ended.stderr


@pytest.mark.parametrize(
    "name, content, rows",
    [
        ("trace.csv", TWITTER, ["0,ns:a,4,,get,,", "1000,ns:a,4,10,set,60,", "3000,b,1,,delete,,"]),
        ("kv.csv", CACHELIB, ["1700000000000,k,20,7,get,,hit"] * 2 + ["1700000001000,k,20,9,set,60,"]),
        ("objects.csv", OBJECTS, ["0,7,0,100,get,,", "2000,8,0,200,get,,"]),
        ("x.oracleGeneral.bin", ORACLE, ["0,7,0,100,get,,", "1000,18446744073709551615,0,200,get,,"]),
    ],
    ids=["twitter", "cachelib", "object-csv", "oracle-general"],
)
def test_a_format_is_told_by_its_content(tmp_path, name, content, rows):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    read, said = cat(path)
    assert [",".join(row) for row in read] == rows
    assert ("left out line 4" in said) == (name == "kv.csv")
    # The recording holds the same except for the keys, which are hashes.
    for out in (tmp_path / "out.rec", tmp_path / "out.rec.zst"):
        converted = run("trace", "convert", path, out)
        assert converted.returncode == 0, converted.stderr
        assert f"{len(rows)} requests" in converted.stdout
        again, said = cat(out)
        assert said == ""
        assert [row[:1] + row[2:] for row in again] == [row[:1] + row[2:] for row in read]


def test_faults_of_a_file_are_named(tmp_path):
    def failure(content, *options):
        path = tmp_path / "file"
        path.write_bytes(content)
        ended = run("trace", "cat", path, *options)
        assert ended.returncode == 1 and "panicked" not in ended.stderr
        return ended.stderr

    assert "there is nothing in it" in failure(b"")
    assert "say it by --format" in failure(b"what is this\n")
    assert "gzip -dc" in failure(b"\x1f\x8b\x08\0\0\0")
    assert "does not begin like a capture" in failure(b"\x0a\x0d\x0d\x0a" + bytes(40))
    assert "cut off" in failure(b"\x28\xb5\x2f\xfd\x04\x58\x01\x00\x00")
    assert "line 1 is no" in failure(OBJECTS.encode(), "--format", "twitter")
    assert "op" in failure(OBJECTS.encode(), "--format", "cachelib")
    assert run("trace", "cat", "x", "--format", "pcap:0").returncode == 64


@pytest.fixture(scope="module")
def server():
    server = Server("-t", "2", "-m", "64", "-U", "-1")
    yield server
    server.end()


class Captured:
    """Clients' requests of a server, captured."""

    def __init__(self, server, path, **options):
        self.ports = server.ports()
        self.capture = Capture(path, self.ports.values(), **options)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if error[0] is None:
            # The last packets: whoever waits for them has all.
            with socket.create_connection(("127.0.0.1", self.ports["TCP"])) as connection:
                connection.sendall(b"echo-nothing\r\n")
                assert connection.recv(100) == b"ERROR\r\n"
                connection.sendall(b"get the-end-of-it\r\n")
                assert connection.recv(100) == b"END\r\n"
                self.capture.wait_for(b"get the-end-of-it\r\n")
                connection.sendall(b"get behind-it\r\n")
                self.capture.wait_for(b"get behind-it\r\n")
        self.capture.__exit__(*error)

    def requests(self, kind="TCP"):
        """Key, length of the value, operation, expiry and outcome of each."""
        rows, self.said = cat(self.capture.path, "--format", f"pcap:{self.ports[kind]}")
        times = [int(row[0]) for row in rows]
        assert times == sorted(times)
        assert all(int(row[2]) == len(row[1]) for row in rows)
        rows = [(key, value_bytes, *rest) for _, key, _, value_bytes, *rest in rows]
        return [row for row in rows if row[0] not in ("the-end-of-it", "behind-it")]


@pytest.fixture
def captured(server, tmp_path):
    def start(**options):
        try:
            return Captured(server, tmp_path / "traffic.pcap", **options)
        except CannotCapture as error:
            pytest.skip(f"packets cannot be captured here: {error}")

    return start


@pytest.mark.parametrize("bytes_max", [0, 160], ids=["whole", "beginnings"])
def test_requests_over_tcp_are_captured(server, captured, bytes_max):
    """pymemcache, two connections in turns; also where values were not captured."""
    chance, sent = random.Random(9), []
    outcome = {True: "hit", False: "miss"}
    with captured(bytes_max=bytes_max) as traffic:
        clients = [pymemcache.Client(("127.0.0.1", server.port), default_noreply=False) for _ in range(2)]
        clients[0].flush_all()
        for number in range(300):
            client, key = clients[number % 2], f"user:{chance.randrange(20)}"
            value, expiry_s = bytes(chance.randrange(3000)), chance.choice([0, 60, 3600])
            match chance.randrange(6):
                case 0:
                    client.set(key, value, expire=expiry_s)
                    sent.append((key, str(len(value)), "set", str(expiry_s), "hit"))
                case 1:
                    added = client.add(key, value, expire=expiry_s)
                    sent.append((key, str(len(value)), "add", str(expiry_s), outcome[added]))
                case 2:
                    sent.append((key, "", "delete", "", outcome[client.delete(key)]))
                case 3:
                    sent.append((key, "", "touch", str(expiry_s), outcome[client.touch(key, expiry_s)]))
                case 4 if bytes_max == 0:
                    keys = [f"user:{one}" for one in chance.sample(range(20), 4)]
                    found = client.get_many(keys)
                    for one in keys:
                        length = str(len(found[one])) if one in found else ""
                        sent.append((one, length, "get", "", outcome[one in found]))
                case _:
                    found = client.get(key)
                    length = "" if found is None else str(len(found))
                    sent.append((key, length, "get", "", outcome[found is not None]))
        for client in clients:
            client.close()
    assert traffic.requests() == sent
    # A value that was left out takes the END behind it with it, which is said. The other line is that of the
    # capture's own end.
    remarks = [line.split(": ")[-1] for line in traffic.said.splitlines()]
    assert remarks[-1] == "1 lines to the server were no requests"
    assert len(remarks) == (2 if bytes_max else 1)


def test_requests_of_the_binary_protocol_are_captured(server, captured):
    with captured() as traffic:
        client = bmemcached.Client((f"127.0.0.1:{server.port}",), socket_timeout=30)
        client.set("b:1", "x" * 500, time=60, compress_level=0)
        client.set_multi({"b:2": "y", "b:3": "z"})
        assert client.get("b:1") == "x" * 500 and client.get("b:none") is None
        assert client.get_multi(["b:2", "b:gone", "b:3"]) == {"b:2": "y", "b:3": "z"}
        assert client.delete("b:2") and client.incr("b:n", 5, default=7) == 7
        client.disconnect_all()
    read = traffic.requests()
    assert read[0] == ("b:1", "500", "set", "60", "hit")
    assert {(row[0], row[2], row[4]) for row in read} >= {
        ("b:1", "get", "hit"),
        ("b:none", "get", "miss"),
        ("b:2", "get", "hit"),
        ("b:gone", "get", "miss"),
        ("b:3", "get", "hit"),
        ("b:2", "delete", "hit"),
        ("b:n", "incr", "hit"),
    }


def test_meta_commands_and_udp_are_captured(server, captured):
    with captured() as traffic:
        with server.connect() as connection:
            connection.ask(b"ms m:1 4 T90\r\nabcd\r\n")
            connection.send(b"mg m:1 v q k\r\nmg m:gone v q k\r\nmg m:1 s v O1\r\nmd m:1\r\nmn\r\n")
            connection.lines_before(b"MN")
        with UdpClient(server.ports()["UDP"]) as client:
            client.ask(b"set u:1 0 0 5000\r\n" + b"u" * 5000 + b"\r\n")
            client.ask(b"get u:1 u:gone\r\n")
    assert traffic.requests() == [
        ("m:1", "4", "set", "90", "hit"),
        ("m:1", "4", "get", "", "hit"),
        ("m:gone", "", "get", "", "miss"),
        ("m:1", "4", "get", "", "hit"),
        ("m:1", "", "delete", "", "hit"),
    ]
    assert traffic.requests("UDP") == [
        ("u:1", "5000", "set", "0", "hit"),
        ("u:1", "5000", "get", "", "hit"),
        ("u:gone", "", "get", "", "miss"),
    ]
