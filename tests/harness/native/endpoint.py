"""Clients of a fabric: the messages are written here, and a process of the test tools carries them over
libfabric."""

import functools
import json
import random
import struct
import subprocess
import threading
import time
from pathlib import Path

from harness import native
from harness.native import Header, Kind, Opcode, Request, Status, fabric
from harness.network.claims import free_ports
from harness.poll import DEADLINE_S, until
from harness.server import Server, run_ctl
from harness.tools.programs import tools

PROVIDERS = ("net;ofi_rxm", "tcp;ofi_rxm", "shm")
HELLO_AGAIN_S = 0.5
MESSAGE_BYTES = (1 << 20) + 4096
LIST_BYTES = 8 << 10
RECORD_BYTES = 24
CHUNK_BYTES = 56
PUSH, HISTORY = 1, 2


class Failed(Exception):
    """A transfer failed, with libfabric's reason."""


@functools.cache
def providers():
    """The providers that this machine has, by `ctl doctor`."""
    sections = json.loads(run_ctl("doctor", "--json", "lo").stdout)["sections"]
    (found,) = [section["findings"] for section in sections if section["title"].startswith("fabric")]
    return [it["text"].split(": ")[0] for it in found if it["state"] == "fine"]


def free_places(provider, count):
    """An address of a server with so many workers."""
    if provider == "shm":
        return f"shm,micanite-test-{random.getrandbits(48):x}"
    return f"{provider},127.0.0.1:{free_ports(count)[0]}"


def worker_address(address, worker):
    """The address of a worker, by that of the first."""
    if worker == 0:
        return address
    if address.startswith("shm,"):
        return f"{address}-{worker}"
    rest, _, port = address.rpartition(":")
    return f"{rest}:{int(port) + worker}"


