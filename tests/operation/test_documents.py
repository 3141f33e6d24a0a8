"""The sessions of the README and of the tutorial are executed, and what they print is compared."""

import re

import pytest

from harness.server import PROJECT
from harness.tools.documents import Session, blocks, commands, pattern

WORDS_MAX = 700


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_the_sessions_of_a_page_print_what_it_shows(page, tmp_path):
    text = (PROJECT / page).read_text()
    kinds = [kind for kind, _ in blocks(text)]
    assert {"console", "pycon"} <= set(kinds)
    session = Session(tmp_path)
    try:
        session.run(text)
    finally:
        session.end()


def test_the_readme_is_short():
    words = (PROJECT / "README.md").read_text().split()
    assert len(words) < WORDS_MAX


def test_a_session_with_another_output_fails(tmp_path):
    """Words that differ, a line too many, and a wrong value in Python are found."""
    session = Session(tmp_path)
    session.shell("echo 17 items in 3.5 MiB", "2 items in 17 KiB\n")
    for shown in ("17 keys in 3.5 MiB\n", "17 items in 3.5 MiB\nmore\n", ""):
        with pytest.raises(AssertionError, match="printed"):
            session.shell("echo 17 items in 3.5 MiB", shown)
    with pytest.raises(AssertionError):
        session.shell("false", "")
    session.python(">>> a = 1\n")
    with pytest.raises(AssertionError, match="Got"):
        session.python(">>> a\n2\n")


def test_sessions_are_found_in_a_page():
    page = "```\n$ no\n```\n\n```console\n$ one two\nout\nput\n$ three\n```\n```pycon\n>>> 1\n1\n```\n"
    assert [kind for kind, _ in blocks(page)] == ["console", "pycon"]
    assert list(commands(next(blocks(page))[1])) == [("one two", "out\nput\n"), ("three", "")]


def test_an_ellipsis_stands_for_lines():
    assert re.fullmatch(pattern("a\n...\nb 7\n"), "a\nx\ny\nb 12.5\n")
    assert not re.fullmatch(pattern("a\n...\nb 7\n"), "a\nx\ny\n")
