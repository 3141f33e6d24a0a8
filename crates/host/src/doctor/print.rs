//! A report as text of a hundred columns.

use std::fmt::Write;

use super::report::{Report, State};

/// The width of a line.
const COLUMNS: usize = 100;
/// Column where the text of findings begins.
const INDENT: usize = 12;

/// The text.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    for section in &report.sections {
        line(&mut text, &section.title);
        for finding in &section.findings {
            let mark = format!("  {:<10}", mark(finding.state));
            wrap(&mut text, &mark, &finding.text);
            for command in &finding.commands {
                line(&mut text, &format!("{:INDENT$}-> {command}", ""));
            }
        }
        line(&mut text, "");
    }
    let verdict = &report.verdict;
    wrap(&mut text, "verdict:    ", &verdict.text);
    if !verdict.recipe.is_empty() {
        line(&mut text, "");
    }
    for step in &verdict.recipe {
        line(&mut text, &format!("{:INDENT$}{step}", ""));
    }
    text
}

const fn mark(state: State) -> &'static str {
    match state {
        State::Fine => "ok",
        State::Note => "note",
        State::Better => "better",
        State::Missing => "MISSING",
        State::Impossible => "NO",
    }
}

/// Writes words behind a mark, broken where a line is full.
fn wrap(text: &mut String, mark: &str, words: &str) {
    let mut current = mark.to_owned();
    let mut empty = true;
    for word in words.split_whitespace() {
        if !empty && current.len() + 1 + word.chars().count() > COLUMNS {
            line(text, &current);
            current = " ".repeat(INDENT);
            empty = true;
        }
        if !empty {
            current.push(' ');
        }
        current.push_str(word);
        empty = false;
    }
    line(text, &current);
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", line.trim_end());
}
