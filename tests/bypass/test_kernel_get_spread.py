"""`--kernel-get-spread`: above a load of the core that answers another one helps, and all replies stay right.
"""

import contextlib
import os
import threading

import pytest

from harness.network.kernel_get import MODES, AnsweringLink, KernelServer
from harness.poll import until

CLIENTS = 24
CPUS = sorted(os.sched_getaffinity(0))


@contextlib.contextmanager
def on_one_cpu():
    """This process has one CPU: the program runs there, and the load is there."""
    os.sched_setaffinity(0, CPUS[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, CPUS)


@pytest.fixture(params=MODES)
def link(request):
    if len(CPUS) < 2:
        pytest.skip("one CPU only")
    with AnsweringLink() as link:
        link.mode = request.param
        yield link


def ask_all(server, clients, stack):
    """One question of each client; the answers are right."""
    if not clients:
        clients += [stack.enter_context(server.client()) for _ in range(CLIENTS)]
        with server.connect() as stream:
            for number in range(CLIENTS):
                stream.set(b"key%d" % number, b"value-%d" % number)
    for number, client in enumerate(clients):
        value = b"value-%d" % number
        assert client.ask(b"get key%d\r\n" % number) == b"VALUE key%d 0 %d\r\n%b\r\nEND\r\n" % (
            number, len(value), value
        )


class Loads:
    """Stands for /proc/stat: one CPU works while `busy` is set, the others rest. Real ones may all be busy
    with other things."""

    def __init__(self, path):
        self.busy = threading.Event()
        self.busy.set()
        self._end = threading.Event()
        self._ticks = [[0, 0] for _ in range(CPUS[-1] + 1)]
        self.file = open(path, "wb", buffering=0)  # noqa: SIM115 (open as long as its counter runs)
        self._write()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()
        self.file.close()

    def _run(self):
        while not self._end.wait(0.02):
            for number, (working, resting) in enumerate(self._ticks):
                works = number == CPUS[0] and self.busy.is_set()
                self._ticks[number] = [working + 2 * works, resting + 2 * (not works)]
            self._write()

    def _write(self):
        """Always as long: a reader beside it sees whole lines."""
        lines = [
            f"cpu{number} {working:012} 0 0 {resting:012} 0 0 0 0 0 0\n"
            for number, (working, resting) in enumerate(self._ticks)
        ]
        os.pwrite(self.file.fileno(), "".join(lines).encode(), 0)


class ServerWithLoads(KernelServer):
    """Sees these loads in the place of its machine's."""

    def __init__(self, link, path, *options, **settings):
        self.path = path
        super().__init__(link, *options, **settings)

    def words(self):
        return [
            "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /proc/stat && exec "$@"', str(self.path),
            *super().words()
        ]


def test_another_core_helps_above_the_load_and_is_let_go_below_it(link, tmp_path):
    clients = []
    path = tmp_path / "stat"
    with (
        Loads(path) as loads, contextlib.ExitStack() as stack,
        ServerWithLoads(link, path, "--kernel-get-spread", "70", "-v", mode=link.mode) as server
    ):

        def moved():
            with on_one_cpu():
                for _ in range(100):
                    ask_all(server, clients, stack)
            return server.kernel()["spread"] >= 500

        until(moved, "another core to answer some of the clients", deadline_s=120)
        counters = server.kernel()
        assert 0 < counters["spread"] < counters["answered"], "some move, and not all"
        assert f"CPUs that help are [{CPUS[1]}] now" in server.stderr() or len(CPUS) > 2
        loads.busy.clear()
        until(
            lambda: server.stderr().rpartition("CPUs that help are ")[2].startswith("[] now"),
            "it to be let go",
        )
        before = server.kernel()["spread"]
        ask_all(server, clients, stack)
        assert server.kernel()["spread"] == before


def test_without_the_option_no_core_ever_helps(link):
    clients = []
    with contextlib.ExitStack() as stack, KernelServer(link, mode=link.mode) as server, on_one_cpu():
        for _ in range(500):
            ask_all(server, clients, stack)
        assert server.kernel()["spread"] == 0
