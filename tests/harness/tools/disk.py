"""A small file system in memory, to be filled."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def small_disk(path, kib):
    """Mounts a file system of so many KiB at a directory that it makes."""
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(path)]
    mounted = subprocess.run(words, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip("cannot mount a tmpfs")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
