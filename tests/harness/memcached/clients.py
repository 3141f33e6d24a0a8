"""The programs in tests/clients: built below target/clients, run against a server, their verdicts read."""

import contextlib
import fcntl
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.server import PROJECT

SOURCES = PROJECT / "tests/clients"
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target")).resolve() / "clients"
BUILD_S = 300
RUN_S = 120


def tool(*words, where):
    """Runs a build tool; shows what it said when it fails."""
    ended = subprocess.run(
        words, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BUILD_S
    )
    assert ended.returncode == 0, f"{' '.join(map(str, words))}:\n{ended.stdout}{ended.stderr}"


def is_current(folder, *sources):
    """Returns whether the folder was made of these files in their present state."""
    return (folder / "made-of").is_file() and (folder / "made-of").read_bytes() == contents(sources)


def contents(sources):
    """Returns the contents of the files, one behind the other."""
    return b"".join(path.read_bytes() for path in sources)


@contextlib.contextmanager
def folder_for(name):
    """A folder of its own below target/clients. Processes that run tests side by side take turns in it."""
    folder = BUILT / name
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@functools.cache
def go():
    """The words that start the Go program."""
    with folder_for("go") as folder:
        program = folder / "clients"
        tool("go", "build", "-mod=readonly", "-o", program, ".", where=SOURCES / "go")
    return [program]


@functools.cache
def java():
    """The words that start the Java program."""
    pom, sources = SOURCES / "java/pom.xml", sorted((SOURCES / "java").glob("*.java"))
    with folder_for("java") as folder:
        jars, classes = f"{folder / 'jars'}/*", folder / "classes"
        if not is_current(folder, pom, *sources):
            shutil.rmtree(folder / "jars", ignore_errors=True)
            copy = "dependency:copy-dependencies"
            tool("mvn", "-q", "-B", "-f", pom, copy, f"-DoutputDirectory={folder / 'jars'}", where=folder)
            tool("javac", "-Xlint:all", "-cp", jars, "-d", classes, *sources, where=folder)
            (folder / "made-of").write_bytes(contents([pom, *sources]))
    return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}", "Main"]


@functools.cache
def node():
    """The words that start the Node program: it runs beside its packages, which npm puts where package.json
    is."""
    sources = [SOURCES / "node" / name for name in ("package.json", "package-lock.json", "main.mjs")]
    with folder_for("node") as folder:
        if not is_current(folder, *sources):
            for path in sources:
                shutil.copy(path, folder)
            tool("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", where=folder)
            (folder / "made-of").write_bytes(contents(sources))
    return ["node", folder / "main.mjs"]


def php():
    """The words that start the PHP program."""
    return ["php", SOURCES / "php/main.php"]


def ruby():
    """The words that start the Ruby program."""
    return ["ruby", SOURCES / "ruby/main.rb"]


def verdict(program, address, prefix, *words):
    """Runs a program to its end: the names of its checks, and what it said of those that failed."""
    host, port = address
    ended = subprocess.run(
        [*program(), f"{host}:{port}", prefix, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    said = f"{ended.stdout}{ended.stderr}"
    ok = re.findall(r"^ok (\S+)$", ended.stdout, re.MULTILINE)
    failed = re.findall(r"^FAIL .*$", ended.stdout, re.MULTILINE)
    assert f"verdict: {len(ok)} ok, {len(failed)} failed\n" in ended.stdout, said
    assert (ended.returncode == 0) == (not failed), said
    return ok, failed


EVERYWHERE = {
    "get-set", "add", "replace", "append-prepend", "incr-decr", "touch", "delete", "expiry", "large", "flush"
}
TYPED = EVERYWHERE | {"cas", "multi-get", "flags-compression", "stats"}
OF_PHP = EVERYWHERE | {"cas", "multi-get", "flags", "compression", "buffered", "sessions", "stats"}
# Way to start each client, and the names of its checks.
PROGRAMS = {
    "gomemcache": (go, [], EVERYWHERE | {"cas", "gat", "multi-get", "flags"}),
    "spymemcached-text": (java, ["spymemcached", "text"], TYPED),
    "spymemcached-binary": (java, ["spymemcached", "binary"], TYPED | {"gat"}),
    "xmemcached-text": (java, ["xmemcached", "text"], TYPED),
    "xmemcached-binary": (java, ["xmemcached", "binary"], TYPED | {"gat"}),
    "memjs": (node, [], EVERYWHERE | {"pipelined", "flags-compression", "stats"}),
    "php-text": (php, ["text"], OF_PHP),
    "php-binary": (php, ["binary"], OF_PHP),
    "dalli": (ruby, [], EVERYWHERE | {"cas", "gat", "multi-get", "compression", "fetch", "stats"}),
}
