"""Capturing what goes over loopback, by tcpdump."""

import shutil
import signal
import subprocess

from harness.poll import until


class CannotCapture(Exception):
    """There is no tcpdump, or it may not capture."""


class Capture:
    """All packets from and to some ports of loopback, in a file."""

    def __init__(self, path, ports, bytes_max=0):
        self.path = path
        tool = shutil.which("tcpdump", path="/usr/bin:/usr/sbin:/sbin")
        if tool is None:
            raise CannotCapture("there is no tcpdump")
        words = " or ".join(f"port {port}" for port in ports)
        self.process = subprocess.Popen(
            [
                tool, "-i", "lo", "-B", "32768", "-s", str(bytes_max), "-U", "--immediate-mode", "-Z", "root",
                "-w", str(path), words
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        said = self.process.stderr.readline()
        while said and "listening on" not in said:
            line = self.process.stderr.readline()
            if not line:
                self.process.wait()
                raise CannotCapture(said.strip())
            said = line
        if not said:
            self.process.wait()
            raise CannotCapture("tcpdump ended at once")

    def __enter__(self):
        return self

    def wait_for(self, text):
        """Until a packet with this text has been written."""
        until(lambda: text in self.path.read_bytes(), f"{text} to be captured")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
