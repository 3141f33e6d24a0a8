//! Files that run or are included under their name: scripts, programs of tests in other languages, and C.

use std::collections::BTreeSet;

use super::unreached;
use crate::length::is_script;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

const NAMED: [&str; 5] = [".c", ".h", ".sh", ".php", ".rb"];

/// Scripts and sources whose name stands in no other file.
fn unmentioned(tree: &Tree) -> Vec<Offence> {
    let is_named = |path: &&str| is_script(path) || NAMED.iter().any(|ending| path.ends_with(ending));
    let is_entry = |path: &str| path == ".ci/run";
    let paths = || tree.paths().filter(is_named);
    let reached = paths().filter(|path| is_entry(path) || is_mentioned(tree, path));
    let reached: BTreeSet<String> = reached.map(str::to_string).collect();
    unreached(paths(), &reached, "no other file names it")
}

/// Returns whether another text names a file: one with an ending by its name, or by `"name"` alone; a script
/// with its folder, or behind a slash in a script beside it.
pub fn is_mentioned(tree: &Tree, path: &str) -> bool {
    let (folder, name) = (tree::folder(path), tree::name(path));
    let whole = format!("{}/{name}", tree::name(folder));
    let stem = name.rsplit_once('.').map(|(stem, _)| format!("\"{stem}\""));
    let mut texts = tree.texts().filter(|(other, _)| *other != path);
    texts.any(|(other, text)| match &stem {
        Some(stem) => has_word(text, name) || text.contains(stem),
        None => {
            has_word(text, &whole) || (tree::folder(other) == folder && has_word(text, &format!("/{name}")))
        }
    })
}

/// Returns whether `word` stands in a text, and not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + word.len()..].chars().next();
        let begins = word.starts_with('/') || !before.is_some_and(is_part);
        begins && !behind.is_some_and(is_part)
    })
}

#[test]
fn scripts_of_the_repository_are_named() {
    Verdict::of(&unmentioned(Tree::repository()), &[]).check();
}

#[test]
fn scripts_that_no_file_names_are_found() {
    let tree = Tree::of(&[
        (".ci/run", ""),
        ("Makefile", "a:\n\tscripts/deps build\n\tscripts/peer-new\n"),
        ("scripts/deps", "\"$(dirname \"$0\")/unpack\" x\n"),
        ("scripts/unpack", ""),
        ("scripts/peer", ""),
        ("scripts/lost", "scripts/lost\n"),
        ("bpf/port.c", "#include \"port.h\"\n"),
        ("bpf/port.h", ""),
        ("bpf/report.h", ""),
        ("build.rs", "compile(\"port.c\")\n"),
    ]);
    let places: Vec<_> = unmentioned(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["bpf/report.h", "scripts/lost", "scripts/peer"]);
}
