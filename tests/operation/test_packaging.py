"""Parts of packages: manual pages, completions, the Debian package, the systemd units, the seccomp profile.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib

import pytest

from harness import seccomp
from harness.network import links
from harness.poll import until
from harness.server import PROJECT, command, environment, run

PACKAGING = PROJECT / "packaging"
PROFILE = PACKAGING / "seccomp/micanite.json"
PROFILE_OF_PORTS = PACKAGING / "seccomp/micanite-bypass.json"
EXPOSURE_MAX = 2.0
# The target of a link.
LINK = r"\]\(([^)\s]+)\)"


def need(*tools):
    """Skips a test that needs what is not there."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"there is no {' and no '.join(missing)}")


def output(*words, **options):
    """Returns the output of a command, which must succeed."""
    ended = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, **options)
    assert ended.returncode == 0, f"{words}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    """The manual pages and completions, made as packages make them."""
    directory = tmp_path_factory.mktemp("generated")
    cargo = "cargo run --quiet --package micanite --example generate --".split()
    generate = os.environ.get("MICANITE_GENERATE_BIN")
    subprocess.run([*([generate] if generate else cargo), directory], cwd=PROJECT, check=True)
    return directory


def options_of(*words):
    """The long options that `--help` tells of."""
    said = output(command()[0], *words, "--help", env=environment())
    return set(re.findall(r"^\s+(?:-\w, |    )?(--[a-z][a-z-]+)", said, re.MULTILINE))


@pytest.mark.parametrize(
    "page", ["micanite", "micanite-serve", "micanite-ctl", "micanite-ctl-restart", "micanite-load"]
)
def test_a_manual_page_renders_and_is_complete(generated, page):
    need("man")
    ended = subprocess.run(
        ["man", "--warnings", "--local-file", "-Tutf8", generated / f"{page}.1"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(MANWIDTH=100, LC_ALL="C.UTF-8"),
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    text = re.sub(".\b", "", ended.stdout)
    assert "NAME" in text and "SEE ALSO" in text
    for option in options_of(*page.split("-")[1:]):
        assert option in text, option
    if page == "micanite-serve":
        # `--help` has these in tables.
        for option in ("--native-payload", "--bypass-ip", "-f, --slab-growth-factor"):
            assert re.search(rf"^ +{option} <", text, re.MULTILINE), option


@pytest.mark.parametrize(
    ("words", "completions"),
    [
        (["--memory-l"], ["--memory-limit"]),
        (["--drain"], ["--drain-seconds"]),
        (
            ["--native-"],
            ["--native-at", "--native-payload", "--native-gro", "--native-busy-poll", "--native-queue"]
        ),
    ],
)
def test_bash_completes_options(generated, words, completions):
    script = 'source "$1"; shift; COMP_WORDS=(micanite "$@"); COMP_CWORD=$#;'
    script += '_micanite micanite "${@: -1}" "${@: -2:1}"; '
    script += "printf '%s\\n' \"${COMPREPLY[@]}\""
    said = output("bash", "-c", script, "bash", generated / "micanite.bash", "serve", *words)
    assert sorted(said.split()) == sorted(completions)


@pytest.mark.parametrize(("shell", "name"), [("zsh", "_micanite"), ("fish", "micanite.fish")])
def test_other_shells_understand_their_completions(generated, shell, name):
    need(shell)
    output(shell, "-n", generated / name)


def test_fish_completes_a_command(generated):
    need("fish")
    said = output(
        "fish", "--no-config", "-c", f"source {generated / 'micanite.fish'}; complete -C 'micanite ctl rest'"
    )
    assert said.startswith("restart")


@pytest.fixture(scope="module")
def unpacked(generated, tmp_path_factory):
    """The Debian package, and what is in it."""
    need("dpkg-deb", "dpkg-shlibdeps", "fakeroot", "strip")
    directory = tmp_path_factory.mktemp("package")
    # A program for debugging compressed as well as a release takes a quarter of a minute.
    quick = os.environ | {"DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"}
    build = PROJECT / "packaging/debian/build"
    package = output(build, command()[0], generated, directory, env=quick).strip()
    output("dpkg-deb", "--raw-extract", package, directory / "root")
    return package, directory / "root"


@pytest.mark.full
def test_the_debian_package(unpacked):
    package, root = unpacked
    fields = dict(re.findall(r"^([\w-]+): (.*)$", output("dpkg-deb", "--field", package), re.MULTILINE))
    version = output(command()[0], "--version").split()[1]
    assert (fields["Package"], fields["Version"]) == ("micanite", f"{version}-1")
    assert "libc6 (>= " in fields["Depends"] and "adduser" in fields["Depends"]
    assert output(root / "usr/bin/micanite", "--version").split() == ["micanite", version]
    assert (root / "DEBIAN/conffiles").read_text().split() == ["/etc/default/micanite"]
    output("md5sum", "--check", "--strict", "DEBIAN/md5sums", cwd=root)
    for script in ("postinst", "prerm", "postrm"):
        output("sh", "-n", root / "DEBIAN" / script)
    listed = output("dpkg-deb", "--contents", package).splitlines()
    assert {line.split()[1] for line in listed} == {"root/root"}
    assert not [line for line in listed if line[5] == "w" or line[8] == "w"], "files that others may write"


@pytest.fixture
def packed_documents(request, generated, tmp_path):
    """The folder of the documents of a package."""
    if request.param == "Debian":
        return request.getfixturevalue("unpacked")[1] / "usr/share/doc/micanite"
    need("strip")
    tarball = output(PACKAGING / "build-tarball", command()[0], generated, tmp_path).strip()
    output("tar", "--extract", "--file", tarball, "--directory", tmp_path, "--strip-components=1")
    return tmp_path / "share/doc/micanite"


@pytest.mark.parametrize(
    "packed_documents", [pytest.param("Debian", marks=pytest.mark.full), "tarball"], indirect=True
)
def test_no_link_of_a_packed_document_is_dead(packed_documents):
    """README and pages once had links to files that were not packed."""
    pages = list(packed_documents.rglob("*.md"))
    links = [(page, target) for page in pages for target in re.findall(LINK, without_code(page.read_text()))]
    relative = [(page, target) for page, target in links if not re.match("[a-z]+:|#", target)]
    assert len(relative) > 100
    assert [link for link in relative if not (link[0].parent / link[1].partition("#")[0]).exists()] == []


def without_code(text):
    """A page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)


