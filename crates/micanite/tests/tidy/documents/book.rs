//! `docs/SUMMARY.md`, the table of contents of the site, has every page of `docs/` once.

use std::collections::BTreeMap;

use crate::markdown;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages of `docs/` that the table of contents lacks, or has twice.
fn misplaced_pages(tree: &Tree) -> Vec<Offence> {
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    let lines = tree.text(SUMMARY).map(markdown::lines).unwrap_or_default();
    for target in lines.iter().flat_map(markdown::targets) {
        *listed.entry(tree::join("docs", &target).unwrap_or_default()).or_default() += 1;
    }
    let pages = tree.paths().filter(|path| path.starts_with("docs/") && path.ends_with(".md"));
    let offence = |page: &str| {
        let times = listed.get(page).copied().unwrap_or_default();
        let what = format!("{SUMMARY} has it {times} times, not once");
        (times != 1).then(|| Offence { place: page.to_string(), size: 1, what })
    };
    pages.filter_map(offence).collect()
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    Verdict::of(&misplaced_pages(Tree::repository()), &[]).check();
}

#[test]
fn pages_that_the_table_of_contents_lacks_or_repeats_are_found() {
    let summary = "[a](a.md)\n- [b](b/b.md)\n- [b](b/b.md)\n- [all](SUMMARY.md)\n[root](../README.md)\n";
    let names =
        [(SUMMARY, summary), ("docs/a.md", ""), ("docs/b/b.md", ""), ("docs/c.md", ""), ("README.md", "")];
    let places: Vec<_> =
        misplaced_pages(&Tree::of(&names)).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["docs/b/b.md", "docs/c.md"]);
}
