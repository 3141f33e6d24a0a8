"""`micanite load` against real servers: its figures, its files, its errors."""

import json
import os
import socket
import subprocess
import xml.etree.ElementTree

import pytest

from harness.native.server import NativeServer
from harness.network.claims import free_port
from harness.poll import DEADLINE_S, until
from harness.server import PROJECT, Server
from harness.tools.load import PATIENT, SHORT, is_clean, is_right, load, run_load, start_load

USAGE = 64


@pytest.fixture(scope="module")
def memcached():
    """The peer, with TCP and UDP on one port."""
    path = subprocess.run(
        [PROJECT / "scripts/peer-memcached"], capture_output=True, text=True, check=True
    ).stdout.strip()
    port = free_port()
    user = ["-u", "root"] if os.getuid() == 0 else []
    process = subprocess.Popen(
        [path, "-l", "127.0.0.1", "-p", str(port), "-U", str(port), "-t", "1", "-m", "64", *user]
    )
    try:
        until(
            lambda: run_load(f"memcached://127.0.0.1:{port}", *SHORT).returncode == 0, "memcached to answer"
        )
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def micanite():
    """A server of ours."""
    server = Server("-t", 1, "-m", 64)
    yield server
    server.end()


# An open loop loses requests without a reply in time. This is enough for a machine that stands still.
LATE = ("--timeout", "10s")
SHAPES = [
    pytest.param(("--pipeline", "16", "--batch", "4"), id="pipeline"),
    pytest.param(("--multiget", "10", "--pipeline", "2", "--get", "80"), id="multiget"),
    pytest.param(("--connections", "20", "--threads", "2"), id="connections"),
    pytest.param(("--rate", "3000", "--connections", "4", "--threads", "2", *LATE), id="open"),
    pytest.param(("--rate", "3000", "--batch", "4", "--multiget", "3", *LATE), id="open-batch"),
    pytest.param(("--rate", "3000", "--batch", "4", "--arrivals", "batches", *LATE), id="due-together"),
    pytest.param(("--popularity", "zipf:0.99", "--draw-ahead", "10k"), id="drawn-ahead"),
    pytest.param(("--popularity", "zipf:0.99", "--dataset", "large", "--pipeline", "4"), id="zipf-large"),
    pytest.param(("--popularity", "hot:0.1/0.9", "--dataset", "10/3"), id="hot-short"),
    pytest.param(("--dataset", "250/200000", "--items", "20", "--pipeline", "3"), id="long"),
]
ITEMS = ("--items", "500", "--fill")


@pytest.mark.parametrize("shape", SHAPES)
def test_our_server_over_tcp(micanite, shape):
    report = load(f"memcached://127.0.0.1:{micanite.port}", *PATIENT, *ITEMS, *shape)
    assert is_clean(report), report


@pytest.mark.parametrize("shape", SHAPES)
def test_memcached_over_tcp(memcached, shape):
    report = load(f"memcached://127.0.0.1:{memcached}", *PATIENT, *ITEMS, *shape)
    assert is_clean(report), report
    # It is asked for its version once, and waited for 300 ms.
    assert report["servers"][0] is None or report["servers"][0].startswith("1.6")


@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if shape.id not in ("pipeline", "open-batch", "due-together", "long")],
)
def test_memcached_over_udp(memcached, shape):
    report = load(f"memcached+udp://127.0.0.1:{memcached}", *SHORT, *ITEMS, *shape)
    assert is_right(report), report


def test_values_of_several_datagrams(memcached):
    report = load(
        f"memcached+udp://127.0.0.1:{memcached}", *SHORT, "--dataset", "20/5000", "--items", 20, "--fill",
        "--multiget", 3, "--pipeline", 2,
    )  # fmt: skip
    assert is_right(report), report


NATIVE_WORKERS = [pytest.param(1, marks=pytest.mark.full), 2]


