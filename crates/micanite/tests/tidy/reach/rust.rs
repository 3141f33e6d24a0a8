//! Rust: from the targets of Cargo by `mod`, `#[path]` and `include!`.

use std::collections::BTreeSet;

use super::unreached;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

/// Files that are no target and that no reached file names.
fn unreached_rust(tree: &Tree) -> Vec<Offence> {
    let mut open: Vec<String> =
        tree.paths().filter(|path| is_target(tree, path)).map(str::to_string).collect();
    let mut reached: BTreeSet<String> = open.iter().cloned().collect();
    while let Some(path) = open.pop() {
        for next in tree.text(&path).into_iter().flat_map(|text| named(tree, &path, text)) {
            if reached.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    let sources = tree.paths().filter(|path| path.ends_with(".rs"));
    unreached(sources, &reached, "no target of Cargo, and no `mod` names it")
}

/// Returns whether Cargo finds a file by its place, or by a `path` in the package's manifest.
fn is_target(tree: &Tree, path: &str) -> bool {
    let mut package = tree::folder(path);
    while !tree.contains(&format!("{package}/Cargo.toml")) && !package.is_empty() {
        package = tree::folder(package);
    }
    let Some(inside) = path.strip_prefix(package).map(|inside| inside.trim_start_matches('/')) else {
        return false;
    };
    let manifest = tree.text(&format!("{package}/Cargo.toml")).unwrap_or_default();
    if manifest.contains(&format!("path = \"{inside}\"")) {
        return true;
    }
    let parts: Vec<&str> = inside.split('/').collect();
    match parts[..] {
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
        ["src", "bin", file] | ["tests" | "examples" | "benches", file] => file.ends_with(".rs"),
        ["src", "bin", _, "main.rs"] | ["tests" | "examples" | "benches", _, "main.rs"] => true,
        _ => false,
    }
}

/// Files that a source names.
fn named(tree: &Tree, path: &str, source: &str) -> Vec<String> {
    let here = tree::folder(path);
    let is_root = matches!(tree::name(path), "mod.rs" | "lib.rs" | "main.rs") || is_target(tree, path);
    let below = if is_root { here } else { path.trim_end_matches(".rs") };
    let mut files = Vec::new();
    let mut given: Option<&str> = None;
    for line in source.lines().map(str::trim) {
        if let Some(file) = quoted_behind(line, "#[path = ") {
            given = Some(file);
        } else if let Some(file) = quoted_behind(line, "include!(") {
            files.extend(tree::join(here, file));
        } else if let Some(module) = module(line) {
            match given.take() {
                Some(file) => files.extend(tree::join(here, file)),
                None => {
                    files.extend(tree::join(below, &format!("{module}.rs")));
                    files.extend(tree::join(below, &format!("{module}/mod.rs")));
                }
            }
        }
    }
    files.into_iter().filter(|file| tree.contains(file)).collect()
}

/// The module that `mod name;` names, whoever may see it.
fn module(line: &str) -> Option<&str> {
    let name = line
        .strip_suffix(';')?
        .rsplit_once("mod ")
        .filter(|(before, _)| before.is_empty() || before.starts_with("pub") || before.starts_with("#["));
    name.map(|(_, name)| name.trim_start_matches("r#"))
}

fn quoted_behind<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(mark)?;
    rest.strip_prefix('"')?.split('"').next()
}

#[test]
fn sources_of_the_repository_are_reached() {
    Verdict::of(&unreached_rust(Tree::repository()), &[]).check();
}

#[test]
fn sources_that_no_module_names_are_found() {
    let tree = Tree::of(&[
        ("a/Cargo.toml", "[[bin]]\npath = \"drivers/run.rs\"\n"),
        ("a/build.rs", ""),
        ("a/drivers/run.rs", ""),
        ("a/drivers/other.rs", ""),
        (
            "a/src/lib.rs",
            "mod one;\npub(crate) mod two;\n#[path = \"two/given.rs\"]\nmod three;\n// mod lost;\n",
        ),
        ("a/src/one.rs", "mod inner;\ninclude!(\"part.rs\");\n"),
        ("a/src/one/inner.rs", ""),
        ("a/src/part.rs", ""),
        ("a/src/two/mod.rs", "#[cfg(test)]\nmod tests;\n"),
        ("a/src/two/tests.rs", ""),
        ("a/src/two/given.rs", ""),
        ("a/src/lost.rs", "mod kept_by_lost;\n"),
        ("a/src/kept_by_lost.rs", ""),
        ("a/tests/suite/main.rs", "mod part;\n"),
        ("a/tests/suite/part.rs", ""),
        ("a/tests/suite/lost.rs", ""),
        ("a/tests/single.rs", "mod common;\n"),
        ("a/tests/common/mod.rs", ""),
    ]);
    let places: Vec<_> = unreached_rust(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(
        places,
        ["a/drivers/other.rs", "a/src/kept_by_lost.rs", "a/src/lost.rs", "a/tests/suite/lost.rs"]
    );
}
