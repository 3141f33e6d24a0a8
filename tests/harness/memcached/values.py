"""Values that say whose they are."""


def value_of(key, writer, version):
    """A value that says whose it is, with a length of its own."""
    head = b"%b/%d/%d/" % (key, writer, version)
    return head + head[:1] * ((version * 37 + writer) % 700)


def is_value_of(key, value):
    """Returns whether a client can have written the value under this key."""
    words = value.split(b"/", 3)
    return len(words) == 4 and words[0] == key and value == value_of(key, int(words[1]), int(words[2]))
