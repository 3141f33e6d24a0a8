"""`micanite plan`: what a load needs, by the model that the paper's figures check."""

import csv
import json
import re
import socket
import subprocess
import tomllib
import xml.dom.minidom

import pytest

from harness.memcached.wire import received
from harness.native.server import NativeServer
from harness.server import command

PAPER = ("--machine", "paper-4", "--items", "192Mi", "--rate", "1g", "--p95", "100us")


def plan(*words, deadline_s=120):
    """Runs micanite plan with these words, to its end."""
    return subprocess.run(
        [command()[0], "plan", *map(str, words)], capture_output=True, text=True, timeout=deadline_s
    )


def answer(*words):
    ended = plan(*words)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.parametrize("partitions, expected", [(16, 1.69), (24, 2.06), (120, 6.5), (240, 12.0)])
def test_the_hottest_partition_has_its_expected_load(partitions, expected):
    told = answer("hottest", "--partitions", partitions, "--items", "192Mi", "--zipf", "0.99", "--json")
    assert told["expected_over_mean"] == pytest.approx(expected, rel=0.02)
    assert told["sum_over_ranks"] == pytest.approx(told["expected_over_mean"], rel=1e-6)
    maximum = told["maximum"]
    assert maximum["hashes"] == 1000
    assert maximum["least"] <= maximum["p50"] <= maximum["greatest"]


def test_batching_delays_by_equation_1():
    words = ("--client-rate", "1m", "--fan-out", 10000, "--json")
    assert answer("batching", *words, "--batch", 2)["delay_us"] == 5000
    assert answer("batching", *words, "--batch", 1)["delay_us"] == 0
    lab = ("--client-rate", "250m", "--partitions", 24, "--json")
    assert answer("batching", *lab, "--batch", 2)["delay_us"] == pytest.approx(0.048)
    assert answer("batching", *lab, "--batch", 32)["delay_us"] == pytest.approx(1.488)


def test_a_plan_has_every_part(tmp_path):
    ended = plan(*PAPER, "--csv", tmp_path / "csv", "--svg", tmp_path / "svg", "--requests", "50k")
    assert ended.returncode == 0, ended.stderr
    parts = ("Throughput by mode", "Latency (us)", "Servers: ", "equation 1", "micanite serve")
    for part in parts:
        assert part in ended.stdout, ended.stdout
    tables = {path.name for path in (tmp_path / "csv").iterdir()}
    drawn = {"throughput", "latency", "cores", "batching", "servers", "memory", "resources"}
    assert tables == {f"{name}.csv" for name in drawn | {"figures"}}
    heading, row = (tmp_path / "csv" / "servers.csv").read_text().splitlines()
    assert heading.count(",") == row.count(",") and int(row.split(",")[0]) >= 1
    figures = list((tmp_path / "svg").iterdir())
    assert {path.name for path in figures} == {f"{name}.svg" for name in drawn}
    for path in figures:
        assert xml.dom.minidom.parse(str(path)).documentElement.tagName == "svg"


def shown(path):
    """The numbers of a figure's texts: 1.5 M is 1500000."""
    texts = xml.dom.minidom.parse(str(path)).getElementsByTagName("text")
    text = "\n".join(node.firstChild.data for node in texts)
    prefixes = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1}
    found = re.findall(r"(\d+(?:\.\d+)?)(?: ([TGMk])\b)?", text)
    return [float(number) * prefixes[prefix] for number, prefix in found]


