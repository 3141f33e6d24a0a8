"""`micanite-lab report`, and what a page of it has to be like in a browser."""

import os
import subprocess

from harness.server import PROJECT
from harness.tools.programs import lab

RECORDED = PROJECT / "testdata/report.json"
TEXT_PX_MIN = 11


def run(*words, timeout, **variables):
    """Runs the report in the source tree, with these variables of the environment beside its own."""
    words = [lab(), "report", *map(str, words)]
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    return subprocess.run(
        words,
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment
    )


# The following scripts run in the browser. Each returns the faults, in words.

# Wider than the window, other than by scrolling within itself.
TOO_WIDE = """
const wrong = [], room = document.documentElement.clientWidth;
const wide = document.documentElement.scrollWidth;
if (wide > room) wrong.push(`the page is ${wide} wide in ${room}`);
for (const one of document.querySelectorAll('body *')) {
    if (one.closest('.wide') && !one.matches('.wide')) continue;
    const box = one.getBoundingClientRect();
    const outside = box.right > room + 1 || box.left < -1;
    if (box.width > 0 && outside) wrong.push(`${one.tagName} ${one.textContent.slice(0, 60)}`);
}
return wrong;
"""

# Text that is too small to read, as it is on the screen.
TOO_SMALL = f"""
const wrong = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {{
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || one.closest('script, style, title, desc')) continue;
    const svg = one.closest('svg');
    const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
    const size = parseFloat(getComputedStyle(one).fontSize) * scale;
    if (svg && scale === 0) continue;
    if (size < {TEXT_PX_MIN}) wrong.push(`${{size.toFixed(1)}} px: ${{one.textContent.slice(0, 60)}}`);
}}
return wrong;
"""

# Text and lines that are hard to tell from their ground.
TOO_FAINT = """
const wrong = new Set();
const channels = (colour) => {
    const [r, g, b, ...rest] = colour.replace('srgb', '').match(/[\\d.]+/g).map(Number);
    // A mixed colour has channels from 0 to 1.
    const most = colour.startsWith('color(') ? 255 : 1;
    return [r * most, g * most, b * most, ...rest];
};
const light = ([r, g, b]) => [r, g, b]
    .map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
};
const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
};
const check = (what, colour, below, least) => {
    const found = contrast(channels(colour), below);
    if (found < least) wrong.add(`${found.toFixed(2)}: ${what} (${colour} on ${below})`);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || one.closest('script, style, svg')) continue;
    check(one.textContent.trim().slice(0, 40), getComputedStyle(one).color, ground(one), 4.5);
}
for (const svg of document.querySelectorAll('svg.mf')) {
    const below = channels(getComputedStyle(svg.querySelector('.mf-ground')).fill);
    for (const text of svg.querySelectorAll('text'))
        check(text.textContent, getComputedStyle(text).fill, below, 4.5);
    const marks = '[class^=mf-]:not(.mf-ground, .mf-ink, .mf-grid, .mf-axis, .mf-one)';
    for (const mark of svg.querySelectorAll(marks))
        check(`series ${mark.getAttribute('class')}`, getComputedStyle(mark).color, below, 3);
}
return [...wrong];
"""

# Texts of figures over each other, or cut off.
IN_THE_WAY = """
const wrong = [];
for (const svg of document.querySelectorAll('svg.mf')) {
    const name = svg.querySelector('title').textContent.slice(0, 50);
    const view = svg.viewBox.baseVal, all = svg.getBoundingClientRect(), scale = all.width / view.width;
    const texts = [...svg.querySelectorAll('text')]
        .map((text) => [text.textContent, text.getBoundingClientRect()]);
    texts.forEach(([text, box], at) => {
        const across = [all.left - box.left, box.right - all.right];
        const outside = [...across, all.top - box.top, box.bottom - all.bottom];
        if (outside.some((by) => by > 1))
            wrong.push(`${name}: '${text}' is cut off`);
        for (const [other, there] of texts.slice(at + 1)) {
            const across = Math.min(box.right, there.right) - Math.max(box.left, there.left);
            const down = Math.min(box.bottom, there.bottom) - Math.max(box.top, there.top);
            // Boxes have room above and below the letters.
            if (across > 1 && down > 5 * scale) wrong.push(`${name}: '${text}' over '${other}'`);
        }
    });
}
return wrong;
"""

# Sections with nothing to see and no reason, headings out of order, figures that say nothing to who cannot
# see them.
INCOMPLETE = """
const wrong = [];
for (const one of document.querySelectorAll('main > section')) {
    const title = one.querySelector('h2')?.textContent;
    if (!title) wrong.push('a section has no heading');
    if (!one.querySelector('svg, table, .trouble, .note, ul li, pre, p'))
        wrong.push(`${title}: nothing to see`);
    if (one.querySelector('.question') && !one.querySelector('svg, table, .trouble, .note'))
        wrong.push(`${title}: no figure and no reason`);
    if (one.querySelector('.question') && !one.querySelector('pre code')) wrong.push(`${title}: no command`);
}
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const its = Number(heading.tagName[1]);
    if (its > level + 1) wrong.push(`${heading.textContent} is ${heading.tagName} after h${level}`);
    level = its;
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
for (const svg of document.querySelectorAll('svg')) {
    const words = ['title', 'desc'].map((name) => svg.querySelector(name).textContent);
    if (svg.getAttribute('role') !== 'img' || words.includes(''))
        wrong.push(`a figure has no description: ${svg.textContent.slice(0, 60)}`);
}
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
if (new Set(ids).size !== ids.length) wrong.push('an id is there twice');
return wrong;
"""

LINKS = "return [...document.querySelectorAll('a')].map((one) => [one.getAttribute('href'), one.download]);"
RAW = "return document.getElementById('raw-data').textContent;"
ANCHORS = "return [...document.querySelectorAll('[id]')].map((one) => one.id);"
