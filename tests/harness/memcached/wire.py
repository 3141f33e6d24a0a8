"""A raw connection: sends bytes as they are, reads lines and exact counts, and never waits without a
deadline."""

import socket
import threading

from harness.poll import DEADLINE_S


def received(stream, last):
    """What a socket gives until these bytes have come."""
    data = bytearray()
    while last not in data:
        more = stream.recv(1 << 20)
        assert more, f"closed before {last!r}, after {bytes(data[-200:])!r}"
        data += more
    return bytes(data)


class Connection:
    """One client connection over TCP or a Unix socket."""

    def __init__(self, address, timeout_s=DEADLINE_S, receive_buffer_bytes=None):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self._unread = bytearray()
        try:
            self.socket.connect(address)
            if family == socket.AF_INET:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes it; twice is no mistake."""
        self.socket.close()

    def send(self, data):
        """Sends all of `data`."""
        self.socket.sendall(data)

    def line(self):
        """The next line, without its end; None when the server has closed."""
        while (end := self._unread.find(b"\r\n")) < 0:
            if not self._receive():
                assert not self._unread, f"closed in the middle of a line: {bytes(self._unread[:200])!r}"
                return None
        line = bytes(self._unread[:end])
        del self._unread[: end + 2]
        return line

    def lines_before(self, last):
        """The lines before the line `last`, which is read, too."""
        lines = []
        while (line := self.line()) != last:
            assert line is not None, f"closed before {last!r}, after {lines[-5:]!r}"
            lines.append(line)
        return lines

    def exactly(self, count):
        """The next `count` bytes."""
        while len(self._unread) < count:
            assert self._receive(), f"closed after {len(self._unread)} of {count} bytes"
        data = bytes(self._unread[:count])
        del self._unread[:count]
        return data

    def rest(self):
        """Everything until the server closes."""
        while self._receive():
            pass
        data = bytes(self._unread)
        self._unread.clear()
        return data

    def _receive(self):
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            return False
        self._unread += data
        return bool(data)

    def ask(self, request):
        """Sends and returns the one reply line."""
        self.send(request)
        return self.line()

    def expect(self, request, reply):
        """Sends `request`; its reply must be exactly `reply` and nothing after it (a `mn` behind it shows
        that)."""
        self.send(request + b"mn\r\n")
        expected = reply + b"MN\r\n"
        while not (
            self._unread.endswith(b"MN\r\n") and self._unread.count(b"MN\r\n") >= expected.count(b"MN\r\n")
        ):
            assert self._receive(), f"{request[:100]!r}: closed after {bytes(self._unread[-200:])!r}"
        received = bytes(self._unread)
        self._unread.clear()
        assert received == expected, f"{request[:100]!r}: {received[:200]!r}, expected {expected[:200]!r}"

    def values(self, request):
        """Sends a retrieval and returns {key: (flags, value)} or, for gets and gats, {key: (flags, value,
        cas)}."""
        self.send(request)
        found = {}
        while (line := self.line()) != b"END":
            assert line is not None and line.startswith(b"VALUE "), f"{request[:100]!r}: {line!r}"
            _, key, flags, count, *cas = line.split(b" ")
            value = self.exactly(int(count) + 2)
            assert value.endswith(b"\r\n")
            found[key] = (int(flags), value[:-2], *map(int, cas))
        return found

    def get(self, key):
        """The value of one key, or None."""
        found = self.values(b"get " + key + b"\r\n")
        return found[key][1] if key in found else None

    def cas(self, key):
        """The CAS number of a key that must be there."""
        return self.values(b"gets " + key + b"\r\n")[key][2]

    def set(self, key, value, flags=0, exptime=0):
        """Stores; the reply must be STORED."""
        self.send(b"set %b %d %d %d\r\n%b\r\n" % (key, flags, exptime, len(value), value))
        assert (line := self.line()) == b"STORED", f"set {key[:50]!r}: {line!r}"

    def stats(self, *arguments):
        """The statistics as a dictionary of text."""
        self.send(" ".join(("stats", *arguments)).encode() + b"\r\n")
        result = {}
        for line in self.lines_before(b"END"):
            assert line.startswith(b"STAT "), f"stats {arguments}: {line!r}"
            name, _, value = line[5:].decode().partition(" ")
            result[name] = value
        return result


def send_in_background(connection, data):
    """Sends `data` while the caller reads, so that neither side waits for the other. Join the thread it
    returns."""
    thread = threading.Thread(target=connection.send, args=(data,), daemon=True)
    thread.start()
    return thread
