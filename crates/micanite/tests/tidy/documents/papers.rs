//! `docs/papers.md`: its commands are understood, and its figures stand where their links lead. So do those
//! of the README.
//!
//! `benchmarks.rs` checks the commands of the benchmarks, and `bench/tests/papers.rs` runs their parser.

use clap::Parser;
use micanite_command::CommandLine;

use crate::markdown;
use crate::tree::{self, Tree};
use crate::verdict::{Offence, Verdict};

const PAGE: &str = "docs/papers.md";
/// Pages that repeat figures of other pages, in the texts of links.
const FIGURED: [&str; 2] = [PAGE, "README.md"];

/// Lines of a page, with their numbers; none if there is no page.
fn lines<'t>(tree: &'t Tree, page: &str) -> Vec<markdown::Line<'t>> {
    tree.text(page).map(markdown::lines).unwrap_or_default()
}

fn offence(page: &str, number: usize, what: &str) -> Offence {
    Offence { place: page.to_string(), size: 1, what: format!("line {number}: {what}") }
}

/// Commands that `make` or `micanite` would refuse.
fn refused_commands(tree: &Tree) -> Vec<Offence> {
    let makefile = tree.text("Makefile").unwrap_or_default();
    let mut offences = Vec::new();
    for line in lines(tree, PAGE) {
        for command in &line.code {
            let words = words(command);
            let refusal = match words[..] {
                ["make", target, ..] => (!has_target(makefile, target)).then(|| "no such target".to_string()),
                ["micanite", ..] => CommandLine::try_parse_from(words).err().map(|error| error.to_string()),
                _ => None,
            };
            offences.extend(refusal.map(|why| offence(PAGE, line.number, &format!("`{command}`: {why}"))));
        }
    }
    offences
}

/// Words of a command; what stands between quotes is one word.
pub fn words(command: &str) -> Vec<&str> {
    let parts = command.split('"').enumerate();
    let words = parts.flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

fn has_target(makefile: &str, target: &str) -> bool {
    makefile.lines().any(|line| line.strip_prefix(target).is_some_and(|rest| rest.starts_with(':')))
}

/// Links whose text has digits that the linked section of our documents does not have.
fn stale_figures(tree: &Tree) -> Vec<Offence> {
    let mut offences = Vec::new();
    for page in FIGURED {
        for line in lines(tree, page) {
            for (text, target) in links(&line.outside) {
                let is_figure = text.chars().any(|letter| letter.is_ascii_digit());
                if is_figure && !section(tree, page, target).is_some_and(|section| section.contains(text)) {
                    let what = format!("{target} does not have \"{text}\"");
                    offences.push(offence(page, line.number, &what));
                }
            }
        }
    }
    offences
}

/// Texts and targets of links.
fn links(line: &str) -> Vec<(&str, &str)> {
    let link = |(at, _): (usize, &str)| {
        let text = line[..at].rsplit_once('[')?.1;
        let target = line[at + 2..].split_once(')')?.0;
        Some((text, target))
    };
    line.match_indices("](").filter_map(link).collect()
}

/// The text of a linked section, up to the next heading of its level or above, with single spaces between its
/// words. The whole page if the link has no anchor.
fn section(tree: &Tree, page: &str, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let text = tree.text(&tree::join(tree::folder(page), path)?)?;
    let mut level = 0;
    let mut lines = Vec::new();
    for (_, line) in markdown::outside_code(text) {
        let depth = line.bytes().take_while(|byte| *byte == b'#').count();
        if depth > 0 && (level == 0 || depth <= level) {
            level = if markdown::anchors(line).iter().any(|known| known == anchor) { depth } else { 0 };
        }
        if level > 0 || anchor.is_empty() {
            lines.extend(line.split_whitespace());
        }
    }
    Some(lines.join(" "))
}

#[test]
fn commands_of_the_papers_are_understood() {
    Verdict::of(&refused_commands(Tree::repository()), &[]).check();
}

#[test]
fn repeated_figures_stand_where_they_are_measured() {
    Verdict::of(&stale_figures(Tree::repository()), &[]).check();
}

#[test]
fn refused_commands_are_found() {
    let page = "`make bench ARGS=\"--only x\"` `micanite plan paper` `micanite ctl mode crew`\n\
                `make nothing` `micanite-lab nothing`\n`micanite plan --nothing`\n`micanite nothing`\n\
                `micanite load \"native://here\" --fill` `micanite load native://here two words`\n";
    let tree = Tree::of(&[(PAGE, page), ("Makefile", "bench: build ## help\n\tmake nothing\nbuild:\n")]);
    let found: Vec<String> = refused_commands(&tree).into_iter().map(|offence| offence.what).collect();
    let begin = |what: &String| what.split(": ").next().unwrap().to_string();
    assert_eq!(found.iter().map(begin).collect::<Vec<_>>(), ["line 2", "line 3", "line 4", "line 5"]);
}

#[test]
fn stale_figures_are_found() {
    let page = "[1.5 (1 .. 2)](b.md#there) [a word](b.md#there) [12 %](b.md#deeper) [7](b.md)\n\
                [1.6](b.md#there)\n[7](b.md#there)\n[1.5](c.md)\n";
    let other = "# Page\n7\n## There\nhas 1.5 (1 ..\n2)\n### Deeper\n12 %\n## Then\n1.6\n";
    let readme = "[1.5](docs/b.md) [1.7](docs/b.md)\n";
    let tree = Tree::of(&[(PAGE, page), ("docs/b.md", other), ("README.md", readme)]);
    let found: Vec<String> = stale_figures(&tree).into_iter().map(|offence| offence.what).collect();
    assert_eq!(
        found,
        [
            "line 2: b.md#there does not have \"1.6\"",
            "line 3: b.md#there does not have \"7\"",
            "line 4: c.md does not have \"1.5\"",
            "line 1: docs/b.md does not have \"1.7\""
        ]
    );
}
