"""memcached's command line: what is served, what is accepted without effect, what is refused with a reason.
"""

import pytest

from harness.poll import until
from harness.server import run

ACCEPTED_WORDS = """
modern no_modern hashpower=20 hash_algorithm=murmur3 no_hashexpand tail_repair_time=20 lru_crawler
no_lru_crawler lru_crawler_sleep=100 lru_crawler_tocrawl=0 read_buf_mem_limit=10 resp_obj_mem_limit=10
lru_maintainer no_lru_maintainer hot_lru_pct=20 warm_lru_pct=40 hot_max_factor=0.2 warm_max_factor=2.0
temporary_ttl=61 idle_timeout=0 slab_chunk_max=512 watcher_logbuf_size=256 worker_logbuf_size=64 track_sizes
slab_reassign no_slab_reassign slab_automove slab_automove=1 slab_automove_ratio=0.8 slab_automove_window=10
slab_automove_freeratio=0.01 inline_ascii_resp no_inline_ascii_resp maxconns_fast no_maxconns_fast
drop_privileges no_drop_privileges slab_sizes=100-200 no_chunked_items
""".split()
REFUSED = [
    (["-o", "ext_path=/tmp/x:64m"], "there is no external storage"),
    (["-o", "proxy_config=x"], "there is no proxy"),
    (["-o", "sock_cookie_id=1"], "sockets are not marked"),
    (["-o", "fooble"], "no extended option"),
    (["-o", "hashpowr=20"], "did you mean 'hashpower'?"),
    (["-o", "tail_repair_time=5"], "tail_repair_time"),
    (["-o", "watcher_logbuf_size=1"], "watcher_logbuf_size"),
    (["-B", "http"], "ascii, binary, auto"),
    (["-f", "1"], "-f"),
    (["-n", "0"], "-n"),
    (["-e", "/tmp/x"], "--image"),
]


def test_words_that_memcached_has(start):
    start("-o", ",".join(ACCEPTED_WORDS), "-C", "-L", "-r", "-f", "1.25", "-n", "48", "-N", "2")


def test_options_without_effect_are_reported(start):
    assert "accepted without effect: -C -f" in start("-v", "-C", "-f", "1.5").stderr()


@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=lambda value: "".join(value)[:30])
def test_refused(options, reason):
    ended = run(*options)
    assert ended.returncode != 0
    assert reason in ended.stderr


def test_commands_that_options_disable_are_refused(start):
    server = start("-F", "-X", "-W")
    with server.connect() as connection:
        connection.set(b"key", b"v")
        refused = {
            b"flush_all": b"CLIENT_ERROR flush_all not allowed",
            b"flush_namespace x": b"CLIENT_ERROR flush_all not allowed",
            b"lru_crawler metadump all": b"ERROR metadump not allowed",
            b"lru_crawler mgdump all": b"ERROR key dump not allowed",
            b"stats detail on": b"CLIENT_ERROR stats detail not allowed",
            b"stats detail dump": b"CLIENT_ERROR stats detail not allowed",
            b"stats cachedump 1 1": b"CLIENT_ERROR stats cachedump not allowed",
            b"watch": b"CLIENT_ERROR watch commands not allowed",
        }
        for line, reply in refused.items():
            connection.expect(line + b"\r\n", reply + b"\r\n")
        connection.expect(b"flush_all noreply\r\n", b"")
        assert connection.get(b"key") == b"v"
        settings = connection.stats("settings")
        assert (settings["flush_enabled"], settings["dump_enabled"]) == ("no", "no")


def binary_only(start):
    """A server that the text protocol cannot ask whether it is ready."""
    server = start("-B", "binary", ready=False)
    server.port = until(lambda: server.ports().get("TCP"), "the port file")
    return server


def binary(opcode):
    """A binary request without a body."""
    return bytes([0x80, opcode]) + bytes(22)


def test_text_alone(start):
    with start("-B", "ascii").connect() as connection:
        connection.send(binary(0x0B) + b"\r\nversion\r\n")
        assert connection.line() == b"ERROR"
        assert connection.line().startswith(b"VERSION ")


def test_binary_alone(start):
    server = binary_only(start)
    with server.connect() as connection:
        connection.send(binary(0x0A) + binary(0x08))  # noop, flush
        assert connection.exactly(24)[:2] == bytes([0x81, 0x0A])
        assert connection.exactly(24)[6:8] == bytes(2)
    with server.connect() as connection:
        connection.send(b"version\r\n" + bytes(24))
        assert connection.rest() == b""


def test_a_binary_flush_that_is_not_allowed(start):
    with start("-F").connect() as connection:
        connection.send(binary(0x08))
        assert connection.exactly(24)[6:8] == bytes([0, 0x20])
