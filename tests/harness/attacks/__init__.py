"""Clients that mean harm: `python harness/attacks NAME HOST PORT [UDP_PORT] [NATIVE_PORT]`. PORT is the TLS
port for attacks on TLS. The program prints "going" once the attack has begun, and goes on until it is ended.

Each is one process, so that whoever looks at the server meanwhile does not share its interpreter."""

import subprocess
import sys
from pathlib import Path

from harness.attacks import datagrams, native, streams, tls  # noqa: F401 (they enter their attacks)
from harness.attacks.target import ATTACKS

PLAIN = [name for name in ATTACKS if not name.startswith("tls")]
TLS = [name for name in ATTACKS if name.startswith("tls")]


def certificate(directory):
    """The options of a server with a certificate of its own; `openssl` makes it."""
    key, chain = directory / "key.pem", directory / "chain.pem"
    words = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "2", "-subj", "/CN=attacked"
    ]
    subprocess.run([*words, "-keyout", key, "-out", chain], check=True, capture_output=True)
    return ["-Z", "-o", f"ssl_chain_cert={chain},ssl_key={key}"]


def command(name, server):
    """Returns the command that runs an attack against a server."""
    native_port = server.stats("native").get("native_port", 0)
    ports = [server.ports()["TCP"], server.ports().get("UDP", 0), native_port]
    return [sys.executable, str(Path(__file__).parent), name, "127.0.0.1", *map(str, ports)]
