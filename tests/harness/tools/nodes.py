"""Servers on a machine of two NUMA nodes, which no machine of the tests is: sysfs shows two nodes (a mount in
a namespace of the server's own), and nodes.c answers the system calls of memory policies, or they are the
kernel's own, which has one node."""

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.server import Server, command

SYSFS = "/sys/devices/system/node"
SOURCE = Path(__file__).with_name("nodes.c")


@functools.cache
def directory():
    """Returns the directory of what is made here, which is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="micanite-nodes-")


def refused():
    """Returns why there can be no such machine here; none if it can."""
    if missing := [tool for tool in ("unshare", "mount", "taskset", "cc") if shutil.which(tool) is None]:
        return f"there is no {' and no '.join(missing)}"
    if len(os.sched_getaffinity(0)) < 2:
        return "there is one CPU, and two nodes need two"
    words = ["unshare", "-m", "mount", "--bind", directory().name, SYSFS]
    mounted = subprocess.run(words, capture_output=True)
    return "a directory of sysfs cannot be covered here (unshare, mount)" if mounted.returncode else None


@functools.cache
def library():
    """Returns the path of nodes.c, compiled."""
    path = Path(directory().name) / "nodes.so"
    words = ["cc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", SOURCE, "-o", path, "-ldl", "-lpthread"]
    subprocess.run(words, check=True)
    return str(path)


def sysfs():
    """Returns a directory that shows two nodes, and their CPUs."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    root = Path(directory().name) / "node"
    for node, cpu in enumerate(cpus):
        (root / f"node{node}").mkdir(parents=True, exist_ok=True)
        (root / f"node{node}/cpulist").write_text(f"{cpu}\n")
    (root / "online").write_text("0-1\n")
    return root, cpus


def launcher(*words):
    """Returns words that run a command where sysfs shows two nodes, on a CPU of each."""
    root, cpus = sysfs()
    script = f'mount --bind {root} {SYSFS} && exec "$@"'
    chosen = ",".join(map(str, cpus))
    return ["unshare", "-m", "sh", "-c", script, "sh", "taskset", "-c", chosen, *words]


class TwoNodes(Server):
    """A server of two workers, each on a node of its own."""

    def __init__(self, *options, prefix=(), real_calls=False, **environment):
        self.prefix = [str(word) for word in prefix]
        preload = {} if real_calls else {"LD_PRELOAD": library()}
        super().__init__("-t", "2", *options, **preload, **environment)

    def words(self):
        """The words that start it."""
        return launcher(*self.prefix, *command())

    def numa(self):
        """Returns the answer of `ctl numa`."""
        asked = self.ctl("numa")
        assert asked.returncode == 0, asked.stderr
        return asked.stdout

    def partitions(self):
        """Returns for each partition where its memory is to be, its sample by node, and its state."""
        rows = self.numa().split("\n\n", 1)[1].splitlines()[1:]
        found = []
        for row in rows:
            words = row.split(maxsplit=4)
            counts, state = words[4].split("  ", 1)
            by_node = dict(word[1:].split("=") for word in counts.split() if "=" in word)
            sample = {int(node): int(count) for node, count in by_node.items()}
            found.append((words[3], sample, state.strip()))
        return found

    def count(self, name):
        """Returns a count of `stats numa`."""
        return int(self.stats("numa")[f"numa_{name}"])
