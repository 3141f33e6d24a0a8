"""The report's page, in a headless Chromium: of a small recorded run, and of a section run now."""

import csv
import io
import json
import re
import urllib.parse
from pathlib import Path

import pytest

from harness.tools import programs as tools
from harness.tools import report

# They run the benchmarks, which the gate does not compile.
pytestmark = pytest.mark.full
# A section that takes seconds, and needs no root.
QUICK = "modes"
RUN_S = 300
WIDTHS = (1280, 360)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns the folder of a page made of the recorded raw data."""
    made = tmp_path_factory.mktemp("report")
    ended = report.run("--data", report.RECORDED, "--out", made, timeout=60)
    assert (made / "index.html").exists(), ended.stderr
    return made


@pytest.fixture(
    scope="module", params=[(width, dark) for width in WIDTHS for dark in (False, True)],
    ids=lambda p: f"{p[0]}-{'dark' if p[1] else 'light'}"
)
def page(request, browser, folder):
    """That page, as wide as a desktop and as a phone, light and dark."""
    width, dark = request.param
    opened = browser.open((folder / "index.html").as_uri(), width, dark)
    yield opened
    opened.close()


def test_the_browser_has_nothing_to_complain_of(page):
    assert page.complaints("file:", "data:") == ([], [])


@pytest.mark.parametrize("what", ["TOO_WIDE", "TOO_SMALL", "TOO_FAINT", "IN_THE_WAY", "INCOMPLETE"])
def test_everybody_can_read_it(page, what):
    assert page.value(getattr(report, what)) == []


def test_it_reads_the_same_when_everything_is_open(page):
    page.value("for (const one of document.querySelectorAll('details')) one.open = true;")
    for what in ("TOO_WIDE", "TOO_SMALL", "TOO_FAINT"):
        assert page.value(getattr(report, what)) == []


def test_links_lead_somewhere(browser, folder):
    page = browser.open((folder / "index.html").as_uri(), WIDTHS[0])
    anchors, links = page.value(report.ANCHORS), page.value(report.LINKS)
    page.close()
    assert len(links) > 10
    for target, name in links:
        if target.startswith("#"):
            assert target[1:] in anchors
        elif target.startswith("data:text/csv"):
            rows = list(csv.reader(io.StringIO(urllib.parse.unquote(target.partition(",")[2]), newline="")))
            assert name.endswith(".csv") and len(rows) >= 2 and len({len(row) for row in rows}) == 1, name
        else:
            assert target.startswith("raw/"), target


def test_the_raw_data_is_in_the_page(browser, folder):
    page = browser.open((folder / "index.html").as_uri(), WIDTHS[0])
    raw = json.loads(page.value(report.RAW))
    page.close()
    assert raw == json.loads(report.RECORDED.read_text())
    assert raw["sections"] and raw["head"]["machine"]["facts"]


def test_without_a_browser_it_is_one_file(folder):
    text = (folder / "index.html").read_text()
    text = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    text = re.sub(r'xmlns="[^"]*"', "", text)
    assert not re.search(r"""(src|href)=["'](?!#|data:|raw/)""", text)
    assert "@import" not in text and "url(" not in text


def test_a_section_from_its_command_to_its_figure(browser, tmp_path):
    # The whole servers of the section are our own program: where cargo builds releases.
    programs = Path(tools.lab()).parent
    release = tmp_path / "target" / "release"
    release.parent.mkdir()
    release.symlink_to(programs)
    words = ("--only", QUICK, "--out", tmp_path, "--programs", programs)
    ended = report.run(*words, timeout=RUN_S, CARGO_TARGET_DIR=release.parent)
    assert ended.returncode == 0, ended.stderr
    page = browser.open((tmp_path / "index.html").as_uri(), WIDTHS[1])
    shown = f"return document.querySelector('section[aria-labelledby={QUICK}] svg') !== null;"
    assert page.value(shown) and page.value(report.INCOMPLETE) == []
    links = [target for target, _ in page.value(report.LINKS) if target.startswith("raw/")]
    assert page.complaints("file:", "data:") == ([], [])
    page.close()
    assert links and all((tmp_path / link).stat().st_size > 0 for link in links)
    for link in links:
        if link.endswith(".json"):
            assert json.loads((tmp_path / link).read_text())
