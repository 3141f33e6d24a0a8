"""Small BPF programs at an interface: they stand for what hardware does, and for a bad network. Their source
is in programs/."""

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.network.hosts import NotPermitted

SOURCES = Path(__file__).parent / "programs"


@functools.cache
def directory():
    """Returns the directory of the objects, which is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="micanite-bpf-")


@functools.cache
def compiled(name, **defined):
    """The path of an object file, compiled with these constants."""
    clang = next(filter(None, map(shutil.which, ("clang", "clang-19", "clang-16", "clang-14"))), None)
    if clang is None:
        raise NotPermitted("there is no clang (Debian: clang)")
    # Debian keeps asm/types.h there. Only a compiler for this machine finds it by itself.
    machine = subprocess.run(["cc", "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    words = [f"-D{key}={value}" for key, value in defined.items()]
    path = Path(directory().name) / ("-".join([name, *words]) + ".o")
    ended = subprocess.run(
        [
            clang, "-O2", "-g", "-target", "bpf", f"-I/usr/include/{machine}", *words, "-c",
            SOURCES / f"{name}.c", "-o", path
        ],
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise NotPermitted(f"{name}.c does not compile (Debian: libbpf-dev): {ended.stderr}")
    return path


def attach(host, interface, direction, section, **defined):
    """Puts a program of wire.c in the way of what goes out of an interface ("egress") or comes in
    ("ingress")."""
    host.tc("qdisc", "replace", "dev", interface, "clsact")
    words = ("bpf", "da", "obj", str(compiled("wire", **defined)), "sec", section)
    host.tc("filter", "replace", "dev", interface, direction, "prio", "1", "handle", "1", *words)


def detach(host, interface):
    """Takes all of them away."""
    host.tc("qdisc", "del", "dev", interface, "clsact")