@pytest.fixture(scope="module", params=NATIVE_WORKERS, ids=lambda workers: f"workers{workers}")
def native(request):
    """A server of ours with native ports."""
    with NativeServer("-t", request.param, "-m", 64) as server:
        yield server


@pytest.mark.parametrize(
    "shape",
    [
        *(shape for shape in SHAPES if shape.id != "long"),
        ("--adaptive", "--pipeline", "50"),
        ("--no-offload",),
    ],
)
def test_our_server_over_the_native_protocol(native, shape):
    report = load(f"native://127.0.0.1:{native.native_port}", *SHORT, *ITEMS, *shape)
    assert is_right(report), report


def test_several_native_targets_share_the_items():
    with NativeServer("-t", 1, "-m", 64) as one, NativeServer("-t", 1, "-m", 64) as other:
        report = load(
            *(f"native://127.0.0.1:{server.native_port}" for server in (one, other)), *SHORT, *ITEMS
        )
        assert is_right(report), report
        items = [int(server.stats()["curr_items"]) for server in (one, other)]
    assert sum(items) == 500 and min(items) > 50


def test_batches_stand_beside_equation_1(tmp_path):
    """Two numbers of servers at two rates make a line each, with what was sent and what was chosen."""
    with NativeServer("-t", 1, "-m", 64) as one, NativeServer("-t", 1, "-m", 64) as other:
        targets = [f"native://127.0.0.1:{server.native_port}" for server in (one, other)]
        words = (
            "--adaptive", "--connections", "1", "--sweep", "1k,20k", "--timeout", "10s", "--svg",
            tmp_path / "batches.svg"
        )
        report = load(*targets, *SHORT, *ITEMS, *words, "--fan-out", "1,2")
        batches = [run["batches"] for run in report["runs"]]
        assert [run["servers"] for run in batches] == [1, 1, 2, 2]
        for run in batches:
            datagrams = sum(run["sent_sizes"])
            requests = sum(size * count for size, count in enumerate(run["sent_sizes"]))
            assert datagrams > 0 and abs(requests / datagrams - run["sent"]) < 1e-9, run
            assert run["chosen"] >= 1 and run["equation"] >= 1 and run["round_trip_us"] > 0, run
            assert 1 <= run["destinations"] <= run["servers"], run
        drawn = xml.etree.ElementTree.parse(tmp_path / "batches.svg")
        assert "fan-out 2, equation 1" in "".join(drawn.getroot().itertext())
        fixed = load(targets[0], *SHORT, *ITEMS, "--batch", "4", "--pipeline", "16")["batches"]
        assert fixed["chosen"] is None and fixed["sent"] > 1, fixed


@pytest.mark.parametrize("protocol", ["memcached", "native"])
def test_values_of_another_length_are_wrong(protocol):
    with NativeServer("-t", 1, "-m", 64) as server:
        url = f"{protocol}://127.0.0.1:{server.native_port if protocol == 'native' else server.port}"
        load(url, *SHORT, *ITEMS, "--dataset", "8/8", "--get", 100)
        report = load(url, *SHORT, *ITEMS[:2], "--dataset", "8/9", "--get", 100, status=1)
    assert report["wrong_values"] == report["answered"] > 0 and report["hit_ratio"] == 0


@pytest.mark.parametrize("protocol", ["memcached", "native"])
def test_a_server_that_ends_during_the_run(protocol):
    with NativeServer("-t", 1, "-m", 64) as server:
        port = server.native_port if protocol == "native" else server.port
        words = (
            "--warmup", "0s", "--duration", "8s", "--rate", 1000, "--get", 100, "--timeout", "200ms",
            "--json", "-"
        )
        running = start_load(f"{protocol}://127.0.0.1:{port}", *words)
        assert " 1 s " in running.stderr.readline()
        server.end()
        out, _ = running.communicate(timeout=60)
    report = json.loads(out)
    assert report["answered"] > 0 and 0 < report["loss_ratio"] < 1
    assert report["latency_us"]["p50"] < report["latency_us"]["max"]
    if protocol == "memcached":
        assert running.returncode == 1 and report["failed_connections"] == 1
        assert any("closed" in warning for warning in report["warnings"])


