//! Documents and figures: from the pages that a visitor sees first, by links.

use std::collections::BTreeSet;

use super::unreached;
use crate::markdown;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

const FIGURES: [&str; 2] = [".svg", ".png"];

/// Pages, and figures beside them, that no link reaches from the pages of the root.
fn unreached_pages(tree: &Tree) -> Vec<Offence> {
    let pages = || tree.paths().filter(|path| path.ends_with(".md"));
    let mut open: Vec<String> =
        pages().filter(|path| tree::folder(path).is_empty()).map(str::to_string).collect();
    let mut reached: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(page) = open.pop() {
        let lines = tree.text(&page).into_iter().flat_map(markdown::lines);
        for target in lines.flat_map(|line| markdown::targets(&line)) {
            let path = target.split('#').next().unwrap_or_default();
            let Some(path) = tree::join(tree::folder(&page), path) else {
                continue;
            };
            if tree.contains(&path) && reached.insert(path.clone()) && path.ends_with(".md") {
                open.push(path);
            }
        }
    }
    let is_shown = |path: &&str| path.ends_with(".md") || FIGURES.iter().any(|ending| path.ends_with(ending));
    let shown = tree.paths().filter(is_shown).filter(|path| !path.contains("/testdata/"));
    unreached(shown, &reached, "no page links to it")
}

#[test]
fn pages_of_the_repository_are_linked() {
    Verdict::of(&unreached_pages(Tree::repository()), &[]).check();
}

#[test]
fn pages_that_no_page_links_to_are_found() {
    let tree = Tree::of(&[
        ("README.md", "[a](docs/a.md#there)\n"),
        ("docs/a.md", "![shown](figures/a.svg)\n```\n[code](b.md)\n```\n"),
        ("docs/b.md", "[c](c.md)\n"),
        ("docs/c.md", "[b](b.md)\n"),
        ("docs/figures/a.svg", ""),
        ("docs/figures/b.svg", ""),
    ]);
    let places: Vec<_> = unreached_pages(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["docs/b.md", "docs/c.md", "docs/figures/b.svg"]);
}
