//! Lengths of functions, by the indentation that formatted code has.

use crate::exceptions::LONG_FUNCTIONS;
use crate::tree::Tree;
use crate::verdict::{Offence, Verdict};

const FUNCTION_LINES_MAX: usize = 80;

/// Functions over [`FUNCTION_LINES_MAX`] lines, of Rust and of Python.
fn long_functions(tree: &Tree) -> Vec<Offence> {
    let rust = tree.texts_ending(&[".rs"]).map(|(path, text)| (path, rust_functions(text)));
    let python = tree.texts_ending(&[".py"]).map(|(path, text)| (path, python_functions(text)));
    let mut offences = Vec::new();
    for (path, functions) in rust.chain(python) {
        for (name, lines) in functions {
            if lines > FUNCTION_LINES_MAX {
                let what = format!("{lines} lines, at most {FUNCTION_LINES_MAX}");
                offences.push(Offence { place: format!("{path}: {name}"), size: lines, what });
            }
        }
    }
    offences
}

/// Names and lengths. A function ends at the brace that stands as far to the right as it began.
fn rust_functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = rust_name(line.trim_start()) else {
            continue;
        };
        let is_end = |line: &&str| match line.trim_start() {
            rest if rest.starts_with('}') => true,
            rest => rest.starts_with(')') && rest.ends_with(';'),
        };
        let is_whole = line.ends_with(';') || line.ends_with('}');
        let behind = lines[at + 1..].iter().take_while(|_| !is_whole);
        let end = behind.clone().position(|other| indentation(other) == indentation(line) && is_end(other));
        functions.push((name, end.map_or(1, |end| end + 2)));
    }
    functions
}

/// The name, if a line begins a function.
fn rust_name(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "pub" | "const" | "async" | "unsafe" | "extern" | "default")
            || word.starts_with('"')
            || word.starts_with("pub(")
            || (word.ends_with(')') && before.starts_with("pub(in "))
    };
    let name = rest.split(['(', '<']).next()?;
    before.split_whitespace().all(is_qualifier).then_some(name)
}

/// Names and lengths. A function ends before the next line that is indented no further than its `def`.
fn python_functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<(&str, bool)> = marked_strings(text);
    let mut functions = Vec::new();
    for (at, (line, in_string)) in lines.iter().enumerate() {
        let start = line.trim_start();
        let name = start.strip_prefix("def ").or_else(|| start.strip_prefix("async def "));
        let Some(name) = name.filter(|_| !in_string) else {
            continue;
        };
        let is_inside = |(other, in_string): &(&str, bool)| {
            let is_signature = other.trim_start().starts_with(')');
            *in_string || other.trim().is_empty() || is_signature || indentation(other) > indentation(line)
        };
        let body: Vec<_> = lines[at + 1..].iter().take_while(|line| is_inside(line)).collect();
        let blank = body.iter().rev().take_while(|(line, _)| line.trim().is_empty()).count();
        functions.push((name.split('(').next().unwrap_or(name), 1 + body.len() - blank));
    }
    functions
}

/// Lines, and whether each begins inside of a string of several lines.
fn marked_strings(text: &str) -> Vec<(&str, bool)> {
    let mut open: Option<&str> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push((line, open.is_some()));
        let mut rest = line;
        loop {
            let next = match open {
                Some(quotes) => rest.find(quotes).map(|at| (at, quotes)),
                None => ["\"\"\"", "'''"].into_iter().filter_map(|q| Some((rest.find(q)?, q))).min(),
            };
            let Some((at, quotes)) = next else {
                break;
            };
            open = if open.is_some() { None } else { Some(quotes) };
            rest = &rest[at + quotes.len()..];
        }
    }
    lines
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn functions_of_the_repository_are_short() {
    Verdict::of(&long_functions(Tree::repository()), LONG_FUNCTIONS).check();
}

#[test]
fn functions_over_the_limit_are_found() {
    let rust =
        |body: usize| format!("impl A {{\n    fn long() {{\n{}    }}\n}}\n", "        x();\n".repeat(body));
    let python = |body: usize| format!("def long():\n{}\n\nlast = 1\n", "    x()\n".repeat(body));
    let (most, least) = (FUNCTION_LINES_MAX - 2, FUNCTION_LINES_MAX - 1);
    let tree = Tree::of(&[
        ("a.rs", &rust(most)),
        ("b.rs", &rust(least)),
        ("a.py", &python(least)),
        ("b.py", &python(FUNCTION_LINES_MAX)),
    ]);
    let places: Vec<_> = long_functions(&tree).into_iter().map(|offence| offence.place).collect();
    assert_eq!(places, ["b.rs: long", "b.py: long"]);
}

#[test]
fn functions_of_rust_end_at_their_brace() {
    let text = "pub(crate) async unsafe fn a(\n    b: u8,\n) -> u8 {\n    if b {\n    }\n}\n\nfn c() {}\n\
                trait D {\n    fn e(\n        f: u8,\n    );\n    fn g();\n}\n\
                // fn h()\nlet x = |fn_y| fn_y;\n";
    assert_eq!(rust_functions(text), [("a", 6), ("c", 1), ("e", 3), ("g", 1)]);
}

#[test]
fn functions_of_python_end_before_the_next_line_as_far_left() {
    let text = "def a(\n    b,\n):\n    \"\"\"Text\ndef no():\n\"\"\"\n    return 1\n\n\nclass C:\n    \
                async def d(self):\n        pass\n\n    e = 1\n";
    assert_eq!(python_functions(text), [("a", 7), ("d", 2)]);
}