def test_a_link_to_a_file_that_is_not_packed_becomes_its_text(tmp_path):
    page = tmp_path / "docs/a.md"
    page.parent.mkdir()
    page.write_text("[b](b.md#x) [`c`](../c.md) ![d](d.png) [e](#e) [f](https://f.test/) `[g](g.md)`\n")
    (page.parent / "b.md").touch()
    output(PACKAGING / "pack-documents", tmp_path / "packed", "docs", cwd=tmp_path)
    packed = (tmp_path / "packed/docs/a.md").read_text()
    assert packed == "[b](b.md#x) `c` d [e](#e) [f](https://f.test/) `[g](g.md)`\n"


@pytest.mark.full
def test_lintian_has_nothing_to_say(unpacked):
    need("lintian")
    assert output("lintian", "--fail-on", "error,warning", unpacked[0]).strip() == ""


def test_the_units_are_right_and_closed(unpacked):
    need("systemd-analyze")
    units = unpacked[1] / "lib/systemd/system"
    service = (units / "micanite.service").read_text()
    program = unpacked[1] / "usr/bin/micanite"
    (units / "checked.service").write_text(service.replace("/usr/bin/micanite", str(program)))
    assert output("systemd-analyze", "verify", "--man=no", units / "checked.service") == ""
    said = output("systemd-analyze", "security", "--offline=yes", "--no-pager", units / "checked.service")
    exposure = float(re.search(r"exposure level for checked.service: ([\d.]+)", said)[1])
    assert exposure <= EXPOSURE_MAX, said


def unit_words(name):
    """The values of a setting of the service."""
    lines = (PACKAGING / "systemd/micanite.service").read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.startswith(name + "=")]


def test_the_service_starts_with_its_defaults(start, tmp_path):
    """With the environment and options of the unit, but for the paths, which belong to this test."""
    defaults = (PACKAGING / "debian/micanite.default").read_text().splitlines()
    lines = unit_words("Environment") + [line for line in defaults if line and not line.startswith("#")]
    settings = dict(line.split("=", 1) for line in lines)
    assert unit_words("ExecStart") == ["/usr/bin/micanite serve $OPTIONS"]
    commented = [line[1:] for line in defaults if re.match("#[A-Z_]+=", line)]
    known = run("--print-config", **settings | dict(shlex.split(line)[0].split("=", 1) for line in commented))
    assert known.returncode == 0, known.stderr
    for line in (
        'memory-limit = "64m"', 'listen = ["127.0.0.1"]', 'image = "/dev/shm/micanite"', "port = 11211"
    ):
        assert line in known.stdout
    settings |= {"MICANITE_IMAGE": tmp_path / "image", "MICANITE_CONTROL_SOCKET": tmp_path / "control"}
    server = start(**{name: value for name, value in settings.items() if name != "MICANITE_PORT"})
    assert server.stats()["limit_maxbytes"] == str(64 << 20)
    os.kill(server.pid, getattr(signal, unit_words("KillSignal")[0]))
    assert server.wait_for_end() == 0


