//! The workspace of the benchmarks compiles what the main one does: versions, lints and profiles.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Tree;
use super::verdict::{Offence, Verdict};

const FOLDER: &str = "bench/";
/// Tables of the main manifest, and those that repeat their lines.
const REPEATED: [(&str, &str); 5] = [
    ("workspace.package", "package"),
    ("workspace.lints.rust", "lints.rust"),
    ("workspace.lints.clippy", "lints.clippy"),
    ("profile.release", "profile.release"),
    ("profile.dev", "profile.dev"),
];

/// Lines of the main manifest that the other lacks, and packages that the locks have in different versions
/// only: a peer may bring another one beside that of the main workspace.
fn differences(tree: &Tree) -> Vec<Offence> {
    let texts =
        |name: &str| ["", FOLDER].map(|folder| tree.text(&format!("{folder}{name}")).unwrap_or_default());
    let offence = |name: &str, what| Offence { place: format!("{FOLDER}{name}"), size: 1, what };
    let [main, bench] = texts("Cargo.toml");
    let mut offences = Vec::new();
    for (table, copy) in REPEATED {
        let there = lines(bench, copy);
        let missing = lines(main, table).into_iter().filter(|line| !there.contains(line));
        offences.extend(missing.map(|line| offence("Cargo.toml", format!("[{copy}] lacks {line}"))));
    }
    let [main, bench] = texts("Cargo.lock").map(versions);
    for (package, versions) in bench {
        if let Some(ours) = main.get(package)
            && versions.is_disjoint(ours)
        {
            let what = format!("{package} is {versions:?}, in the main workspace {ours:?}");
            offences.push(offence("Cargo.lock", what));
        }
    }
    offences
}

/// Lines of a table without comments.
fn lines<'t>(manifest: &'t str, table: &str) -> Vec<&'t str> {
    let header = format!("[{table}]");
    let behind = manifest.lines().skip_while(|line| *line != header).skip(1);
    let lines = behind.take_while(|line| !line.starts_with('['));
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).collect()
}

/// The versions of each package in a lock.
fn versions(lock: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]\n").skip(1) {
        let value = |key: &str| package.lines().find_map(|line| line.strip_prefix(key)?.strip_suffix('"'));
        if let (Some(name), Some(version)) = (value("name = \""), value("version = \"")) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions
}

#[test]
fn the_benchmarks_compile_what_the_main_workspace_does() {
    let tree = Tree::repository();
    assert!(REPEATED.iter().all(|(table, _)| !lines(tree.text("Cargo.toml").unwrap(), table).is_empty()));
    Verdict::of(&differences(tree), &[]).check();
}

#[test]
fn differences_of_workspaces_are_found() {
    let package =
        |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n");
    let tree = Tree::of(&[
        (
            "Cargo.toml",
            "[workspace.package]\n# A comment.\nedition = 1 # the last\n\n[profile.dev]\nopt = 1\n",
        ),
        ("bench/Cargo.toml", "[package]\nname = 1\nedition = 1\n[profile.dev]\nopt = 2\n"),
        (
            "Cargo.lock",
            &[package("a", "1"), package("b", "1"), package("b", "2"), package("c", "1")].concat(),
        ),
        ("bench/Cargo.lock", &[package("a", "2"), package("b", "2"), package("d", "1")].concat()),
    ]);
    let found: Vec<String> = differences(&tree).into_iter().map(|offence| offence.what).collect();
    assert_eq!(found, ["[profile.dev] lacks opt = 1", "a is {\"2\"}, in the main workspace {\"1\"}"]);
}
