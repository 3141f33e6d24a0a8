"""Results of the storing commands: values, flags, CAS numbers, the number arithmetic."""

import pytest

EVERY_MODE = True


def whole(connection, key):
    """Flags and value of a key that is there."""
    return connection.values(b"get " + key + b"\r\n")[key]


def test_set_replaces_value_and_flags(client, key):
    client.set(key, b"first", flags=1)
    client.set(key, b"a longer second value", flags=2)
    assert whole(client, key) == (2, b"a longer second value")
    client.set(key, b"3", flags=0)
    assert whole(client, key) == (0, b"3")


@pytest.mark.parametrize("value", [b"", b"\r\n", b"END\r\n", b"get x\r\n", bytes(range(256)), b"\0" * 100])
def test_a_value_is_any_bytes(client, key, value):
    client.set(key, value)
    assert client.get(key) == value


def test_append_and_prepend_keep_the_flags(client, key):
    client.set(key, b"middle", flags=77)
    client.expect(b"append %b 1 0 4\r\n-end\r\n" % key, b"STORED\r\n")
    client.expect(b"prepend %b 2 0 6\r\nstart-\r\n" % key, b"STORED\r\n")
    assert whole(client, key) == (77, b"start-middle-end")


def test_append_often(client, key):
    client.set(key, b"")
    client.send(b"".join(b"append %b 0 0 8\r\n%08d\r\n" % (key, i) for i in range(1000)))
    assert [client.line() for _ in range(1000)] == [b"STORED"] * 1000
    assert client.get(key) == b"".join(b"%08d" % i for i in range(1000))


def test_replace_changes_the_flags(client, key):
    client.set(key, b"old", flags=1)
    client.expect(b"replace %b 9 0 3\r\nnew\r\n" % key, b"STORED\r\n")
    assert whole(client, key) == (9, b"new")


def test_a_refused_add_changes_nothing(client, key):
    client.set(key, b"old", flags=1)
    client.expect(b"add %b 9 0 3\r\nnew\r\n" % key, b"NOT_STORED\r\n")
    assert whole(client, key) == (1, b"old")


def test_delete_then_add(client, key):
    client.set(key, b"old")
    client.expect(b"delete %b\r\n" % key, b"DELETED\r\n")
    assert client.get(key) is None
    client.expect(b"delete %b\r\n" % key, b"NOT_FOUND\r\n")
    client.expect(b"add %b 3 0 3\r\nnew\r\n" % key, b"STORED\r\n")
    assert whole(client, key) == (3, b"new")


def test_cas_stores_once(client, key):
    client.set(key, b"old", flags=4)
    number = client.cas(key)
    client.expect(b"cas %b 5 0 3 %d\r\nnew\r\n" % (key, number), b"STORED\r\n")
    assert whole(client, key) == (5, b"new")
    client.expect(b"cas %b 6 0 5 %d\r\nnewer\r\n" % (key, number), b"EXISTS\r\n")
    assert whole(client, key) == (5, b"new")


@pytest.mark.parametrize("command", ["set", "replace", "append", "prepend", "cas", "incr", "decr"])
def test_every_write_changes_the_cas_number(client, key, command):
    client.set(key, b"100")
    before = client.cas(key)
    request = {
        "cas": b"cas K 0 0 3 %d\r\n100\r\n" % before,
        "incr": b"incr K 1\r\n",
        "decr": b"decr K 1\r\n",
    }.get(command, b"%b K 0 0 3\r\n100\r\n" % command.encode())
    assert client.ask(request.replace(b"K", key)) in (b"STORED", b"101", b"99")
    assert client.cas(key) != before
    client.expect(b"cas %b 0 0 1 %d\r\nx\r\n" % (key, before), b"EXISTS\r\n")


@pytest.mark.parametrize(
    "request_", [b"touch K 100", b"gat 100 K", b"gats 100 K", b"get K", b"gets K", b"add K 0 0 1\r\nx"]
)
def test_commands_that_write_no_value_keep_the_cas_number(client, key, request_):
    client.set(key, b"100")
    before = client.cas(key)
    client.send(request_.replace(b"K", key) + b"\r\nmn\r\n")
    client.lines_before(b"MN")
    assert client.cas(key) == before


def test_cas_numbers_are_unique(client, key):
    keys = [b"%b-%d" % (key, i) for i in range(500)]
    seen = set()
    for _ in range(3):
        client.send(b"".join(b"set %b 0 0 1 noreply\r\nx\r\n" % k for k in keys))
        for k, (_, _, number) in client.values(b"gets " + b" ".join(keys) + b"\r\n").items():
            assert (k, number) not in seen
            seen.add((k, number))
    # A number handed out once is never valid again for the same key, also after a delete.
    client.set(key, b"x")
    before = client.cas(key)
    client.expect(b"delete %b\r\n" % key, b"DELETED\r\n")
    client.set(key, b"y")
    client.expect(b"cas %b 0 0 1 %d\r\nz\r\n" % (key, before), b"EXISTS\r\n")


def test_gets_and_gats_of_several_keys(client, key):
    keys = [b"%b-%d" % (key, i) for i in range(50)]
    for i, k in enumerate(keys[::2]):
        client.set(k, b"value of " + k, flags=i)
    for request in (b"gets ", b"gats 100 "):
        found = client.values(request + b" ".join(keys) + b"\r\n")
        assert list(found) == keys[::2]
        for i, k in enumerate(keys[::2]):
            assert found[k][:2] == (i, b"value of " + k)
            assert found[k][2] > 0
    found = client.values(b"gat 100 " + b" ".join(keys) + b"\r\n")
    assert found == {k: (i, b"value of " + k) for i, k in enumerate(keys[::2])}


@pytest.mark.parametrize(
    ("before", "request_", "reply", "after"),
    [
        (b"10", b"decr K 1", b"9", b"9 "),
        (b"1000", b"decr K 999", b"1", b"1   "),
        (b"9", b"incr K 1", b"10", b"10"),
        (b"99", b"incr K 1", b"100", b"100"),
        (b"5", b"decr K 6", b"0", b"0"),
        (b"0", b"decr K 1", b"0", b"0"),
        (b"18446744073709551615", b"incr K 1", b"0", b"0" + b" " * 19),
        (b"18446744073709551614", b"incr K 1", b"18446744073709551615", b"18446744073709551615"),
        (b"18446744073709551615", b"decr K 18446744073709551615", b"0", b"0" + b" " * 19),
        (b"007", b"incr K 1", b"8", b"8  "),
    ],
)
def test_arithmetic(client, key, before, request_, reply, after):
    client.set(key, before, flags=3)
    assert client.ask(request_.replace(b"K", key) + b"\r\n") == reply
    assert whole(client, key) == (3, after)
    # The text that a shorter number leaves is still a number.
    assert client.ask(b"incr %b 0\r\n" % key) == reply


@pytest.mark.parametrize(
    "value",
    [b"", b"x", b"-1", b"1x", b"0x10", b"1.5", b"18446744073709551616", b"9" * 30, b"1" * 200],
    ids=str,
)
def test_arithmetic_on_other_values_is_refused(client, key, value):
    client.set(key, value)
    refusal = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
    client.expect(b"incr %b 1\r\n" % key, refusal)
    client.expect(b"decr %b 1\r\n" % key, refusal)
    assert client.get(key) == value


def test_counting(client, key):
    client.set(key, b"0")
    client.send(b"incr %b 1\r\n" % key * 2000)
    assert [client.line() for _ in range(2000)] == [b"%d" % n for n in range(1, 2001)]
    assert client.get(key) == b"2000"
