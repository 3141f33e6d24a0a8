"""Commands that run as nobody with some capabilities, and what the kernel says of a process."""


def as_nobody(capabilities, memlock=None):
    """The words before a command that runs as nobody, and may lock so much memory."""
    limited = [] if memlock is None else ["prlimit", f"--memlock={memlock}:{memlock}"]
    granted = ",".join(f"+{name}" for name in capabilities)
    sets = [f"--{name}=-all,{granted}" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    return [*limited, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *sets]


def capabilities_of(pid):
    """Returns the effective capabilities as a mask."""
    return int(status_of(pid, "CapEff"), 16)


def status_of(pid, name):
    """Returns a line of the process's status in the kernel."""
    with open(f"/proc/{pid}/status") as lines:
        return next(line.partition(":")[2] for line in lines if line.startswith(name))
