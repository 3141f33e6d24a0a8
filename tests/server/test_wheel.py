"""The Python module beside a server: as the workspace builds it, and as a wheel in a virtual environment of
its own."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

from harness.server import PROJECT, environment

# The first build compiles the client; whatever else is compiled may hold it up.
BUILD_DEADLINE_S = 900


@pytest.fixture(scope="module", params=["module", pytest.param("wheel", marks=pytest.mark.full)])
def python(request, tmp_path_factory):
    """The interpreter, and the folder of the module if it is not installed there."""
    place = tmp_path_factory.mktemp("python")
    if request.param == "wheel":
        return wheel(place), None
    target = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
    shutil.copy(target / "debug/libmicanite_python.so", place / "micanite.abi3.so")
    return sys.executable, place


def wheel(place):
    """The interpreter of a virtual environment with nothing but the wheel."""
    maturin = Path(sys.prefix) / "bin" / "maturin"
    words = ["build", "--profile", "dev", "--manifest-path", "crates/python/Cargo.toml", "--out", place]
    built = subprocess.run(
        [maturin, *words], cwd=PROJECT, capture_output=True, text=True, timeout=BUILD_DEADLINE_S
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = place.glob("*.whl")
    assert "-cp310-abi3-" in wheel.name, wheel
    venv.create(place / "venv", with_pip=True)
    interpreter = place / "venv" / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", wheel]
    subprocess.run([interpreter, *words], check=True, timeout=300)
    return interpreter


@pytest.fixture
def script(python, start, tmp_path):
    """Runs a program beside a server that it reads, and returns what it prints, as JSON."""
    server = start("-m", 64, "-t", 2, "--local", tmp_path / "local", "--native", -1)
    native = f"127.0.0.1:{server.stats('native')['native_port']}"
    url = f"local://{tmp_path / 'local'}"

    def run(text):
        head = "import json, micanite, os, signal, sys, threading, time\n"
        text = head + "url, native = sys.argv[1], sys.argv[3]\n" + textwrap.dedent(text)
        interpreter, folder = python
        words = [interpreter, "-c", text, url, str(server.pid), native]
        variables = environment(PYTHONPATH=folder) if folder else environment()
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120, env=variables)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


def test_calls(script):
    found = script("""
        cache = micanite.connect(url)
        cache.set("a", b"one", expire=60)
        cache.set(b"b\\0 c", "zwei", flags=3)
        print(json.dumps([
            cache.get("a").decode(), cache.get(b"b\\0 c").decode(), cache.get("none"),
            {key: value.decode() for key, value in cache.get_many(["a", "none"]).items()},
            cache.add("a", "x"), cache.add("n", "41"),
            cache.incr("n"), cache.decr("n", 2), cache.incr("none"),
            cache.touch("a", 100), cache.delete("a"), cache.delete("a"), cache.get("a"),
            cache.counters(),
        ]))
    """)
    counters = found.pop()
    assert found == ["one", "zwei", None, {"a": "one"}, False, True, 42, 40, None, True, True, False, None]
    assert counters["asked"] == 0 and counters["hits"] == 3 and counters["attached"] == 1, counters


def test_errors_say_what_is_wrong(script):
    found = script("""
        cache = micanite.connect(url)
        said = []
        for call in [
            lambda: cache.get(5),
            lambda: cache.get("k" * 251),
            lambda: cache.set("k", "v" * (2 << 20)),
            lambda: micanite.connect("local:///none/such"),
            lambda: micanite.connect("local://relative"),
        ]:
            try:
                call()
            except (micanite.MicaniteError, TypeError) as error:
                said.append([type(error).__name__, str(error)])
        print(json.dumps(said))
    """)
    assert [name for name, _ in found] == ["TypeError", *["MicaniteError"] * 4], found
    words = ["bytes or str", "1 to 250 bytes", "exceeds", "--local", "three slashes"]
    assert all(word in text for word, (_, text) in zip(words, found, strict=True)), found


def test_children_of_a_fork_connect_anew(script):
    """As the workers of a web server do that forks after it has loaded the application."""
    found = script("""
        def works(cache, number):
            right = 0
            for round in range(100):
                cache.incr("sum")
                right += cache.get(f"key {number}") == f"value {number}".encode()
            return right == 100
        said = []
        for name in [url, native]:
            cache = micanite.connect(name)
            cache.set("sum", "0")
            for number in range(5):
                cache.set(f"key {number}", f"value {number}")
            pids = []
            for number in range(4):
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if works(cache, number) and cache.counters().get("attached", 1) == 1 else 1)
                pids.append(pid)
            own = works(cache, 4)
            codes = [os.waitpid(pid, 0)[1] for pid in pids]
            said.append([own, codes, cache.get("sum").decode(), cache.counters().get("attached", 1)])
        print(json.dumps(said))
    """)
    assert found == [[True, [0] * 4, "500", 1]] * 2


def test_a_fork_while_another_thread_is_inside_a_call_does_not_hang_the_child(script):
    found = script("""
        said = []
        for name in [url, native]:
            cache = micanite.connect(name)
            cache.set("key", "value")
            os.kill(int(sys.argv[2]), signal.SIGSTOP)
            begun = threading.Event()
            def write():
                begun.set()
                try:
                    cache.set("other", "value")
                except micanite.MicaniteError:
                    pass
            thread = threading.Thread(target=write)
            thread.start()
            begun.wait()
            time.sleep(0.1)  # Nothing tells that the thread is inside the call.
            pid = os.fork()
            if pid == 0:
                signal.alarm(60)
                while True:
                    try:
                        os._exit(0 if cache.get("key") == b"value" else 1)
                    except micanite.MicaniteError:
                        time.sleep(0.01)
            os.kill(int(sys.argv[2]), signal.SIGCONT)
            said.append(os.waitpid(pid, 0)[1])
            thread.join()
        print(json.dumps(said))
    """)
    assert found == [0, 0]


def test_a_get_from_memory_waits_for_no_other_call(script):
    found = script("""
        cache = micanite.connect(url)
        cache.set("key", "value")
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        ended = threading.Event()
        def write():
            try:
                cache.set("other", "value")
            except micanite.MicaniteError:
                pass
            ended.set()
        thread = threading.Thread(target=write)
        thread.start()
        # As long as the write is on its way, and after it has timed out.
        during = after = 0
        while not ended.is_set() or after < 100:
            assert cache.get("key") == b"value" and cache.get("none") is None
            assert cache.get_many(["key", "none"]) == {"key": b"value"}
            during, after = during + (not ended.is_set()), after + ended.is_set()
        os.kill(int(sys.argv[2]), signal.SIGCONT)
        print(json.dumps([during > 10, cache.counters()["asked"]]))
    """)
    assert found == [True, 0]


def test_threads_share_a_client(script):
    found = script("""
        cache = micanite.connect(url)
        wrong = []
        def work(number):
            for round in range(300):
                key = f"{number} {round % 7}"
                cache.set(key, f"{key} {round}")
                if cache.get(key) != f"{key} {round}".encode():
                    wrong.append(key)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(json.dumps(wrong))
    """)
    assert found == []


def test_a_stopped_server_is_read_and_a_killed_one_is_not(script):
    found = script("""
        cache = micanite.connect(url)
        cache.set("key", "value")
        os.kill(int(sys.argv[2]), signal.SIGSTOP)
        stopped = [cache.get("key").decode() for _ in range(1000)]
        os.kill(int(sys.argv[2]), signal.SIGKILL)
        end = time.monotonic() + 60
        while True:
            try:
                cache.get("key")
                assert time.monotonic() < end, "a dead server's item"
            except micanite.MicaniteError:
                break
        print(json.dumps(sorted(set(stopped))))
    """)
    assert found == ["value"]
