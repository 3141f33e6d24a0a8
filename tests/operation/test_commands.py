"""Commands beside the server when something is wrong: with the server, the environment, or their output."""

import signal
import socket
import subprocess
import threading

import pytest

from harness.network.claims import free_port
from harness.server import command, environment, run_ctl
from harness.tools.record import done, refused


def run_micanite(*words, stderr=subprocess.PIPE, **extra_environment):
    """Runs a command to its end."""
    return subprocess.run(
        [command()[0], *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
        text=True, timeout=60, env=environment(**extra_environment),
    )  # fmt: skip


def test_ping_says_that_a_stopped_server_does_not_answer(start):
    server = start("-t", "1", "-m", "64")
    assert done(server.ctl("ping")).startswith("alive")
    server.process.send_signal(signal.SIGSTOP)
    try:
        said = refused(server.ctl("ping"))
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert "the server does not answer within 5 s: it is stopped or overloaded\n" in said
    assert "os error" not in said


def test_a_socket_that_is_not_for_control_is_named(start, tmp_path):
    """memcached's protocol answers, and does not close."""
    data = tmp_path / "data.sock"
    start("-t", "1", "-m", "64", "-s", data)
    assert done(run_ctl("--socket", f"{data}.ctl", "ping")).startswith("alive")
    for words in (["ping"], ["stats"], ["restart"]):
        said = refused(run_ctl("--socket", data, *words))
        assert f"{data} is no control socket" in said and "FILE.ctl" in said


def test_a_silent_socket_is_given_up_with_a_hint(tmp_path):
    path = tmp_path / "silent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        accepted = []
        waiting = threading.Thread(target=lambda: accepted.append(listener.accept()))
        waiting.start()
        said = refused(run_ctl("--socket", path, "ping"))
        waiting.join()
        accepted[0][0].close()
    assert "does not answer within 5 s" in said and f"{path} is no control socket" in said


FAILING = [
    (["ctl", "doctor", "no-such-0"], 64),
    (["ctl", "nic", "no-such-0"], 1),
    (["ctl", "-p", "{port}", "ping"], 1),
    (["top", "-p", "{port}", "--once"], 1),
    (["top", "memcached://127.0.0.1:1", "--once"], 64),
    (["load", "memcached://127.0.0.1:{port}", "--duration", "1s"], 1),
    (["trace", "stats", "/no/such/trace"], 1),
    (["plan", "--machine", "no-such"], 64),
    (["-m", "64"], 64),
]


@pytest.mark.parametrize(("words", "status"), FAILING, ids=lambda value: str(value)[:40])
def test_a_standard_error_that_is_full_changes_no_exit_status(words, status):
    words = [word.format(port=free_port()) for word in words]
    said = run_micanite(*words)
    assert said.returncode == status and said.stderr, said
    with open("/dev/full", "w") as full:
        assert run_micanite(*words, stderr=full).returncode == status


@pytest.mark.parametrize(("words", "status"), FAILING[:-1], ids=lambda value: str(value)[:40])
def test_every_command_names_variables_that_no_command_knows(words, status):
    words = [word.format(port=free_port()) for word in words]
    known = {"MICANITE_PASSWORD": "x", "MICANITE_MEMORY_LIMIT": "64", "MICANITE_CONFIG": "/x"}
    said = run_micanite(*words, MICANITE_PASSWRD="x", **known)
    assert said.returncode == status
    warnings = [line for line in said.stderr.splitlines() if "names no option" in line]
    assert len(warnings) == 1 and warnings[0].startswith("micanite: the variable MICANITE_PASSWRD"), said
    assert warnings[0].endswith("did you mean MICANITE_PASSWORD?")


def test_a_server_does_not_warn_of_variables_of_other_commands(start):
    server = start("-t", "1", "-m", "64", MICANITE_PASSWORD="x", MICANITE_SLAB_MIN_SIZ="48")
    log = server.stderr()
    assert "MICANITE_PASSWORD" not in log
    warning = next(line for line in log.splitlines() if "MICANITE_SLAB_MIN_SIZ" in line)
    assert warning.endswith("names no option, and has no effect")


@pytest.mark.parametrize("server", ["memcached://127.0.0.1:1", "a:b@host"])
def test_top_of_no_address_is_a_usage_error(server):
    ended = run_micanite("top", server, "--once")
    assert ended.returncode == 64 and "HOST:PORT" in ended.stderr and "a:b" not in ended.stderr
