"""Sessions in documents: blocks of code that show commands and what they print, executed and compared.

A block `console` has commands behind `$ `, each above its output. A block `pycon` is a Python session. The
commands run as they stand, with these differences: `make run` and `micanite` are the tested binary, ports are
free ones, and the directory /tmp/micanite-tutorial is one of the test. Where a command waits for its output,
such as a server, it goes on in the background until a command starts a server in its place.
"""

import doctest
import os
import re
import shlex
import signal
import subprocess
import textwrap

from harness.failures import judge_end
from harness.network.claims import free_ports
from harness.poll import until
from harness.server import command, environment

PORT, ADMIN_PORT, DIRECTORY = "11211", "9311", "/tmp/micanite-tutorial"
# Where the person of the documents works.
WORKING_DIRECTORY = "/srv/micanite"
SECONDS_MAX = 60
SERVERS = re.compile(r"(make run|micanite serve)\b")
# Lines that depend on who runs the server, and are not in the documents.
PERSONAL = re.compile(r"^micanite: running as root; .*\n", re.MULTILINE)
# What differs between machines and runs, and matches whatever has the same form.
NUMBERS = r"(?<![\w.])-?\d[\d.,]*(?: \d[\d.]*)*"
VARYING = [
    (r"/\S+/micanite\S*/\d+\.ctl", r"/\S+\.ctl"),
    (r"on (?:transparent huge pages|\S+ \w+ pages|huge pages[^;]*)", r"on [^;]+"),
    (NUMBERS + r" (?:B|[KMG]iB)\b", r"[\d. ]+ (?:B|[KMG]iB)"),
    (NUMBERS + r" (?:us|ms|s)\b", r"[\d. ]+ (?:us|ms|s)"),
    (NUMBERS, r"-?\d[\d.,]*(?: \d[\d.]*)*"),
    (r" {2,}", r" +"),
]


def blocks(page):
    """Yields (kind, text) of the sessions of a page, in order."""
    yield from re.findall(r"^```(console|pycon)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def commands(block):
    """Yields (command, output) of a console block."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        words, _, output = part.partition("\n")
        yield words, output


def pattern(shown):
    """Returns what a shown output matches, as a regular expression."""
    parts = []
    for line in shown.splitlines(keepends=True):
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
            continue
        position = 0
        form = re.compile("|".join(f"({varies})" for varies, _ in VARYING))
        for found in form.finditer(line):
            parts.append(re.escape(line[position : found.start()]))
            parts.append(VARYING[found.lastindex - 1][1])
            position = found.end()
        parts.append(re.escape(line[position:]))
    return "".join(parts)


class Session:
    """Executes the sessions of a page, one after the other, with what they leave behind."""

    def __init__(self, directory):
        self.directory = directory
        self.ports = dict(zip((PORT, ADMIN_PORT), free_ports(2), strict=True))
        self.server, self.said = None, directory / "said"
        self.names = {}
        self._write_programs()

    def _write_programs(self):
        """Makes the programs `make` and `micanite` that the commands find."""
        programs = self.directory / "programs"
        programs.mkdir()
        binary = shlex.quote(command()[0])
        port = self.ports[PORT]
        texts = {
            "make": f'[ "$1" = run ] || exit 2; shift; exec {binary} serve -t 2 -p {port} ${{1#ARGS=}}',
            "micanite": "case $1 in\n"
            f'ctl) exec {binary} "$@" -p {port} ;;\n'
            f'serve) exec {binary} "$@" -t 2 -p {port} ;;\n'
            f'*) exec {binary} "$@" ;;\nesac',
        }
        for name, text in texts.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        self.environment = environment(
            PATH=f"{programs}:{os.environ['PATH']}", XDG_RUNTIME_DIR=self.directory, TZ="UTC"
        )

    def here(self, text):
        """Returns a command with the places of this test."""
        for documented, own in self.ports.items():
            text = re.sub(rf"\b{documented}\b", str(own), text)
        return text.replace(DIRECTORY, str(self.directory / "tutorial"))

    def there(self, text):
        """Returns an output with the places of the document."""
        for documented, own in self.ports.items():
            text = re.sub(rf"\b{own}\b", documented, text)
        text = text.replace(str(self.directory / "tutorial"), DIRECTORY)
        return PERSONAL.sub("", text.replace(str(self.directory), WORKING_DIRECTORY))

    def run(self, page):
        """Executes all sessions of a page. Fails with what was shown and what was printed."""
        for kind, text in blocks(page):
            if kind == "pycon":
                self.python(text)
                continue
            for words, output in commands(text):
                self.shell(words, output)

    def shell(self, words, shown):
        """Executes a command, and compares what it prints."""
        expected = re.compile(pattern(shown))
        if SERVERS.match(words):
            self.end()
            self._start(words, shown, expected)
            return
        ended = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {self.here(words)}"],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
        )
        printed = self.there(ended.stdout)
        assert ended.returncode == 0, f"$ {words}\n{printed}"
        assert expected.fullmatch(printed), different(words, shown, printed)

    def _start(self, words, shown, expected):
        """Starts a server, and waits until it has printed what is shown."""
        with open(self.said, "wb") as said:
            self.server = subprocess.Popen(
                ["bash", "-c", f"exec {self.here(words)}"],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

        def is_ready():
            printed = self.said.read_text()
            assert self.server.poll() is None, f"$ {words}\n{printed}"
            return "micanite: ready\n" in printed

        until(is_ready, "the server to be ready")
        printed = self.there(self.said.read_text())
        assert expected.fullmatch(printed), different(words, shown, printed)

    def python(self, text):
        """Executes a Python session. Its output is compared as it stands."""
        test = doctest.DocTestParser().get_doctest(self.here(text), self.names, "session", None, 0)
        told = []
        doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
        self.names = test.globs
        assert not told, "".join(told)

    def end(self):
        """Ends the server, as Ctrl-C does."""
        if self.server is None:
            return
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)
        self.server.wait(SECONDS_MAX)
        judge_end(self.server.pid, self.server.returncode, self.said.read_text())
        self.server = None


def different(words, shown, printed):
    """Returns the message of a difference."""
    return (
        f"$ {words}\nshown:\n{textwrap.indent(shown, '  ')}printed:\n{textwrap.indent(printed, '  ')}"
    )
