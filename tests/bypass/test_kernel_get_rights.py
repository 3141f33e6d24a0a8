"""The rights that `--kernel-get` needs, and what it says when it lacks them."""

import pytest

from harness.network.kernel_get import AnsweringLink, FewRights, FromRoot, answers, attached
from harness.network.rights import capabilities_of
from harness.poll import until
from harness.server import run


@pytest.fixture
def link():
    """A link of the test's own."""
    with AnsweringLink() as link:
        yield link


NEEDED = ("net_admin", "bpf", "perfmon")


def test_few_capabilities_are_enough(link):
    """The rights are those that the help names, and no memory may be locked."""
    with FewRights(NEEDED, link) as server:
        assert capabilities_of(server.pid).bit_count() <= len(NEEDED)
        assert server.kernel_text().startswith("on"), server.kernel_text()
        assert answers(server)


@pytest.mark.parametrize("missing", [*NEEDED, "all"])
def test_without_rights_it_names_the_missing_one_and_serves(link, missing):
    granted = [name for name in NEEDED if missing not in (name, "all")] or ["kill"]
    with FewRights(granted, link) as server:
        said = server.kernel_text()
        assert said.startswith("off") and "CAP_" in said, said
        assert said.removeprefix("off").strip(" ()") in server.stderr()
        assert attached(link) is None and not answers(server)


def test_root_becomes_another_user(link):
    with FromRoot(link, "-u", "nobody") as server:
        assert capabilities_of(server.pid) == 0
        assert answers(server)
    until(lambda: attached(link) is None, "the interface to be free")


@pytest.mark.parametrize(("options", "word"), [
    (["--kernel-get", "nosuch0"], "nosuch0"),
    (["--kernel-get", "lo", "--kernel-get-mode", "fast"], "fast"),
    (["--kernel-get-mode", "native"], "--kernel-get"),
    (["--kernel-get", "lo", "--image", "/nonexistent"], "--image"),
    (["--kernel-get", "lo", "--kernel-get", "lo"], "twice"),
])  # fmt: skip
def test_impossible_options_are_refused_with_a_reason(options, word):
    ended = run("-U", -1, *options)
    assert ended.returncode == 64 and word in ended.stderr, ended
