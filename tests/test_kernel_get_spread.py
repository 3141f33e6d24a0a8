"""`--kernel-get-spread`: above a load of the core that answers another one helps, and all replies stay right."""

import contextlib
import os

import pytest

from harness.hosts import NotPermitted
from harness.kernel_get import MODES, AnsweringLink, KernelServer
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
        pytest.skip("skipped: one CPU only")
    try:
        with AnsweringLink() as link:
            link.mode = request.param
            yield link
    except NotPermitted as error:
        pytest.skip(f"skipped: no network namespaces here: {error}")


def ask_all(server, clients, stack):
    """One question of each client; the answers are right."""
    if not clients:
        clients += [stack.enter_context(server.client()) for _ in range(CLIENTS)]
        with server.connect() as stream:
            for number in range(CLIENTS):
                stream.set(b"key%d" % number, b"value-%d" % number)
    for number, client in enumerate(clients):
        value = b"value-%d" % number
        assert client.ask(b"get key%d\r\n" % number) == b"VALUE key%d 0 %d\r\n%b\r\nEND\r\n" % (number, len(value), value)


# Another core helps while it is idle.
@pytest.mark.alone
def test_another_core_helps_above_the_load_and_is_let_go_below_it(link):
    clients = []
    with contextlib.ExitStack() as stack, KernelServer(link, "--kernel-get-spread", "70", "-v", mode=link.mode) as server:

        def moved():
            with on_one_cpu():
                for _ in range(500):
                    ask_all(server, clients, stack)
            return server.kernel()["spread"] >= 500

        until(moved, "another core, which has to be idle, to answer some of the clients", deadline_s=120)
        counters = server.kernel()
        assert 0 < counters["spread"] < counters["answered"], "some move, and not all"
        assert f"CPUs that help are [{CPUS[1]}] now" in server.stderr() or len(CPUS) > 2
        # Nobody asks any more.
        until(lambda: server.stderr().rpartition("CPUs that help are ")[2].startswith("[] now"), "it to be let go")
        before = server.kernel()["spread"]
        ask_all(server, clients, stack)
        assert server.kernel()["spread"] == before


def test_without_the_option_no_core_ever_helps(link):
    clients = []
    with contextlib.ExitStack() as stack, KernelServer(link, mode=link.mode) as server, on_one_cpu():
        for _ in range(500):
            ask_all(server, clients, stack)
        assert server.kernel()["spread"] == 0