def test_a_unix_socket(start, tmp_path):
    path = tmp_path / "socket"
    start("-s", path, "-t", 1, "-m", 64)
    report = load(f"unix://{path}", *PATIENT, *ITEMS, "--pipeline", 8)
    assert is_clean(report), report


def test_several_targets(start):
    servers = [start("-t", 1, "-m", 64), start("-t", 1, "-m", 64)]
    urls = [f"memcached://127.0.0.1:{server.port}" for server in servers]
    report = load(*urls, *PATIENT, *ITEMS, "--rate", "2000", "--get", 100)
    assert is_clean(report), report
    gets = [int(server.stats()["cmd_get"]) for server in servers]
    assert all(int(server.stats()["cmd_set"]) == 500 for server in servers)
    assert sum(gets) == report["sent"] and abs(gets[0] - gets[1]) <= 1


def test_the_server_s_cpu_time(start):
    server = start("-t", 1, "-m", 64)
    report = load(f"memcached://127.0.0.1:{server.port}", *PATIENT, *ITEMS, "--server-pid", server.pid)
    assert report["server_cpu_s"] > 0
    per_second = report["throughput_ops"] * 0.3 / report["server_cpu_s"]
    assert report["ops_per_server_core_second"] == pytest.approx(per_second, rel=0.001)


def test_newest_items(micanite):
    report = load(
        f"memcached://127.0.0.1:{micanite.port}", *PATIENT, *ITEMS, "--popularity", "latest", "--get", 50
    )
    assert is_clean(report), report


BOUNDED = ("--warmup", "0s", "--timeout", "30s", "--operations", 1000, "--items", 500, "--get", 50)


@pytest.mark.parametrize("by", ["other", "own"])
@pytest.mark.parametrize("shape", [(), ("--threads", 2, "--connections", 4), ("--popularity", "latest")])
def test_a_number_of_operations_after_filling(micanite, by, shape):
    """A run ends after its operations, whichever connections have stored the items."""
    report = load(f"memcached://127.0.0.1:{micanite.port}", *BOUNDED, f"--fill={by}", *shape)
    assert is_clean(report), report
    assert report["read_operations"] + report["write_operations"] == 1000
    assert 0 < report["measured_s"] < 60
    assert report["throughput_ops"] == pytest.approx(1000 / report["measured_s"], rel=0.01)
    assert report["plan"]["own_fill"] is (by == "own")


@pytest.mark.parametrize("scheme", ["native", "memcached"])
def test_filling_by_the_measured_client_and_reading_all(native, scheme):
    port = native.native_port if scheme == "native" else native.port
    before = native.stats()
    report = load(f"{scheme}://127.0.0.1:{port}", *BOUNDED, "--fill=own", "--read-all", "--get", 100)
    assert is_right(report) and report["read_operations"] >= 900, report
    after = native.stats()
    grown = {name: int(after[name]) - int(before[name]) for name in ("cmd_get", "cmd_set")}
    assert grown["cmd_set"] >= 500 and grown["cmd_get"] >= 500 + report["answered"]


def test_latencies_of_gets_and_of_sets(micanite):
    """Both kinds have their own figures, which lie within those of all; a kind that is absent has none."""
    url = f"memcached://127.0.0.1:{micanite.port}"
    report = load(url, *BOUNDED, "--fill")
    whole, get, set_ = (report[name] for name in ("latency_us", "get_latency_us", "set_latency_us"))
    assert set(get) == set(set_) == set(whole)
    assert min(get["min"], set_["min"]) == whole["min"] and max(get["max"], set_["max"]) == whole["max"]
    parts = get["mean"] * report["read_operations"] + set_["mean"] * report["write_operations"]
    assert parts / 1000 == pytest.approx(whole["mean"], rel=0.001)
    assert load(url, *BOUNDED, "--get", 100)["set_latency_us"] is None
    printed = run_load(url, *BOUNDED, "--quiet").stdout
    assert "\nGET us " in printed and "\nSET us " in printed


