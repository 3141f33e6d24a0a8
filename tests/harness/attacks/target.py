"""The server under attack, and connections that send the same bytes again and again."""

import selectors
import socket

MIB = 1 << 20
SMALL_BUFFER_BYTES = 4096
DRIP_S = 0.02
ATTACKS = {}


def attack(function):
    """Enters a generator: it yields whenever it is worth looking at its effect, the first time when it has
    one."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


class Target:
    """Address and ports of the server under attack."""

    def __init__(self, host, port, udp_port, native_port):
        self.host, self.port, self.udp_port, self.native_port = host, port, udp_port, native_port

    def connect(self, receive_buffer_bytes=None):
        """A connection that does not block."""
        new = socket.socket()
        if receive_buffer_bytes:
            new.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        new.connect((self.host, self.port))
        new.setblocking(False)
        return new

    def store(self, key, value):
        """Stores an item, as anybody may."""
        with socket.create_connection((self.host, self.port)) as client:
            client.sendall(b"set %b 0 0 %d\r\n%b\r\n" % (key, len(value), value))
            assert client.recv(64) == b"STORED\r\n"


class Crowd:
    """Connections that all send the same bytes again and again; those that the server closes are replaced."""

    def __init__(self, target, count, bytes_, reads, **options):
        self.target, self.bytes, self.reads, self.options = target, bytes_, reads, options
        self.selector = selectors.DefaultSelector()
        self.at = {}
        for _ in range(count):
            self.add()

    def add(self):
        """One more."""
        events = selectors.EVENT_WRITE | (selectors.EVENT_READ if self.reads else 0)
        new = self.target.connect(**self.options)
        self.selector.register(new, events)
        self.at[new] = 0

    def turn(self):
        """Whatever can be sent and read now; replaces what was closed."""
        for key, events in self.selector.select(0.05):
            one = key.fileobj
            try:
                if events & selectors.EVENT_READ and not one.recv(1 << 18):
                    raise ConnectionResetError
                if events & selectors.EVENT_WRITE:
                    self.at[one] = (self.at[one] + one.send(memoryview(self.bytes)[self.at[one] :])) % len(
                        self.bytes
                    )
            except BlockingIOError:
                pass
            except OSError:
                self.selector.unregister(one)
                one.close()
                del self.at[one]
                self.add()


def flood(crowd):
    """Turns without end."""
    while True:
        crowd.turn()
        yield
