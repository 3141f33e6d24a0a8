//! Entries of folders.

use std::collections::{BTreeMap, BTreeSet};

use super::exceptions::{FLAT_FOLDERS, FULL_FOLDERS};
use super::tree::Tree;
use super::verdict::{Offence, Verdict};

const ENTRIES_MAX: usize = 15;
/// Files that nobody reads one by one.
const DATA: [&str; 2] = [".svg", ".png"];

/// Folders with more than [`ENTRIES_MAX`] entries. Test data and figures do not count.
fn full_folders(tree: &Tree) -> Vec<Offence> {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let is_data = |path: &str| {
        path.split('/').any(|part| part == "testdata") || DATA.iter().any(|ending| path.ends_with(ending))
    };
    for path in tree.paths().filter(|path| !is_data(path)) {
        let mut folder = "";
        for end in path.match_indices('/').map(|(end, _)| end).chain([path.len()]) {
            entries.entry(folder).or_default().insert(&path[..end]);
            folder = &path[..end];
        }
    }
    let full = entries.into_iter().filter(|(_, entries)| entries.len() > ENTRIES_MAX);
    let offence = |(folder, entries): (&str, BTreeSet<&str>)| {
        let place = if folder.is_empty() { "." } else { folder };
        let what = format!("{} entries, at most {ENTRIES_MAX}: group them by subject", entries.len());
        Offence { place: place.to_string(), size: entries.len(), what }
    };
    full.map(offence).collect()
}

#[test]
fn folders_of_the_repository_have_few_entries() {
    let mut full = full_folders(Tree::repository());
    for (flat, reason) in FLAT_FOLDERS {
        assert!(!reason.is_empty(), "{flat}: a flat folder needs a reason");
        let before = full.len();
        full.retain(|offence| offence.place != *flat);
        assert_eq!(full.len() + 1, before, "{flat} ({reason}) has few entries: remove it from the list");
    }
    Verdict::of(&full, FULL_FOLDERS).check();
}

#[test]
fn folders_over_the_limit_are_found() {
    let names =
        |folder: &str, count: usize| (0..count).map(|n| format!("{folder}/{n}.rs")).collect::<Vec<_>>();
    let mut paths = names("a/src", ENTRIES_MAX);
    paths.extend(names("b/src", ENTRIES_MAX));
    paths.push("b/src/folder/file.rs".to_string());
    paths.extend(names("c/testdata", ENTRIES_MAX + 1));
    let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
    let places: Vec<_> = full_folders(&Tree::of(&files)).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["b/src"]);
}
