"""Memory that a process really holds, and memory that the machine has left."""

import re

from harness.poll import until

MIB = 1 << 20
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def resident_bytes(pid):
    """The proportional resident size with huge pages, which smaps_rollup counts apart. Mirrored mappings
    count once."""
    total_kib = 0
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        for line in lines:
            name, _, rest = line.partition(":")
            if name in ("Pss", "Shared_Hugetlb", "Private_Hugetlb"):
                total_kib += int(rest.split()[0])
    return total_kib * 1024


def available_bytes():
    """Returns the memory that the kernel could give without swapping."""
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))


def printed_budget_bytes(server):
    """All that the server printed at start: what `-m` holds, and what there is beside it at most."""
    patterns = (r"memory +([\d.]+) (B|KiB|MiB|GiB) in", r"beside +.* now, at most ([\d.]+) (B|KiB|MiB|GiB)")
    parts = [until(lambda p=p: re.search(p, server.stderr()), "the printed budget") for p in patterns]
    return sum(int(float(part[1]) * UNITS[part[2]]) for part in parts)