def test_figures_and_tables_have_the_numbers_of_the_json(tmp_path):
    words = ("--machine", "paper-lab", "--items", "8m", "--value", 1152, "--zipf", 0.8, "--batch", 4)
    outputs = ("--csv", tmp_path, "--svg", tmp_path, "--json", "-")
    told = answer(*words, "--rate", "300m", "--p95", "1ms", "--requests", "20k", *outputs)
    fleet, loss = told["fleet"], told["fleet"]["loss"]
    figures = {figure["name"]: figure["value"] for figure in told["figures"]}
    memory, resources = dict(told["memory"]), {at["name"]: at for at in told["resources"]}
    powers = {at["name"]: sum(watts for _, watts in at["parts"]) for at in told["power"]}
    # The parts are those of the single figures, and within the limits.
    assert sum(memory.values()) == pytest.approx(figures["memory_bytes"])
    for name, figure in (("DRAM bandwidth", "memory_bandwidth"), ("network sent", "sent")):
        assert resources[name]["used"] == pytest.approx(figures[figure])
    assert all(0 < at["used"] <= at["limit"] for at in resources.values())
    assert powers["busiest server"] == pytest.approx(figures["power"])
    busiest, lost = fleet["busiest_rate"], fleet["busiest_rate"] * loss["load_factor"]
    mean = told["load"]["rate"] / fleet["servers"]
    expected = {
        "memory": [*memory.values(), sum(memory.values()), fleet["largest_memory_bytes"]],
        "resources": [at[key] for at in resources.values() for key in ("used", "limit")],
        "power": powers.values(),
        "servers": [fleet["servers"], fleet["spread"], mean, busiest, lost, 100 * loss["hit_ratio"]],
    }
    for name, values in expected.items():
        numbers = shown(tmp_path / f"{name}.svg")
        for value in values:
            assert pytest.approx(value, rel=0.006) in numbers, (name, value, numbers)
    for name, column, values in (
        ("memory", "bytes", memory.values()),
        ("resources", "used", [at["used"] for at in resources.values()]),
        ("power", "watts", [watts for at in told["power"] for _, watts in at["parts"]]),
    ):
        rows = csv.DictReader((tmp_path / f"{name}.csv").open())
        assert [float(row[column]) for row in rows] == pytest.approx(list(values)), name


def test_json_names_the_bottleneck_and_the_origins():
    told = answer(*PAPER, "--zipf", "0.99", "--requests", "20k", "--json", "-")
    modes = {mode["mode"]: mode for mode in told["modes"]}
    assert modes["EREW"]["bottleneck"] == "hottest partition"
    assert modes["EREW"]["throughput"] == pytest.approx(0.14e9, rel=0.15)
    assert modes["CREW"]["throughput"] > modes["EREW"]["throughput"]
    assert {figure["origin"] for figure in told["figures"]} <= {"measured", "computed", "assumed", "given"}
    assert all(figure["source"] for figure in told["figures"] if figure["origin"] != "assumed")
    assert len(told["recommendation"]) == 3 and told["commands"][0].startswith("micanite serve")


def test_figures_say_who_gave_them():
    told = answer("--machine", "paper-4", "--rate", "1m", "--items", "1m", "--requests", "5k", "--json", "-")
    origins = {figure["name"]: figure["origin"] for figure in told["figures"]}
    assert origins["items"] == "given" and origins["value"] == origins["zipf"] == "assumed"
    assert {"threads", "turbo_high_ghz", "reorder_buffer"} <= set(origins)
    parts = {"fleet", "batching", "misses", "memory", "resources", "power"}
    parts |= {"modes.throughput", "modes.latency", "modes.core_loads"}
    assert set(told["origins"]) == parts


def test_every_port_has_costs_without_a_calibration(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = ("--rate", 1000, "--p95", "1s", "--requests", "5k", "--json", "-")
    native, stream, engine = (answer("--port", port, *words) for port in ("native", "stream", "engine"))
    assert "--native" in native["commands"][0] and "native://" in native["commands"][1]
    assert "-p 11211" in stream["commands"][0] and "memcached://" in stream["commands"][1]
    # Nothing goes over a network to the engine itself.
    assert engine["commands"] == [] and engine["modes"][0]["limits"]["network"] is None
    assert "received" not in {figure["name"] for figure in engine["figures"]}


@pytest.mark.parametrize("port", ["native", "stream"])
def test_the_command_lines_run(port):
    words = ("--rate", 1000, "--p95", "1s", "--items", 5000, "--value", 100, "--zipf", 0.99, "--batch", 4)
    told = answer("--machine", "this", "--port", port, *words, "--requests", "5k", "--json", "-")
    serve, load = (line.split()[2:] for line in told["commands"])
    # Ports that are free instead of those of the lines.
    listens = serve.index("--native" if port == "native" else "-p")
    assert listens == len(serve) - 2
    with NativeServer(*serve[:listens]) as server:
        address = f"127.0.0.1:{server.native_port if port == 'native' else server.port}"
        url = load[0].replace("SERVER:11300", address).replace("SERVER:11211", address)
        run = ("--duration", "300ms", "--warmup", "0s", "--quiet", "--json", "-")
        words = [command()[0], "load", url, *load[1:], *run]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout)["throughput_ops"] > 0


