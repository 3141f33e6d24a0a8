//! Sizes of committed files.

use super::tree::Tree;
use super::verdict::{Offence, Verdict};

const BYTES_MAX: u64 = 256 << 10;

/// Files over [`BYTES_MAX`].
fn large_files(tree: &Tree) -> Vec<Offence> {
    let large = tree.bytes().filter(|(_, bytes)| *bytes > BYTES_MAX);
    let offence = |(path, bytes): (&str, u64)| {
        let what = format!("{bytes} bytes, at most {BYTES_MAX}: keep raw data out of the tree");
        Offence { place: path.to_string(), size: bytes as usize, what }
    };
    large.map(offence).collect()
}

#[test]
fn files_of_the_repository_are_small() {
    Verdict::of(&large_files(Tree::repository()), &[]).check();
}

#[test]
fn files_over_the_limit_are_found() {
    let (fits, large) = ("x".repeat(BYTES_MAX as usize), "x".repeat(BYTES_MAX as usize + 1));
    let offences = large_files(&Tree::of(&[("a.json", &fits), ("b.json", &large)]));
    assert_eq!(offences.iter().map(|offence| offence.place.as_str()).collect::<Vec<_>>(), ["b.json"]);
}
