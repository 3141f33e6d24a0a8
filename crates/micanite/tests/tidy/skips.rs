//! Tests that cannot run say so in one way, so that the totals count them (`scripts/test/totals`).

use super::tree::Tree;
use super::verdict::{Offence, Verdict};

/// The way of Rust. Tests in Python call `pytest.skip`.
const HELPER: &str = "crates/test-skip/src/lib.rs";
const PRINTS: [&str; 3] = ["println!(", "print!(", "print("];
const WORD: &str = "skipped";

/// Prints of the word in Rust and in the tests in Python, and tests that libtest ignores.
fn silent_skips(tree: &Tree) -> Vec<Offence> {
    let is_checked = |path: &str| {
        path.ends_with(".rs") && path != HELPER || path.starts_with("tests/") && path.ends_with(".py")
    };
    let mut offences = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_checked(path)) {
        let printed = PRINTS.iter().flat_map(|print| text.split(print).skip(1));
        let prints = printed.filter(|behind| first_string(behind).contains(WORD)).count();
        let ignores = text.lines().filter(|line| line.trim_start().starts_with("#[ignore")).count();
        if prints + ignores > 0 {
            let what =
                "a skip that the totals do not see: call micanite_test_skip::skip or pytest.skip".into();
            offences.push(Offence { place: path.to_string(), size: prints + ignores, what });
        }
    }
    offences
}

/// Returns the string that begins a list of arguments, or nothing.
fn first_string(arguments: &str) -> &str {
    let string = arguments.trim_start().trim_start_matches('f').strip_prefix('"');
    string.and_then(|string| string.split('"').next()).unwrap_or_default()
}

#[test]
fn tests_that_cannot_run_are_counted() {
    let tree = Tree::repository();
    assert!(tree.contains(HELPER));
    Verdict::of(&silent_skips(tree), &[]).check();
}

#[test]
fn skips_that_nobody_counts_are_found() {
    let tree = Tree::of(&[
        ("crates/a/tests/one_line.rs", "eprintln!(\"skipped: no root\");"),
        ("crates/a/src/several_lines.rs", "println!(\n    \"{name} skipped: {why}\",\n    why = 1,\n);"),
        ("crates/a/tests/ignored.rs", "    #[ignore = \"slow\"]\n    #[test]\n    fn a() {}"),
        ("crates/a/tests/good.rs", "skip(\"no root\"); println!(\"done\"); let skipped = \"skipped\";"),
        (HELPER, "println!(\"skipped: {test}\");"),
        ("tests/test_a.py", "print(f\"skipped: {why}\")"),
        ("tests/test_good.py", "pytest.skip(\"no root\")"),
        ("scripts/a.py", "print(\"skipped: x\")"),
    ]);
    let places: Vec<_> = silent_skips(&tree).into_iter().map(|offence| offence.place).collect();
    let expected = [
        "crates/a/src/several_lines.rs",
        "crates/a/tests/ignored.rs",
        "crates/a/tests/one_line.rs",
        "tests/test_a.py",
    ];
    assert_eq!(places, expected);
}