# Several runs, files


def test_a_sweep_with_its_files(micanite, tmp_path):
    figure, histogram, document = tmp_path / "figure.svg", tmp_path / "histogram", tmp_path / "report.json"
    ended = run_load(
        f"memcached://127.0.0.1:{micanite.port}", *SHORT, *ITEMS, "--sweep", "1k..3k/3", "--arrivals", "even",
        "--svg", figure, "--histogram", histogram, "--json", document,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = json.loads(document.read_text())
    assert [run["offered_ops"] for run in report["runs"]] == pytest.approx([1000, 2000, 3000], abs=10)
    # The whole is the run with the highest throughput: on a busy machine it need not be the last.
    best = max(report["runs"], key=lambda run: run["throughput_ops"])
    assert report["offered_ops"] == best["offered_ops"]
    paths = xml.etree.ElementTree.parse(figure).getroot().findall("{http://www.w3.org/2000/svg}path")
    # Four lines of three points each.
    assert [path.get("d").count("L") for path in paths if "L" in path.get("d")] == [2] * 4
    text = histogram.read_text()
    assert text.split()[:2] == ["Value", "Percentile"]
    assert f"Total count    = {report['answered']:12}]" in text
    assert "p99.9" in ended.stdout and "wrong values          0" in ended.stdout


def test_the_self_test():
    report = json.loads(run_load("--self-test", "--json", "-").stdout)
    assert len(report) == 4 and all(ability["ops_per_core_second"] > 0 for ability in report)


def test_fields_and_progress(micanite):
    url = f"memcached://127.0.0.1:{micanite.port}"
    ended = run_load(url, "--warmup", "1s", "--duration", "1s", *ITEMS, "--rate", 500, "--json", "-")
    report = json.loads(ended.stdout)
    assert report["plan"]["targets"] == [url] and report["plan"]["popularity"] == "uniform"
    assert set(report["latency_us"]) == {"min", "mean", "p50", "p95", "p99", "p999", "max"}
    values = [report["latency_us"][name] for name in ("min", "p50", "p95", "p99", "p999", "max")]
    assert values == sorted(values) and values[0] > 0
    # One more where the machine stood still over the end.
    assert [second["measured"] for second in report["seconds"]][:2] == [False, True]
    assert 0 < report["generator"]["busy_ratio"] <= 1
    assert report["ops_per_server_core_second"] is None
    lines = ended.stderr.splitlines()
    assert lines[0].startswith("stored 500 items")
    assert len(lines) >= 3 and "(not measured)" in lines[1] and "ops/s" in lines[2]


# Runs that are refused


@pytest.mark.parametrize(
    "words, reason",
    [
        ((), "required"),
        (("127.0.0.1:11211",), "is no target"),
        (("http://127.0.0.1:1",), "memcached://HOST:PORT"),
        (("unix://relative",), "three slashes"),
        (("memcached://127.0.0.1:1", "redis://127.0.0.1:1"), "different protocols"),
        (("memcached://127.0.0.1:1", "--dataset", "0/8"), "1 to 250"),
        (("memcached://127.0.0.1:1", "--popularity", "zipf:x"), "no number"),
        (("memcached://127.0.0.1:1", "--rate", "0"), "no load"),
        (("memcached://127.0.0.1:1", "--get", "101"), "within 0 and 100"),
        (("memcached://127.0.0.1:1", "--batch", "4", "--pipeline", "2"), "raise the pipeline"),
        (("memcached+udp://127.0.0.1:1", "--batch", "4"), "--multiget"),
        (("memcached+udp://127.0.0.1:1", "--dataset", "8/70000"), "does not fit a datagram"),
        (("native://127.0.0.1:1", "--dataset", "8/1500"), "use memcached://"),
        (("native://127.0.0.1:1", "--multiget", "1000", "--pipeline", "100"), "at most 16384"),
        (("native://127.0.0.1:1", "--batch", "4", "--adaptive"), "exclude each other"),
        (("native://127.0.0.1:1", "--adaptive", "--sweep", "1k", "--fan-out", "2"), "needs 2 servers"),
        (("native://127.0.0.1:1", "--adaptive", "--fan-out", "1"), "--sweep"),
        (("native://127.0.0.1:1", "--adaptive", "--sweep", "1k", "--fan-out", "0"), "no number of servers"),
        (("native://127.0.0.1:1", "--popularity", "latest", "--draw-ahead", "1k"), "--draw-ahead draws"),
        (("native://127.0.0.1:1", "--draw-ahead", "1g"), "--draw-ahead is at most"),
        (("memcached://127.0.0.1:1", "--rate-profile", "/no/such/file", "--rate", "1"), "No such file"),
        (("memcached://127.0.0.1:1", "--rate-profile", "spike:3@1s+1s"), "give --rate"),
        (("memcached://127.0.0.1:1", "--svg", "x.svg"), "--sweep or --search"),
        (("memcached://127.0.0.1:1", "--search", "fast"), "is no bound"),
        (("memcached://127.0.0.1:1", "--sweep", "2k..1k/3"), "FROM..TO/COUNT"),
        (("memcached://127.0.0.1:1", "--threads", "0"), "--threads"),
        (("memcached://127.0.0.1:1", "--operations", "0"), "more than none"),
        (("memcached://127.0.0.1:1", "--operations", "10", "--rate", "10"), "cannot be used with"),
        (("memcached://127.0.0.1:1", "--fill=both"), "possible values"),
        (("memcached://127.0.0.1:1", "--reads", "two-sided"), "ways of fabric://"),
        (("fabric://127.0.0.1:1?provider=sockets",), "no provider 'sockets'"),
        (("fabric://127.0.0.1:1", "--port", "xdp:lo"), "carries the native protocol only"),
        (("memcached://127.0.0.1:1", "--dataset", "1/8"), "64 items"),
        (("memcached://127.0.0.1:1", "--nonsense"), "--nonsense"),
    ],
)
def test_usage(words, reason):
    ended = run_load(*words)
    assert ended.returncode == USAGE, ended.stderr
    assert reason in " ".join(ended.stderr.split()), ended.stderr
    assert not ended.stdout


@pytest.mark.parametrize("scheme", ["memcached", "memcached+udp", "redis", "native"])
def test_a_closed_port_is_reported(scheme):
    ended = run_load(f"{scheme}://127.0.0.1:{free_port()}", *SHORT)
    assert ended.returncode == 1
    assert "nobody listens there; start a" in ended.stderr


def test_a_directory_may_be_as_late_as_a_reply():
    """A server that stands still for longer than two seconds before its first reply was given up."""
    port = free_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", port))
        silent.settimeout(DEADLINE_S)
        running = start_load(f"native://127.0.0.1:{port}", *PATIENT, "--json", "-")
        # Seven requests come within 0.7 s, then one in a second.
        for _ in range(10):
            silent.recv(2048)
    with NativeServer("-t", 1, "-m", 64, "--native", port):
        said, wrong = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, wrong
    assert json.loads(said)["answered"] > 0


def test_no_such_process_cpu_or_folder(micanite, tmp_path):
    url = f"memcached://127.0.0.1:{micanite.port}"
    for words, reason in [
        (("--server-pid", 999_999_999), "there is no process"),
        (("--cpu", 4000), "cannot be used here"),
        (("--json", tmp_path / "missing" / "file"), "cannot write"),
    ]:
        ended = run_load(url, *SHORT, *words)
        assert ended.returncode == 1 and reason in ended.stderr, ended.stderr
