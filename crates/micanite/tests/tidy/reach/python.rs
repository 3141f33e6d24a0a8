//! Python: tests by pytest, other files by an import or by their name.

use std::collections::BTreeSet;

use super::mentions::is_mentioned;
use super::unreached;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

/// Modules that are no tests, that no other module imports, and that no file names.
fn unreached_python(tree: &Tree) -> Vec<Offence> {
    let modules = || tree.texts_ending(&[".py"]);
    let is_test = |path: &str| {
        let name = tree::name(path);
        name.starts_with("test_") || matches!(name, "conftest.py" | "__init__.py")
    };
    let is_imported = |path: &str| {
        let module = tree::name(path).trim_end_matches(".py");
        modules().any(|(other, text)| other != path && text.lines().any(|line| imports(line, module)))
    };
    let reached = |path: &&str| is_test(path) || is_imported(path) || is_mentioned(tree, path);
    let reached: BTreeSet<String> =
        modules().map(|(path, _)| path).filter(reached).map(str::to_string).collect();
    unreached(modules().map(|(path, _)| path), &reached, "no module imports it, and no file names it")
}

/// Returns whether a line imports a module, from any package.
fn imports(line: &str, module: &str) -> bool {
    let line = line.trim_start();
    let words = || line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    (line.starts_with("import ") || line.starts_with("from ")) && words().any(|word| word == module)
}

#[test]
fn modules_of_the_repository_are_imported() {
    Verdict::of(&unreached_python(Tree::repository()), &[]).check();
}

#[test]
fn modules_that_nobody_imports_are_found() {
    let tree = Tree::of(&[
        ("tests/test_a.py", "from harness.used import thing\nfrom .near import other\n"),
        ("tests/near.py", "import used_by_near\n"),
        ("tests/used_by_near.py", ""),
        ("tests/harness/used.py", "# import lost\n"),
        ("tests/harness/lost.py", "import lost\n"),
        ("tests/bench_b.py", ""),
        ("Makefile", "python tests/bench_b.py\n"),
    ]);
    let places: Vec<_> = unreached_python(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["tests/harness/lost.py"]);
}
