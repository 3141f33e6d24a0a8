"""Django's cache and its sessions, by both of its memcached backends."""

import django
import pylibmc
import pymemcache
import pytest
from django.conf import settings
from django.core.cache import cache, caches
from django.test.utils import override_settings

from harness.poll import until

BACKENDS = ("PyMemcacheCache", "PyLibMCCache")
settings.configure(SECRET_KEY="of these tests", SESSION_ENGINE="django.contrib.sessions.backends.cache")
django.setup()


@pytest.fixture(params=BACKENDS)
def server(request, start):
    """A server that Django's settings name, by one of the backends."""
    running = start("-t", 2, "-m", 64)
    backend = f"django.core.cache.backends.memcached.{request.param}"
    default = {"BACKEND": backend, "LOCATION": f"127.0.0.1:{running.port}", "KEY_PREFIX": "site"}
    with override_settings(CACHES={"default": default, "short": default | {"TIMEOUT": 1, "VERSION": 7}}):
        yield running
        caches.close_all()


def test_one_key(server):
    missing = object()
    assert cache.get("key", missing) is missing
    for value in ("text ä", b"bytes", 42, 1.5, True, None, {"a": [1, (2, 3)]}, "x" * 500_000):
        cache.set("key", value)
        assert cache.get("key", missing) == value
    assert cache.add("key", "other") is False and cache.add("another key".replace(" ", "-"), "x") is True
    assert cache.get_or_set("made", lambda: "made") == "made" == cache.get_or_set("made", "again")
    assert "made" in cache and "absent" not in cache
    assert cache.delete("made") is True and cache.delete("made") is False


def test_many_keys(server):
    values = {f"key-{number}": {"number": number} for number in range(300)}
    assert cache.set_many(values) == []
    assert cache.get_many([*values, "absent"]) == values
    cache.delete_many(list(values)[:100])
    assert cache.get_many(values) == dict(list(values.items())[100:])
    cache.clear()
    assert cache.get_many(values) == {}


def test_numbers(server):
    cache.set("number", 10)
    assert cache.incr("number", 32) == 42 and cache.decr("number", 2) == 40 and cache.get("number") == 40
    with pytest.raises(ValueError):
        cache.incr("absent")


def test_versions(server):
    cache.set("key", "one")
    cache.set("key", "two", version=2)
    assert (cache.get("key"), cache.get("key", version=2), cache.get("key", version=3)) == (
        "one", "two", None
    )
    assert cache.incr_version("key", 2) == 3
    assert cache.get("key") is None and cache.get("key", version=3) == "one"
    caches["short"].set("key", "seven", timeout=None)
    assert cache.get("key", version=7) == "seven"


def test_times(server):
    caches["short"].set("key", "x")
    caches["short"].set("kept", "x", timeout=None)
    until(lambda: caches["short"].get("key") is None, "the default timeout")
    assert caches["short"].get("kept") == "x"
    cache.set("key", "x", timeout=100)
    assert cache.touch("key", 1) is True and cache.touch("absent", 1) is False
    until(lambda: cache.get("key") is None, "the timeout of touch")
    cache.set("key", "x", timeout=0)
    assert cache.get("key") is None
    cache.set("key", "x", timeout=60 * 24 * 3600)
    assert cache.get("key") == "x"


def test_refusals(server):
    """A value that is too large is refused. The old value is gone, so nobody reads a replaced one."""
    cache.set("key", "small")
    with pytest.raises((pymemcache.MemcacheServerError, pylibmc.TooBig)):
        cache.set("key", b"x" * (2 << 20))
    assert cache.get("key") is None
    cache.set("key", "after")
    assert cache.get("key") == "after"


def test_sessions(server):
    from django.contrib.sessions.backends.cache import SessionStore

    first = SessionStore()
    first["basket"] = ["mica", 3]
    first.set_expiry(1000)
    first.save()
    again = SessionStore(first.session_key)
    assert again["basket"] == ["mica", 3] and again.exists(first.session_key)
    again["basket"].append("more")
    again.modified = True
    again.cycle_key()
    again.save()
    assert not again.exists(first.session_key), "the session has another key after a login"
    assert SessionStore(again.session_key)["basket"] == ["mica", 3, "more"]
    again.flush()
    assert not SessionStore().exists(again.session_key or "none")
    assert "basket" not in SessionStore(first.session_key)
