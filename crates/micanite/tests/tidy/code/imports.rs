//! Imports between the modules at the root of a crate: they go one way.

use std::collections::{BTreeMap, BTreeSet};

use crate::exceptions::CIRCLES;
use crate::tree::Tree;
use crate::verdict::{Offence, Verdict};

/// Pairs of modules at the root of a crate that import each other; what is compiled for tests alone does not
/// count.
fn circles(tree: &Tree) -> Vec<Offence> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in tree.texts_ending(&[".rs"]) {
        let (name, inside) = split(path).unwrap_or_default();
        if !name.is_empty() {
            crates.entry(name).or_default().push((inside, text));
        }
    }
    let mut offences = Vec::new();
    for (name, files) in crates {
        let imports = imports(&files);
        let is_circle = |(from, to): &&(&str, &str)| from < to && imports.contains(&(to, from));
        offences.extend(imports.iter().filter(is_circle).map(|(one, other)| Offence {
            place: format!("crates/{name}: {one}, {other}"),
            size: 1,
            what: "they import each other: move what both need below them".to_string(),
        }));
    }
    offences
}

/// The crate of a source, and its path in there.
fn split(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("crates/")?.split_once("/src/")
}

/// The module at the root that a file belongs to; none of a root, and of tests.
fn module(inside: &str) -> Option<&str> {
    let is_of_tests = |part: &str| {
        let name = part.trim_end_matches(".rs");
        matches!(name, "tests" | "testing") || name.ends_with("_tests")
    };
    let first = inside.split('/').next()?.trim_end_matches(".rs");
    (!matches!(first, "lib" | "main") && !inside.split('/').any(is_of_tests)).then_some(first)
}

/// Pairs of modules of a crate, of which the first imports the second.
fn imports<'t>(files: &[(&'t str, &'t str)]) -> BTreeSet<(&'t str, &'t str)> {
    let modules: BTreeSet<&str> = files.iter().filter_map(|(inside, _)| module(inside)).collect();
    let root = files.iter().find(|(inside, _)| matches!(*inside, "lib.rs" | "main.rs"));
    let reexported = root.map(|(_, text)| reexported(text, &modules)).unwrap_or_default();
    let mut imports = BTreeSet::new();
    for (inside, text) in files {
        let Some(from) = module(inside) else {
            continue;
        };
        for name in named(&without_tests(text)) {
            let to = modules.get(name).or_else(|| reexported.get(name));
            if let Some(to) = to.filter(|to| **to != from) {
                imports.insert((from, *to));
            }
        }
    }
    imports
}

/// Names that the root of a crate takes from its modules.
fn reexported<'t>(root: &'t str, modules: &BTreeSet<&'t str>) -> BTreeMap<&'t str, &'t str> {
    let mut names = BTreeMap::new();
    for part in root.split("use ").skip(1) {
        let path = part.split(';').next().unwrap_or_default();
        let mut words = path.split(|letter: char| !is_of_name(letter)).filter(|word| !word.is_empty());
        let Some(module) = words.next().and_then(|first| modules.get(first)) else {
            continue;
        };
        names.extend(words.map(|word| (word, *module)));
    }
    names
}

/// A source without comments, and without items that are compiled for tests alone.
fn without_tests(text: &str) -> String {
    let indentation = |line: &str| line.len() - line.trim_start().len();
    // The indentation of the item that is left out.
    let mut left_out: Option<usize> = None;
    let is_kept = |line: &&str| {
        let start = line.trim_start();
        if let Some(column) = left_out {
            if indentation(line) == column && (start.ends_with(';') || start.ends_with('}')) {
                left_out = None;
            }
            return false;
        }
        if start.starts_with("#[cfg(test") || start.starts_with("#[cfg(all(test") {
            left_out = Some(indentation(line));
            return false;
        }
        !start.starts_with("//")
    };
    text.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// Names that a source takes from the root of its crate: `crate::name`, `crate::{name, name::other}`.
fn named(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, word) in text.match_indices("crate::") {
        if text[..at].ends_with(is_of_name) {
            continue;
        }
        let rest = &text[at + word.len()..];
        match rest.strip_prefix('{') {
            Some(list) => names.extend(listed(list)),
            None => names.extend(rest.split(|letter| !is_of_name(letter)).next()),
        }
    }
    names
}

/// The first names of the paths in a list, up to its closing brace.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    let counted = |depth: &mut i32, letter: char| match letter {
        '{' => *depth += 1,
        '}' => *depth -= 1,
        _ => {}
    };
    let (mut depth, mut inner) = (0, 0);
    let end = list.find(|letter| {
        counted(&mut depth, letter);
        depth < 0
    });
    let parts = list[..end.unwrap_or(list.len())].split(move |letter| {
        counted(&mut inner, letter);
        letter == ',' && inner == 0
    });
    parts.filter_map(|part| part.trim().split(|letter| !is_of_name(letter)).next())
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[test]
fn modules_of_the_repository_import_one_way() {
    Verdict::of(&circles(Tree::repository()), CIRCLES).check();
}

#[test]
fn modules_that_import_each_other_are_found() {
    let found = |files: &[(&str, &str)]| {
        circles(&Tree::of(files)).into_iter().map(|offence| offence.place).collect::<Vec<_>>()
    };
    let one = ("crates/x/src/a/b.rs", "use crate::c::D;\n");
    assert_eq!(found(&[one, ("crates/x/src/c.rs", "use crate::d::A;\n")]), [""; 0]);
    let both = ["crates/x: a, c"];
    assert_eq!(found(&[one, ("crates/x/src/c.rs", "fn f() -> crate::a::A {\n")]), both);
    // By a name that the root takes from the module.
    let root = ("crates/x/src/lib.rs", "mod a;\nmod c;\n\npub use a::{b::B,\n    A};\n");
    assert_eq!(found(&[one, root, ("crates/x/src/c.rs", "use crate::A;\n")]), both);
    let list = ("crates/x/src/c.rs", "use crate::{d::{A, B}, a::A,\n    e};\n");
    assert_eq!(found(&[one, list]), both);
    let list = ("crates/x/src/c.rs", "use crate::{d::{a, c}, e};\nstruct A { a: A }\n");
    assert_eq!(found(&[one, list]), [""; 0]);
    // Another crate's module, and what is for tests.
    assert_eq!(found(&[one, ("crates/y/src/c.rs", "use crate::a::A;\n")]), [""; 0]);
    let inside = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n\nfn f() {}\n";
    assert_eq!(found(&[one, ("crates/x/src/c.rs", inside)]), [""; 0]);
    assert_eq!(found(&[one, ("crates/x/src/c/tests.rs", "use crate::a::A;\n")]), [""; 0]);
    let behind = "#[cfg(test)]\nuse crate::d::D;\nuse crate::a::A;\n";
    assert_eq!(found(&[one, ("crates/x/src/c.rs", behind)]), both);
    assert_eq!(found(&[one, ("crates/x/src/c.rs", "// crate::a\nuse micrate::a::A;\n")]), [""; 0]);
}
