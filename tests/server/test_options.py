"""The command line, the TOML file and the environment: the same settings by three ways, and wrong ones
refused."""

import re
import tomllib

import pytest

from harness.memcached.wire import Connection
from harness.network.claims import free_port
from harness.server import run

LETTERS = "plsamtcIRbvUuPdAhMD"
COMMON_LETTERS = "plsmtcIvUuPdoYMh"

WRONG = [
    ["-l", "fooble"],
    ["-B", "http"],
    ["-c", "0"],
    ["-c", "-1"],
    ["-c", "x"],
    ["-t", "0"],
    ["-t", "-1"],
    ["-t", "x"],
    ["-m", "x"],
    ["-m", "0"],
    ["-m", "-5"],
    ["-I", "1000"],
    ["-I", "2g"],
    ["-I", "x"],
    ["-I", "256m", "-m", "64"],
    ["-p", "70000"],
    ["-p", "x"],
    ["-U", "70000"],
    ["-R", "0"],
    ["-R", "x"],
    ["-b", "x"],
    ["-a", "9"],
    ["-u", "no-such-user-here"],
    ["-o", "no_such_word"],
    ["-s", "/no/such/directory/socket"],
    ["-P", "/no/such/directory/pid"],
    ["--semantics", "shop"],
    ["--semantics", "cache", "-M"],
    ["-M", "--eviction", "fifo"],
    ["--eviction", "best"],
    ["--access", "all"],
    ["--balance", "on"],
    ["-D", "ab"],
    ["--control-socket", "/no/such/directory/socket"],
    ["--no-such-option"],
    ["--config", "/no/such/file.toml"],
    ["stray"],
]


@pytest.mark.parametrize("options", WRONG, ids=" ".join)
def test_a_wrong_option_ends_it_at_once(options):
    address = [] if options[0] in ("-p", "-s") else ["-p", "-1"]
    ended = run(*address, *options)
    assert ended.returncode > 0
    assert ended.stderr.strip(), "it says nothing"
    assert "panicked" not in ended.stderr


def shown(option):
    """The help, and the long names of the options in it but for --help and --version."""
    ended = run(option)
    assert ended.returncode == 0
    names = re.findall(r"^ +(?:-\w, +)?--([a-z-]+)", ended.stdout, re.MULTILINE)
    return ended.stdout, set(names) - {"help", "version"}


@pytest.mark.parametrize(("option", "letters"), [("-h", COMMON_LETTERS), ("--help", LETTERS)])
def test_help(option, letters):
    text, _ = shown(option)
    for letter in letters:
        assert re.search(rf"^\s+-{letter}\b", text, re.MULTILINE), f"-{letter} is not in the help"


def test_the_short_help_shows_what_people_use_and_names_the_long_one():
    """`-h` has 25 options by subject, and `--help` these and all others."""
    (short, common), (long, every) = shown("-h"), shown("--help")
    assert len(common) == 25 and common < every
    assert "--help shows all" in short
    for heading in ("Network:", "Memory and items:", "Process:"):
        assert f"\n{heading}\n" in short and f"\n{heading}\n" in long


def test_the_long_help_says_why_options_do_nothing():
    text, _ = shown("--help")
    table = text.partition("options without effect:\n")[2]
    for letter in "CLfnN":
        assert re.search(rf"^  -{letter}, --[a-z-]+ +\w.*$", table, re.MULTILINE), letter


def test_print_config_ends_it_and_prints_toml():
    ended = run("--print-config", "-t", "3", "-m", "96", "-p", "12345", "-c", "77")
    assert ended.returncode == 0, ended.stderr
    printed = tomllib.loads(ended.stdout)
    text = str(printed)
    assert all(value in text for value in ("3", "96", "12345", "77"))


def test_printed_configuration_is_read_back(tmp_path):
    options = [
        "-t", "3", "-m", "96", "-p", "12345", "-c", "77", "-I", "2m", "-R", "32", "-l", "127.0.0.1", "-M",
        "-D", "/", "--access", "crew"
    ]
    first = run("--print-config", *options)
    assert first.returncode == 0, first.stderr
    file = tmp_path / "micanite.toml"
    file.write_text(first.stdout)
    second = run("--print-config", "--config", file)
    assert second.returncode == 0, second.stderr
    assert tomllib.loads(second.stdout) == tomllib.loads(first.stdout)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path):
    file = tmp_path / "micanite.toml"
    file.write_text("threads = 2\nmax-connections = 55\nlisten-backlog = 70\n")
    environment = {"MICANITE_THREADS": 3, "MICANITE_LISTEN_BACKLOG": 80}
    ended = run("--print-config", "--config", file, "-b", "90", **environment)
    assert ended.returncode == 0, ended.stderr
    printed = tomllib.loads(ended.stdout)
    assert (printed["listen-backlog"], printed["threads"], printed["max-connections"]) == (90, 3, 55)


