"""A terminal of any size: tmux of its own, whose screen can be read and whose keys can be pressed."""

import shlex
import subprocess
import uuid

from harness.poll import until
from harness.server import environment


class Terminal:
    """A tmux server with one window, which runs a command and says how it ended."""

    def __init__(self, words, columns=100, rows=30, **extra):
        self.name = f"micanite-{uuid.uuid4().hex[:12]}"
        command = f"{shlex.join(map(str, words))}; echo ENDED $?; exec sleep 1000"
        self.tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "sh", "-c", command,
            env=environment(**{"TERM": "screen-256color", "LANG": "C.UTF-8"} | extra),
        )  # fmt: skip

    def tmux(self, *words, env=None):
        """Runs a command of tmux, and returns its output."""
        ended = subprocess.run(
            ["tmux", "-u", "-L", self.name, *map(str, words)], capture_output=True, text=True, env=env
        )
        assert ended.returncode == 0, (words, ended.stderr)
        return ended.stdout

    def screen(self, *options):
        """The text on the screen."""
        return self.tmux("capture-pane", "-p", *options)

    def press(self, *keys):
        """Presses keys by tmux's names."""
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        """Changes the size of the window."""
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def until(self, *words, absent=()):
        """Waits until the screen has all of these words and none of the absent ones; returns it."""

        def shows():
            shown = self.screen()
            is_right = all(word in shown for word in words) and not any(word in shown for word in absent)
            return is_right and shown

        try:
            return until(shows, f"{words} without {absent} on the screen")
        except BaseException as error:
            error.add_note(self.screen())
            raise

    def pid(self):
        """The process id of the command."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        return int(subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True).stdout.split()[0])

    def end(self):
        """Ends tmux with what runs in it."""
        subprocess.run(["tmux", "-L", self.name, "kill-server"], capture_output=True)
