"""Servers made of a few lines: what they answer is for the test to say."""

import contextlib
import socket
import threading

LISTEN_BACKLOG = 64


class FakeStream:
    """A TCP server on 127.0.0.1; `converse(connection, file)` runs in a thread for each connection."""

    def __init__(self, converse):
        self._converse = converse
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=LISTEN_BACKLOG)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as file, contextlib.suppress(OSError):
            self._converse(connection, file)


class FakeDatagrams:
    """A UDP server on 127.0.0.1; `answer(datagram)` gives the datagrams to be sent back."""

    def __init__(self, answer):
        self._answer = answer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.05)
        self.port = self._socket.getsockname()[1]
        self._ended = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ended = True
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while not self._ended:
            try:
                datagram, client = self._socket.recvfrom(65536)
            except TimeoutError:
                continue
            for reply in self._answer(datagram):
                self._socket.sendto(reply, client)


def memcached_requests(file):
    """The requests of a stream, each as its words and, of a set, its value."""
    for line in file:
        words = line.split()
        yield words, file.read(int(words[4]) + 2)[:-2] if words[0] == b"set" else None


def resp_requests(file):
    """The requests of a stream that speaks Redis's protocol, each as a list of words."""
    for line in file:
        assert line.startswith(b"*"), line
        words = []
        for _ in range(int(line[1:])):
            header = file.readline()
            assert header.startswith(b"$"), header
            words.append(file.read(int(header[1:]) + 2)[:-2])
        yield words