def printed(*options, **environment):
    """The configuration that results from these options."""
    ended = run("--print-config", *options, **environment)
    assert ended.returncode == 0, ended.stderr
    return tomllib.loads(ended.stdout)


FLAT = """
native = 9000
native-payload = 2000
native-gro = "off"
native-busy-poll = 50
native-queue = "1m"
"""
SECTION = """
[native]
port = 9000
payload = 2000
gro = "off"
busy-poll = 50
queue = "1m"
"""
TUNING = {"payload": 2000, "gro": "off", "busy-poll": 50, "queue": "1m"}


def variable(name):
    """The environment variable of an option."""
    return "MICANITE_" + name.upper().replace("-", "_")


def test_tuning_has_one_meaning_by_flag_set_environment_flat_key_and_section(tmp_path):
    """Flags, variables and flat keys of earlier versions still work beside `--set` and sections."""
    flags = [word for name, value in TUNING.items() for word in (f"--native-{name}", value)]
    sets = [f"--set=native.{name}={value}" for name, value in TUNING.items()]
    variables = {variable(f"native-{name}"): value for name, value in TUNING.items()}
    ways = [
        printed("--native", 9000, *flags),
        printed("--native", 9000, *sets),
        printed("--set", "native.port=9000", *(word.replace("native.", "native-") for word in sets)),
        printed(MICANITE_NATIVE=9000, **variables),
    ]
    for text in (FLAT, SECTION):
        file = tmp_path / "micanite.toml"
        file.write_text(text)
        ways.append(printed("--config", file))
    assert [way["native"] for way in ways] == [tomllib.loads(SECTION)["native"]] * len(ways)


def test_set_sets_any_option_and_a_flag_wins_over_it():
    result = printed("--set", "threads=3", "--set", "memory-limit=1g", "--set", "daemon=true", "-t", 2)
    assert (result["threads"], result["memory-limit"], result["daemon"]) == (2, "1g", True)


def test_print_config_keeps_sections(tmp_path):
    options = ["-U", 7000, "--native", 9000, "--kernel-get", "lo"]
    options += ["--set", "native.busy-poll=50", "--set", "kernel-get.mode=generic"]
    first = printed(*options)
    assert first["kernel-get"] == {"interface": ["lo"], "mode": "generic", "spread": 0}
    file = tmp_path / "micanite.toml"
    file.write_text(run("--print-config", *options).stdout)
    assert printed("--config", file) == first


BYPASS = {"port": ["xdp:lo"], "ip": ["10.0.0.2/24"], "busy-poll": 50}
NEW, OLD = ("bypass", "bypass-ip", "bypass-busy-poll"), ("port", "port-ip", "port-busy-poll")
VALUES = ("xdp:lo", "10.0.0.2/24", "50")
FILES = {
    "section": 'port = 0\n[bypass]\nport = "xdp:lo"\nip = "10.0.0.2/24"\nbusy-poll = 50\n',
    "old keys": 'port = [0, "xdp:lo"]\nport-ip = "10.0.0.2/24"\nport-busy-poll = 50\n',
}


@pytest.mark.parametrize("names", [NEW, OLD], ids=["new", "old"])
def test_bypass_by_its_names_and_by_those_that_it_had(names):
    options = dict(zip(names, VALUES, strict=True))
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    variables = {"MICANITE_PORT": "0"} | {variable(name): value for name, value in options.items()}
    if names is OLD:
        # -p of the command line replaces the whole variable, as it always did.
        variables["MICANITE_PORT"] = "0 xdp:lo"
    for result in (printed("-p", 0, *flags), printed(**variables)):
        assert (result["port"], result["bypass"]) == (0, BYPASS)


def test_the_variable_of_the_port_may_hold_both_ports():
    result = printed(MICANITE_PORT="0 xdp:lo")
    assert (result["port"], result["bypass"]) == (0, {"port": ["xdp:lo"]})


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_bypass_in_a_file(tmp_path, text):
    file = tmp_path / "micanite.toml"
    file.write_text(text)
    result = printed("--config", file)
    assert (result["port"], result["bypass"]) == (0, BYPASS)


@pytest.mark.parametrize(
    ("new", "old", "key", "value"),
    [
        ("--bypass-gateway", "--port-gateway", "gateway", "10.0.0.1"),
        ("--bypass-dpdk-args", "--dpdk-args", "dpdk-args", "--no-huge -m 64"),
    ],
)
def test_names_of_dpdk_ports(new, old, key, value):
    device = ["-p", 0, "--bypass", "dpdk:net_null0", "--bypass-ip", "10.0.0.2/24"]
    for name in (new, old):
        assert printed(*device, name, value)["bypass"][key] == value


