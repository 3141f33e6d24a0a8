#!/usr/bin/env python3
"""Checks the links of a site of HTML pages: each relative one leads to a file, and to an anchor in it.

    docs/site/check.py DIRECTORY
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PRINTED_MAX = 20
# Pages of mdBook that repeat others, or are shown at any address.
WITHOUT_PLACE = ("print.html", "404.html", "toc.html")


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value and tag != "link" and tag != "base":
                self.links.append(value)


def dead_links(site):
    """Yields a sentence for each link that leads nowhere."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name in WITHOUT_PLACE:
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.relative_to(site)}: {link}: no such file"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link}: no such anchor"


def main():
    """Ends with status 1 if there are dead links, or no pages."""
    site = Path(sys.argv[1]).resolve()
    pages = sum(1 for _ in site.rglob("*.html"))
    dead = list(dead_links(site))
    for line in dead[:PRINTED_MAX]:
        print(f"docs: {line}", file=sys.stderr)
    if dead or pages == 0:
        sys.exit(f"docs: {len(dead)} dead links in {pages} pages")


if __name__ == "__main__":
    main()
