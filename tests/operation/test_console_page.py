"""The console's page, in a headless Chromium: what it shows, who can read it, what it does without a server.

With TEST_FULL=1, as in make test-full: on a desktop and on a phone, light and dark, and looked at by
axe-core."""

import os
import shutil
import signal
import subprocess

import pytest

from harness.admin import Admin
from harness.memcached.tls import serving
from harness.network.ports import is_full
from harness.poll import until
from harness.server import PROJECT
from harness.tools import report

PAGE = PROJECT / "crates/server/src/telemetry/admin/page"
PARTS = PROJECT / "tests/operation/console/parts.test.js"
AXE = PROJECT / "target/peers/axe/node_modules/axe-core/axe.min.js"
VIEWS = [(1280, False), (390, True)]
ALL_VIEWS = [(width, dark) for width in (1280, 390) for dark in (False, True)]
PATIENCE_S = 60
LONG_KEY = "long:" * 12
EVENT = "return document.getElementById('events').textContent.includes('%s')"


def test_parts_of_the_page(tmp_path):
    for file in [*PAGE.glob("*.js"), PARTS]:
        shutil.copy(file, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    ended = subprocess.run(
        ["node", "--test", PARTS.name], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def served():
    """A server that has had something to do."""
    from harness.server import Server

    server = Server("-t", 2, "-m", "256", "--admin", "-1", "--access", "crew")
    until(lambda: Admin(server).json("/state")["last"] >= 1, "a sample")
    use(server)
    yield server
    server.end()


def use(server, rounds=300):
    with server.connect() as connection:
        for number in range(rounds):
            connection.ask(b"set key:%d 0 0 4\r\nabcd\r\n" % number)
            connection.values(b"get key:%d hot:key %s none\r\n" % (number, LONG_KEY.encode()))


def url(server):
    return f"http://localhost:{Admin(server).address[1]}/"


def wait_for(page, script, what):
    """Waits until a script returns something."""
    return until(lambda: page.value(script), what, PATIENCE_S)


@pytest.fixture(
    params=ALL_VIEWS if is_full() else VIEWS, ids=lambda v: f"{v[0]}-{'dark' if v[1] else 'light'}"
)
def page(request, browser, served):
    width, dark = request.param
    opened = browser.open(url(served), width, dark)
    wait_for(opened, "return document.querySelectorAll('.cells li').length >= 4", "partitions")
    use(served)
    wait_for(opened, "return document.querySelectorAll('#hot tbody tr').length >= 2", "hot keys")
    yield opened
    keep(request.node.name, opened)
    opened.close()


def keep(name, page):
    """Keeps a picture of the page where CONSOLE_SHOTS says so."""
    if folder := os.environ.get("CONSOLE_SHOTS"):
        page.screenshot(f"{folder}/{name}.png")


# Numbers that are cut off, or lie outside of what holds them.
CLIPPED = """
const wrong = [];
for (const one of document.querySelectorAll('dd, td, th, .load span, .cells li, #condition, h1')) {
    const box = one.getBoundingClientRect();
    if (!box.width || one.closest('.unseen, thead')) continue;
    const holder = one.closest('.card, header').getBoundingClientRect();
    if (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline'
        || box.right > holder.right + 1) wrong.push(`${one.tagName} ${one.textContent}`);
}
for (const text of document.querySelectorAll('.plot text')) {
    const [box, all] = [text.getBoundingClientRect(), text.closest('.plot').getBoundingClientRect()];
    if (box.left < all.left - 1 || box.right > all.right + 1) wrong.push(`axis ${text.textContent}`);
}
return wrong;
"""


@pytest.mark.parametrize("what", [report.TOO_WIDE, report.TOO_SMALL, report.TOO_FAINT, CLIPPED], ids=[
    "wide", "small", "faint", "clipped"
])
def test_everybody_can_read_it(page, what):
    assert page.value(what) == []


def test_it_shows_the_server_and_the_browser_does_not_complain(page, served):
    assert page.complaints("http://localhost:") == ([], [])
    tiles = dict(page.value(
        "return [...document.querySelectorAll('#tiles dt')]"
        ".map((dt) => [dt.textContent, dt.nextSibling.textContent])"
    ))
    assert tiles["Items"] == "300" and tiles["Expiry lag, seconds"] == "0", tiles
    hot = page.value("return [...document.querySelectorAll('#hot tbody tr')].map((row) => row.textContent)")
    assert any(row.startswith("hot:key") for row in hot), hot
    titles = "return [...document.querySelectorAll('#hot th')].some((th) => th.title === '%s')"
    wait_for(page, titles % LONG_KEY, "a long key's tooltip")
    assert page.value("return document.querySelectorAll('#charts path[d^=M]').length") > 10
    assert "version" in page.value("return document.getElementById('events').textContent")
    assert "command line" in page.value("return document.getElementById('options').textContent")
    assert "Read-only" in page.value("return document.getElementById('controls').textContent")
    assert page.value("return document.title").endswith(" – Micanite")


def test_values_are_read_with_the_keyboard(page):
    page.value("document.querySelector('.plot').focus(); return 1")
    page.press("ArrowLeft")
    wait_for(page, "return document.querySelectorAll('.plot .cursor').length === 9", "a cursor in all charts")
    label = page.value("return document.activeElement.getAttribute('aria-label')")
    assert ", at" in label and "get" in label
    page.press("Escape")
    wait_for(page, "return document.querySelectorAll('.plot .cursor').length === 0", "no cursor")
    page.value("document.querySelector('input[value=\"3600\"]').click(); return 1")
    assert page.value("return document.querySelector('input[name=range]:checked').value") == "3600"
    assert page.value(CLIPPED) == []


if is_full():

    def test_axe_finds_nothing(page):
        page.value(AXE.read_text() + "\nreturn 1")
        found = page.settled(
            "axe.run(document, {resultTypes: ['violations']}).then((result) => result.violations"
            ".map((one) => `${one.id}: ${one.nodes.map((node) => node.html).slice(0, 3)}`))"
        )
        assert found == []


def test_a_page_outlives_its_server(browser, start, tmp_path):
    server = start("-t", 2, "-m", "64", "--admin", "-1", "--image", tmp_path / "image")
    page = browser.open(url(server), 390)
    wait_for(page, "return document.querySelectorAll('#charts path[d^=M]').length", "figures")
    title = page.value("return document.title")
    server.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(page, "return document.body.classList.contains('stale')", "the page to turn grey")
        aged = "return /no answer for ([6-9]|[1-9][0-9]+) s/.test(document.title)"
        wait_for(page, aged, "the age in the title")
        assert "no answer" in page.value("return document.getElementById('condition').textContent")
        for what in (report.TOO_FAINT, report.TOO_WIDE, CLIPPED):
            assert page.value(what) == []
        keep("stale", page)
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_for(page, "return !document.body.classList.contains('stale')", "the page to live again")
    assert page.value("return document.title") == title
    points = "return document.querySelector('#charts path').getAttribute('d').split('L').length"
    before = page.value(points)
    assert server.ctl("restart").returncode == 0
    wait_for(page, EVENT % "restarted", "the restart")
    assert page.value(points) >= before
    page.close()


# The first request for history fails, and the question who is logged in has no answer until told otherwise.
FAULTS = """
const real = window.fetch;
[window.failed, window.hung, window.answers] = [0, 0, false];
window.fetch = (path, options = {}) => {
    if (path.startsWith('history') && !window.failed) {
        window.failed += 1;
        return Promise.resolve(new Response('', { status: 500 }));
    }
    if (path !== 'session' || window.answers) return real(path, options);
    window.hung += 1;
    return new Promise((_, reject) => {
        options.signal.addEventListener('abort', () => reject(options.signal.reason));
    });
};
"""


def test_a_request_that_fails_or_hangs_at_load_is_repeated(browser, start, tmp_path):
    (tmp_path / "users").write_text("ada:secret\n")
    server = serving(start, "-t", 2, "-m", "64", "--admin", "-1", "-Y", tmp_path / "users")
    until(lambda: Admin(server).json("/state")["last"] >= 1, "a sample")
    page = browser.open(url(server), 1280, script=FAULTS)
    condition = "document.getElementById('condition').textContent"
    wait_for(page, f"return {condition}.startsWith('ready')", "figures after the failure")
    assert page.value("return window.failed") == 1
    # The page goes on while the session is asked for, and turns grey without a server.
    wait_for(page, "return window.hung", "the question")
    before = page.value(f"return {condition}")
    wait_for(page, f"return {condition} !== '{before}' && {condition}.startsWith('ready')", "an update")
    server.process.send_signal(signal.SIGSTOP)
    try:
        wait_for(page, "return document.body.classList.contains('stale')", "the page to turn grey")
    finally:
        server.process.send_signal(signal.SIGCONT)
    wait_for(page, "return window.hung > 1", "the question to be asked again")
    page.value("window.answers = true; return 1")
    wait_for(page, "return document.querySelector('#controls .login') !== null", "the login")
    page.close()


def test_the_time_range_stays_when_the_page_is_loaded_again(browser, served):
    page = browser.open(url(served), 1280)
    chosen = "document.querySelector('input[name=range]:checked')?.value"
    assert page.value(f"return {chosen}") == "300"
    page.value("window.isOld = true; document.querySelector('input[value=\"3600\"]').click(); return 1")
    page.call("Page.reload")
    wait_for(page, f"return !window.isOld && {chosen} === '3600'", "the range")
    page.close()


def test_a_user_logs_in_and_changes_the_mode(browser, start, tmp_path):
    (tmp_path / "users").write_text("ada:secret\n")
    options = ("-t", 2, "-m", "64", "--admin", "-1", "--admin-files", tmp_path)
    server = serving(start, *options, "-Y", tmp_path / "users")
    page = browser.open(url(server), 1280)
    wait_for(page, "return document.querySelector('#controls .login') !== null", "the login")
    login = """
        const form = document.querySelector('#controls .login');
        form.user.value = 'ada'; form.password.value = arguments_; form.querySelector('button').click();
        return 1;"""
    page.value(login.replace("arguments_", "'wrong'"))
    wait_for(page, "return document.querySelector('.outcome.bad') !== null", "a refusal")
    page.value(login.replace("arguments_", "'secret'"))
    wait_for(page, "return document.querySelector('select[name=mode]') !== null", "the controls")
    assert page.value(CLIPPED) == [] and page.value(report.TOO_FAINT) == []
    page.value("const mode = document.querySelector('select[name=mode]'); mode.value = 'erew';"
               "mode.form.querySelector('button').click(); return 1")
    wait_for(page, "return document.querySelectorAll('.cells li.erew').length > 0", "the mode to change")
    wait_for(page, EVENT % "ada: mode erew: done", "the event")
    # Another page of the same browser is logged in as well; scripts do not see the cookie.
    assert page.value("return document.cookie") == ""
    again = browser.open(url(server), 390)
    wait_for(again, "return document.querySelector('select[name=mode]') !== null", "the controls")
    assert again.value(report.TOO_WIDE) == [] and again.value(CLIPPED) == []
    keep("controls", again)
    again.value("""
        [...document.querySelectorAll('button')].find((it) => it.textContent === 'Log out').click();
        return 1;""")
    wait_for(again, "return document.querySelector('#controls .login') !== null", "the login")
    again.close()
    page.close()