def test_the_same_seed_gives_the_same_plan():
    words = (*PAPER, "--requests", "20k", "--json", "-")
    assert plan(*words).stdout == plan(*words).stdout
    assert plan(*words, "--seed", 2).stdout != plan(*words).stdout


def test_large_items_bind_the_network():
    words = ("--machine", "paper-lab", "--items", "8m", "--key", 250, "--value", 1152, "--rate", "1m")
    told = answer(*words, "--requests", "20k", "--json", "-")
    assert told["modes"][0]["bottleneck"] == "network"


@pytest.mark.parametrize(
    "words, said",
    [
        (("--machine", "paper-lab", "--cores", 0, "--rate", "1m"), "no core"),
        (("--machine", "paper-lab", "--items", 0, "--rate", "1m"), "--items is 0"),
        (("--machine", "paper-lab", "--key", 251, "--rate", "1m"), "--key is 251"),
        (("--machine", "paper-lab", "--value", "1e300", "--rate", "1m"), "--value is 1e300"),
        (("--machine", "paper-lab", "--batch", 0, "--rate", "1m"), "--batch is 0"),
        (("--machine", "paper-lab", "--smt", 3, "--rate", "1m"), "SMT"),
        (("--machine", "paper-lab", "--burst", 0, "--rate", "1m"), "--burst is 0"),
        (("--machine", "paper-lab", "--burst", 4294967295, "--rate", "1m"), "--burst is 4294967295"),
        (("--machine", "paper-lab", "--fan-out", 0, "--rate", "1m"), "--fan-out is 0"),
        (("paper", "--requests", 0), "--requests is 0"),
        (("--machine", "paper-lab"), "--rate"),
        (("--machine", "nothing", "--rate", "1m"), "is no machine"),
        (("--machine", "paper-lab", "--rate", "1t", "--p95", "1us"), "latency binds"),
        (("--machine", "paper-lab", "--rate", "9t"), "throughput binds"),
        (("--machine", "paper-lab", "--rate", "1m", "--items", "1t", "--value", "1m"), "memory binds"),
        (("--machine", "paper-lab", "--rate", "9g", "--zipf", 2), "hottest partition binds"),
        (("hottest", "--partitions", 0, "--items", 1), "--partitions is 0"),
        (("batching", "--client-rate", 0, "--batch", 2), "--client-rate is 0"),
    ],
    ids=lambda value: None if isinstance(value, tuple) else value,
)
def test_what_cannot_be_gets_a_sentence(words, said):
    ended = plan(*words, "--requests", "10k") if words[0].startswith("-") else plan(*words)
    assert ended.returncode in (1, 64)
    assert said in ended.stderr and "panic" not in ended.stderr, ended.stderr
    assert "NaN" not in ended.stdout + ended.stderr


@pytest.mark.parametrize("items, zipf", [(1, 0.99), (1, 0), (3, 0), (10, 3), (100, 3)])
@pytest.mark.parametrize("machine", ["paper-lab", "paper-4"])
def test_fewer_items_than_cores_end(machine, items, zipf):
    """Skewed requests for fewer items than cores never ended: cores without any request had a rate of NaN."""
    words = ("--machine", machine, "--items", items, "--zipf", zipf, "--rate", 1000, "--requests", "2k")
    told = answer(*words, "--json", "-")
    for mode in told["modes"]:
        assert mode["throughput"] > 0 and mode["latency"]
        assert None not in [mode["limits"][part] for part in mode["limits"]]