def test_the_help_keeps_names_of_before_to_itself():
    text, names = shown("--help")
    assert "bypass" in names and not names & {"port-ip", "port-gateway", "port-busy-poll", "dpdk-args"}
    assert re.search("--port <NUMBER>", text)
    assert "\n  bypass.busy-poll=" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("threads = 1\nthread = 2", ["line 2", "'thread'", "'threads'"]),
        ("[native]\npaylaod = 1500", ["'native.paylaod'", "'native.payload'"]),
        ("[nativ]\npayload = 1500", ["'nativ.payload'", "'native.payload'"]),
        ("colour = 3", ["there is no option 'colour'"]),
        ("[threads]\nnumber = 3", ["'threads.number'"]),
        ("native-payload = [{}]", ["native-payload"]),
    ],
)
def test_a_wrong_name_in_a_file_is_named_and_the_nearest_suggested(tmp_path, text, said):
    file = tmp_path / "micanite.toml"
    file.write_text(text)
    ended = run("-p", "-1", "--config", file)
    assert ended.returncode == 64
    assert all(part in ended.stderr for part in said), ended.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("native.busy-pol=5", "did you mean 'native.busy-poll'?"),
        ("thread=5", "did you mean 'threads'?"),
        ("threads", "NAME=VALUE"),
        ("threads=x", "-t/--threads: 'x' is no number"),
    ],
)
def test_a_wrong_set_is_refused_with_a_suggestion(word, said):
    ended = run("-p", "-1", "--set", word)
    assert ended.returncode == 64
    assert said in ended.stderr


def test_the_long_help_shows_tuning_under_its_dotted_names():
    text, names = shown("--help")
    table = text.partition("Tuning,")[2]
    for name in ("native.payload=", "native.busy-poll=", "kernel-get.mode=", "kernel-get.pin="):
        assert f"\n  {name}" in table, name
    assert "native-payload" not in names


@pytest.mark.parametrize(
    "text", ["threads = 0", "threads = 'x'", "threads = ", "no-such-threads = 1", "threads = 1\nthreads = 2"]
)
def test_a_wrong_file_is_refused(tmp_path, text):
    file = tmp_path / "micanite.toml"
    file.write_text(text)
    ended = run("-p", "-1", "--config", file)
    assert ended.returncode > 0
    assert "threads" in ended.stderr
    assert "panicked" not in ended.stderr


def test_a_wrong_environment_is_refused():
    ended = run("-p", "-1", MICANITE_THREADS="x")
    assert ended.returncode > 0
    assert "threads" in ended.stderr.lower()


def test_the_options_are_in_the_settings(start):
    server = start("-t", "3", "-m", "96", "-c", "77", "-I", "2m", "-R", "33", "-b", "555", "-l", "127.0.0.1")
    settings = server.stats("settings")
    assert int(settings["num_threads"]) == 3
    assert int(settings["maxbytes"]) == 96 << 20
    assert int(settings["maxconns"]) == 77
    assert int(settings["item_size_max"]) == 2 << 20
    assert int(settings["reqs_per_event"]) == 33
    assert int(settings["tcp_backlog"]) == 555
    assert settings["inter"] == "127.0.0.1"


def test_names_of_kinds_are_in_the_settings(start):
    cache = start("-t", "2", "--eviction", "clock", "--access", "erew", "--balance", "auto").stats("settings")
    assert (cache["semantics"], cache["eviction"], cache["evictions"]) == ("cache", "clock", "on")
    assert (cache["access"], cache["balance"], cache["namespace_delimiter"]) == ("erew", "auto", ":")
    store = start("--disable-evictions").stats("settings")
    assert (store["semantics"], store["eviction"], store["evictions"]) == ("store", "none", "off")


def test_long_names(start):
    port = free_port()
    server = start(
        "--port", port, "--threads", "2", "--memory-limit", "64", "--max-connections", "50", ready=False
    )
    server.port = port
    server.wait_until_ready()
    settings = server.stats("settings")
    assert int(settings["maxconns"]) == 50 and int(settings["num_threads"]) == 2


def test_listening_on_several_addresses(start, key):
    port = free_port()
    server = start("-p", port, "-l", "127.0.0.1,127.0.0.2", "-t", "2", "-m", "64", ready=False)
    server.port = port
    server.wait_until_ready()
    with server.connect() as client, Connection(("127.0.0.2", port)) as other:
        client.set(key, b"x")
        assert other.get(key) == b"x"


def test_verbose_says_more(start):
    quiet, verbose = start("-t", "1", "-m", "64"), start("-t", "1", "-m", "64", "-vv")
    for server in (quiet, verbose):
        with server.connect() as client:
            client.ask(b"bogus\r\n")
    assert len(verbose.stderr()) >= len(quiet.stderr())
