"""`micanite trace replay`: traces to be replayed, and reports of it."""

import json
import subprocess

from harness.server import command, environment

FAILED, USAGE = 1, 64


def words_of(*words):
    """The command's words."""
    return [command()[0], "trace", "replay", *map(str, words)]


def run_replay(*words, deadline_s=240):
    """Runs it to its end."""
    return subprocess.run(
        words_of(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline_s,
        env=environment()
    )


def replay(*words, status=0):
    """Runs it and returns its report."""
    ended = run_replay(*words, "--quiet", "--json", "-")
    assert ended.returncode == status, ended.stderr
    return json.loads(ended.stdout)


def url_of(server, scheme="memcached"):
    """Returns the URL of a server of ours for a protocol."""
    return f"{scheme}://127.0.0.1:{server.native_port if scheme == 'native' else server.port}"


def objects(path, requests):
    """A trace of GETs: (time in seconds, object, bytes of key and value)."""
    path.write_text(
        "# time, object, size\n" + "".join(f"{time}, {number}, {size}\n" for time, number, size in requests)
    )
    return path


def twitter(path, requests):
    """A trace with operations: (time in seconds, key, bytes of the value, operation, expiry in seconds)."""
    lines = [
        f"{time},{key},{len(key)},{size},1,{name},{expiry}\n" for time, key, size, name, expiry in requests
    ]
    path.write_text("".join(lines))
    return path