class FabricServer(Server):
    """A server of one provider. Use it with `with`."""

    def __init__(self, provider, *options, workers=1, address=None, **settings):
        self.workers, self.fabric_address = workers, address or free_places(provider, workers)
        trusted = ["--fabric-trusted"] if provider == "shm" else []
        words = ["-t", workers, "--fabric", self.fabric_address, *trusted, *options]
        super().__init__(*words, **settings)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ends it. A server that was killed leaves the files of shm behind."""
        super().end()
        if self.fabric_address.startswith("shm,"):
            for worker in range(self.workers):
                name = worker_address(self.fabric_address, worker).removeprefix("shm,")
                Path("/dev/shm", name).unlink(missing_ok=True)

    def count(self, name):
        """A number of `stats fabric`."""
        return int(self.stats("fabric")[name])

    def client(self, **options):
        """A client that was let in."""
        return FabricClient(self.fabric_address, **options)


# Ends whose processes may still run.
RUNNING = set()


def kill_ends(but):
    """Ends what a test that failed has left: the processes poll, and hold up the tests behind it."""
    for end in RUNNING - but:
        end.kill()


class End:
    """One end of a fabric, in a process of its own."""

    def __init__(self, address):
        self.process = subprocess.Popen(
            [tools(), "fabric", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines = 0
        self.answers = {}
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        RUNNING.add(self)

    def _read(self):
        for line in self.process.stdout:
            number, state, rest = (line.rstrip("\n") + " ").split(" ", 2)
            with self.changed:
                self.answers[int(number)] = (state, rest.strip())
                self.changed.notify_all()
        with self.changed:
            self.lines = None
            self.changed.notify_all()

    def post(self, *words):
        """Starts a transfer; returns its number."""
        number, self.lines = self.lines, self.lines + 1
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return number

    def wait(self, number, deadline_s=DEADLINE_S):
        """The bytes that a transfer brought; None after the time."""
        with self.changed:
            ended = self.changed.wait_for(lambda: number in self.answers or self.lines is None, deadline_s)
            if not ended:
                return None
            assert number in self.answers, "the client's process has ended"
            state, rest = self.answers.pop(number)
        if state != "ok":
            raise Failed(rest)
        return bytes.fromhex(rest)

    def do(self, *words, deadline_s=DEADLINE_S):
        """A transfer, to its end."""
        done = self.wait(self.post(*words), deadline_s)
        assert done is not None, f"{words[0]} does not end"
        return done

    def kill(self):
        """Ends the process at once. Over shm it leaves files of 16 MiB behind."""
        self.process.kill()
        self.process.wait()
        RUNNING.discard(self)
        for left in Path("/dev/shm").glob(f"{self.process.pid}:*"):
            left.unlink(missing_ok=True)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill()
        # It has read to the end: the process is gone.
        self.reader.join()
        self.process.stdout.close()
        RUNNING.discard(self)


class FabricClient:
    """A client of a server's fabric. It says hello at once, unless told not to."""

    def __init__(self, address, user=b"", password=b"", nonce=None, hello=True, message_bytes=MESSAGE_BYTES):
        self.base = address
        self.login = {"user": user, "password": password}
        self.nonce = random.getrandbits(64) if nonce is None else nonce
        self.message_bytes = message_bytes
        self.end = End(address)
        self.status = None
        self.facts = {}
        self.pushed = {}
        self.ids = 0
        if hello:
            self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end.close()

    def connect(self):
        """Greets, says hello, and moves on to its worker."""
        self.hello()
        workers = self.facts.get("workers", 1)
        if workers > 1 and self.nonce % workers != self.facts["worker"]:
            self.end.close()
            self.end = End(worker_address(self.base, self.nonce % workers))
            self.hello()
        if self.status == Status.OK:
            self.push_post = self.post_receive(PUSH, LIST_BYTES)
        return self

    def hello(self, within_s=DEADLINE_S, **fields):
        """Says hello; the answer's status is in `status`, what it tells in `facts`."""
        until_sent = time.monotonic() + within_s
        while True:
            try:
                self.end.do("greet", deadline_s=within_s)
                break
            except Failed:
                assert time.monotonic() < until_sent, "nobody takes the greeting"
        answer = self.end.post("receive", "-", 1024)
        told = self.login | {"nonce": self.nonce, "message_bytes_max": self.message_bytes} | fields
        message = None
        while message is None:
            assert time.monotonic() < until_sent, "no answer to a hello"
            # The server does not know whose it is if it takes greeting and hello at once.
            self.end.do("send", "-", fabric.pack(Header(Kind.HELLO), told, []).hex(), deadline_s=within_s)
            message = self.end.wait(answer, HELLO_AGAIN_S)
        header, body = native.parse_any(message)
        assert header.kind == Kind.HELLO_REPLY
        self.status = header.status
        self.facts, _, _ = fabric.parse(header, body)
        return self.status

    # Messages.

    def post_receive(self, part, count):
        """Posts a buffer for replies, or for pushes."""
        return self.end.post("receive", self.facts["session"] | part, count)

    def send(self, message, part=0):
        """Sends bytes as they are, with the session's tag."""
        self.end.do("send", self.facts["session"] | part, message.hex())

    def header(self, **fields):
        """The header of a message with requests."""
        return Header(Kind.REQUESTS, **{"client": 1, "sequence": 1} | fields)

    def ask(self, *requests, deadline_s=DEADLINE_S, **fields):
        """Sends requests in one message; returns the header and the replies."""
        answer = self.post_receive(0, self.message_bytes)
        header = self.header(**fields)
        self.send(native.requests_datagram(header, list(requests)))
        message = self.end.wait(answer, deadline_s)
        assert message is not None, "no reply"
        header, replies = native.parse_any(message)
        assert header.kind == Kind.REPLIES
        return header, replies

    def one(self, opcode, key=b"", **fields):
        """A request and its reply."""
        if opcode in native.WITH_ID:
            self.ids += 1
            fields.setdefault("id", self.ids)
        _, replies = self.ask(Request(opcode, key, self.hash(key), **fields))
        assert len(replies) == 1
        return replies[0]

    def hash(self, key):
        return native.hash_of(key, self.facts["hash_seed"]) if key else 0

    def get(self, key, **fields):
        return self.one(Opcode.GET, key, **fields)

    def entry(self, key):
        """Gets an item, and returns the entry of its chunk."""
        return self.get(key, wants_entry=True).entry

    def set(self, key, value, **fields):
        return self.one(Opcode.SET, key, value=value, **fields)

    def delete(self, key):
        return self.one(Opcode.DELETE, key)

    def report(self, *accesses):
        """Reports one-sided reads: pairs of a key and a number."""
        records = [{"hash": self.hash(key), "count": count} for key, count in accesses]
        self.send(fabric.pack(Header(Kind.HISTORY), {}, records), HISTORY)

    def pushes(self, deadline_s=DEADLINE_S):
        """Waits for a push; returns all entries so far, by the hashes of keys."""
        message = self.end.wait(self.push_post, deadline_s)
        if message is not None:
            self.push_post = self.post_receive(PUSH, LIST_BYTES)
            header, body = native.parse_any(message)
            assert header.kind == Kind.PUSH
            for record in fabric.parse(header, body)[2]:
                self.pushed[record["hash"]] = (record["offset"], record["version"], record["bytes"])
        return self.pushed

    # One-sided reads.

    def read(self, offset, count):
        """Reads a part of the cache area."""
        facts = self.facts
        area = facts["area_key"], facts["area_base"], facts["area_bytes"]
        return self.end.do("read", *area, offset, count)

    def chunk(self, key, entry):
        """Reads the chunk of an entry and its partition's record; returns the value if a client may accept
        it, else None. Checksums are not looked at."""
        offset, version, count = entry
        partition = self.hash(key) >> (64 - self.facts["partition_bits"])
        record = self.read(4096 + 64 * partition, RECORD_BYTES)
        chunk = self.read(offset, count)
        incarnation, void, _ = struct.unpack("<3Q", record)
        found = struct.unpack_from("<4Q", chunk)
        key_bytes, value_bytes = struct.unpack_from("<II", chunk, 40)
        expected = (version, self.facts["incarnation"], void, self.hash(key))
        if found != expected or incarnation != self.facts["incarnation"]:
            return None
        assert chunk[CHUNK_BYTES : CHUNK_BYTES + key_bytes] == key
        return chunk[CHUNK_BYTES + key_bytes : CHUNK_BYTES + key_bytes + value_bytes]


def await_count(server, name, expected, what):
    """Waits until a number of `stats fabric` is as expected."""
    until(lambda: server.count(name) == expected, what)
