//! Lengths of lines and of files.

use super::exceptions::{LONG_FILES, LONG_LINES};
use super::markdown;
use super::tree::Tree;
use super::verdict::{Offence, Verdict};

const COLUMNS_MAX: usize = 110;
const FILE_LINES_MAX: usize = 400;
const SOURCES: [&str; 5] = [".rs", ".py", ".c", ".h", ".sh"];

/// Files with lines over [`COLUMNS_MAX`]; the size is their number.
///
/// Checked are sources, scripts, the Makefile and documents. Not counted are the help behind `##` of a target
/// of the Makefile; and of documents generated pages, tables, blocks of code and targets of links.
fn long_lines(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for (path, text) in tree.texts() {
        let is_source = SOURCES.iter().any(|ending| path.ends_with(ending)) || is_script(path);
        let lines = match path {
            "Makefile" => numbered(text, |line| line.split(" ## ").next().unwrap_or_default()),
            _ if path.ends_with(".md") => markdown::prose(text),
            _ if is_source => numbered(text, |line| line),
            _ => continue,
        };
        let long: Vec<String> = lines
            .into_iter()
            .filter(|(_, line)| line.chars().count() > COLUMNS_MAX)
            .map(|(number, _)| number.to_string())
            .collect();
        if !long.is_empty() {
            let what = format!("over {COLUMNS_MAX} columns in {}", list(&long));
            offences.push(Offence { place: path.to_string(), size: long.len(), what });
        }
    }
    offences
}

/// Files over [`FILE_LINES_MAX`] lines.
fn long_files(tree: &Tree) -> Vec<Offence> {
    let sources = tree.texts_ending(&SOURCES).map(|(path, text)| (path, text.lines().count()));
    let long = sources.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    let offence = |(path, size): (&str, usize)| {
        let what = format!("{size} lines, at most {FILE_LINES_MAX}: split it by subject");
        Offence { place: path.to_string(), size, what }
    };
    long.map(offence).collect()
}

/// Files without an ending that the shell or an interpreter runs.
pub fn is_script(path: &str) -> bool {
    path.starts_with("scripts/") || path.starts_with(".ci/")
}

fn numbered(text: &str, part: impl Fn(&str) -> &str) -> Vec<(usize, String)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, part(line).to_string())).collect()
}

fn list(numbers: &[String]) -> String {
    match numbers {
        [one] => format!("line {one}"),
        all => format!("lines {}", all.join(", ")),
    }
}

#[test]
fn lines_of_the_repository_are_short() {
    Verdict::of(&long_lines(Tree::repository()), LONG_LINES).check();
}

#[test]
fn files_of_the_repository_are_short() {
    Verdict::of(&long_files(Tree::repository()), LONG_FILES).check();
}

#[test]
fn lines_over_the_limit_are_found() {
    let (fits, long) = ("é".repeat(COLUMNS_MAX), "x".repeat(COLUMNS_MAX + 1));
    for path in ["src/a.rs", "a.py", "a.c", "a.h", "a.sh", "scripts/a", ".ci/run", "Makefile", "a.md"] {
        let text = format!("{fits}\n{long}\n");
        let offences = long_lines(&Tree::of(&[(path, &text), ("data.txt", &long)]));
        assert_eq!(offences.len(), 1, "{path}");
        assert_eq!(offences[0].what, "over 110 columns in line 2");
    }
}

#[test]
fn help_of_targets_may_be_long() {
    let text = format!("build: ## {}\n{}: ## help\n", "x".repeat(COLUMNS_MAX), "x".repeat(COLUMNS_MAX));
    assert_eq!(long_lines(&Tree::of(&[("Makefile", &text)]))[0].what, "over 110 columns in line 2");
}

#[test]
fn files_over_the_limit_are_found() {
    let (fits, long) = ("x\n".repeat(FILE_LINES_MAX), "x\n".repeat(FILE_LINES_MAX + 1));
    let tree = Tree::of(&[("a.rs", &fits), ("b.rs", &long), ("c.py", &long), ("d.txt", &long)]);
    let places: Vec<_> = long_files(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["b.rs", "c.py"]);
}