def test_the_container_is_built_with_the_pinned_rust():
    """The build in the container does not read rust-toolchain.toml. An image of another version once
    downloaded the pinned one into itself."""
    (version,) = re.findall(r"^ARG RUST_VERSION=(.*)$", (PACKAGING / "Dockerfile").read_text(), re.MULTILINE)
    pinned = tomllib.loads((PROJECT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert version == pinned
    needed = re.findall(r"^!(.*)$", (PROJECT / ".dockerignore").read_text(), re.MULTILINE)
    assert "rust-toolchain.toml" not in needed


def under_profile(monkeypatch, refused="", profile=PROFILE):
    """From here on, servers run under the seccomp profile."""
    if seccomp.library() is None:
        pytest.skip("there is no libseccomp")
    words = [sys.executable, PROJECT / "tests/harness/seccomp.py", profile, refused or "none", *command()]
    monkeypatch.setenv("SERVER_COMMAND", shlex.join(map(str, words)))


@pytest.mark.parametrize(
    "refused", ["", "io_uring_setup,io_uring_enter,io_uring_register"], ids=["io_uring", "epoll"]
)
def test_it_serves_and_restarts_under_the_seccomp_profile(
    start, monkeypatch, tmp_path, workers, key, refused
):
    under_profile(monkeypatch, refused)
    options = [
        "--image", tmp_path / "image", "--native", "-1", "--control-socket", tmp_path / "ctl", "--io", "auto"
    ]
    server = start("-t", workers, "-m", "64", *options)
    with open(f"/proc/{server.pid}/status") as status:
        assert "Seccomp:\t2\n" in status.readlines()
    with server.connect() as client:
        client.set(key, b"x" * 500_000)
        assert client.get(key) == b"x" * 500_000
    assert int(server.stats()["curr_items"]) == 1
    if refused:
        assert server.stats("settings")["io_backend"] == "epoll"
    os.kill(server.pid, signal.SIGUSR2)
    until(lambda: "restarted in" in server.stderr(), "the restart")
    with server.connect() as client:
        assert client.get(key) == b"x" * 500_000
    os.kill(server.pid, signal.SIGTERM)
    assert server.wait_for_end() == 0
    told = [line for line in server.stderr().lower().splitlines() if "not permitted" in line]
    assert all(refused and "io_uring" in line for line in told), told


def test_the_seccomp_profile_refuses_unneeded_system_calls(monkeypatch):
    """Among it what AF_XDP and BPF would need."""
    under_profile(monkeypatch)
    launcher = shlex.split(os.environ["SERVER_COMMAND"])[:4]
    attempts = """
import ctypes, errno, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(*words):
    assert libc.syscall(*words) == -1 and ctypes.get_errno() == errno.EPERM, words
BPF, UNSHARE, PTRACE, MOUNT = {
    "x86_64": (321, 272, 101, 165),
    "aarch64": (280, 97, 117, 40),
}[platform.machine()]
for number in (BPF, UNSHARE, PTRACE, MOUNT):
    refused(number, 0, 0, 0, 0, 0)
for family in (socket.AF_PACKET, 44, 40):
    try:
        socket.socket(family, socket.SOCK_RAW)
    except PermissionError:
        continue
    raise AssertionError(family)
socket.socket(socket.AF_INET).close()
"""
    output(*launcher, sys.executable, "-c", attempts)


def test_the_profile_of_ports_adds_two_things():
    kept, added = (json.loads(path.read_text()) for path in (PROFILE, PROFILE_OF_PORTS))
    *same, sockets, bpf = added.pop("syscalls")
    assert (same, added) == (kept.pop("syscalls"), kept)
    assert (sockets["names"], sockets["args"][0]["value"], bpf["names"]) == (["socket"], 44, ["bpf"])


@pytest.mark.parametrize(
    ("profile", "serves"), [(PROFILE_OF_PORTS, True), (PROFILE, False)], ids=["with", "without"]
)
def test_an_af_xdp_port_needs_the_profile_of_ports(start, monkeypatch, profile, serves):
    if reason := links.permitted():
        pytest.skip(reason)
    under_profile(monkeypatch, profile=profile)
    with links.Link() as link, link.server.inside():
        server = start("--bypass", f"xdp:{links.NEAR}", "-t", "1", ready=serves)
        if not serves:
            assert server.wait_for_end() != 0
        assert ("native XDP" in server.stderr()) == serves, server.stderr()
