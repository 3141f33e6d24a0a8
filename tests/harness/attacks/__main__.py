"""Runs one attack: see the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.attacks.target import ATTACKS, Target


def main(name, host, port, udp_port=0, native_port=0):
    """Runs one."""
    going = False
    for _ in ATTACKS[name](Target(host, int(port), int(udp_port), int(native_port))):
        if not going:
            print("going", flush=True)
            going = True


if __name__ == "__main__":
    main(*sys.argv[1:])
