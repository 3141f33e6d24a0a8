"""How much memory a process really holds, and how much the machine has left."""


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
    """What the kernel could give without swapping."""
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