def test_a_machine_is_a_file(tmp_path):
    printed = plan("--machine", "paper-2", "--print-machine")
    assert printed.returncode == 0, printed.stderr
    assert tomllib.loads(printed.stdout)["sockets"] == 2
    path = tmp_path / "mine.toml"
    path.write_text(printed.stdout.replace("sockets = 2", "sockets = 3"))
    words = ("--rate", "100m", "--items", "192Mi", "--requests", "20k", "--json", "-")
    three, two = answer("--machine", path, *words), answer("--machine", "paper-2", *words)
    assert three["modes"][0]["throughput"] == pytest.approx(1.5 * two["modes"][0]["throughput"], rel=0.02)
    path.write_text("sockets = 3")
    assert "is no machine" in plan("--machine", path, "--rate", "1m").stderr


def test_a_trace_gives_the_load(tmp_path):
    path = tmp_path / "trace.csv"
    lines = [f"{at // 100},key-{at * at % 997},8,100,1,get,0" for at in range(20000)]
    path.write_text("".join(f"{line}\n" for line in lines))
    told = answer("--from", path, "--machine", "paper-lab", "--requests", "20k", "--json", "-")
    assert told["load"]["get"] == 1 and told["load"]["rate"] == pytest.approx(100, rel=0.02)
    assert told["load"]["items"] == len({at * at % 997 for at in range(20000)})
    misses = [misses for _, misses in told["misses"]]
    assert misses == sorted(misses, reverse=True) and len(misses) > 3
    origins = {figure["name"]: figure["origin"] for figure in told["figures"]}
    assert origins["items"] == "measured" and origins["memory_bytes"] == "computed"


def test_a_server_gives_the_load(start):
    server = start("-m", 64)
    with socket.create_connection(server.address, timeout=60) as stream:
        stream.sendall(b"".join(b"set key-%d 0 0 3 noreply\r\nabc\r\n" % item for item in range(50)))
        stream.sendall(b"get key-1\r\n" * 150 + b"version\r\n")
        received(stream, b"VERSION")
        address = "{}:{}".format(*server.address)
        words = ("--machine", "paper-lab", "--rate", "1m", "--requests", "20k", "--json", "-")
        told = answer("--from-server", address, *words)
    assert told["load"]["items"] == 50
    assert told["load"]["get"] == pytest.approx(0.75)
    assert any("--zipf" in remark for remark in told["remarks"])


def test_a_silent_server_gets_a_sentence():
    ended = plan("--from-server", "127.0.0.1:1", "--rate", "1m")
    assert ended.returncode == 1 and "does not tell its statistics" in ended.stderr


def test_published_figures_stand_beside_the_models():
    checks = answer("paper", "--requests", "200k", "--json")
    kinds = [check["kind"] for check in checks]
    assert kinds.count("fitted") >= 11 and kinds.count("predicted") >= 11
    named = {check["name"]: check for check in checks}
    check = named["24 cores, uniform, EREW"]
    assert check["model"] == pytest.approx(check["paper"], rel=0.02)
    text = plan("paper", "--requests", "200k").stdout
    assert "error" in text and "table VII" in text


@pytest.mark.alone
@pytest.mark.full
def test_a_calibration_is_kept_with_its_age(tmp_path):
    path = tmp_path / "machine.toml"
    # Eighty runs of a server: a minute, where nothing else runs.
    ended = plan("--calibrate", "--calibration", path, "--quiet", deadline_s=600)
    assert ended.returncode == 0, ended.stderr
    machine = tomllib.loads(path.read_text())
    assert machine["cost"]["request_cycles"] > 0 and {"stream", "engine"} == set(machine["other_ports"])
    stages = machine["stages_ns"]
    assert {"memory latency", "parse, native", "parse, text", "index, cached"} <= set(stages)
    assert all(ns >= 0 for ns in stages.values())
    for port in ("native", "stream", "engine"):
        words = ("--rate", 1000, "--p95", "10s", "--requests", "10k", "--json", "-")
        told = answer("--calibration", path, "--port", port, *words)
        assert any("old" in remark for remark in told["remarks"])
        assert told["modes"][0]["throughput"] > 0
