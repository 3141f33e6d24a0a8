//! The benchmarks that `docs/papers.md` names are understood. The tidy test checks its other commands.

use std::process::{Command, Output};

const PAGE: &str = include_str!("../../docs/papers.md");

fn lab(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_micanite-lab")).args(words).output().unwrap()
}

/// The words for the lab that a command has: one of `micanite-lab`, or a benchmark of the Makefile.
fn words(command: &str) -> Option<Vec<&str>> {
    let (before, quoted) = command.split_once('"').unwrap_or((command, ""));
    let quoted = quoted.trim_end_matches('"');
    let words: Vec<&str> = before.split_whitespace().collect();
    match words[..] {
        ["micanite-lab", ..] if quoted.is_empty() => Some(words[1..].to_vec()),
        ["micanite-lab", ..] => Some([&words[1..], &[quoted]].concat()),
        ["make", target, ..] => {
            let target = target.strip_prefix("bench")?;
            let target = target.strip_prefix('-').unwrap_or("report");
            Some([target].into_iter().chain(quoted.split_whitespace()).collect())
        }
        _ => None,
    }
}

/// Names of the report's sections, as the lab lists them.
fn sections() -> Vec<String> {
    let listed = String::from_utf8(lab(&["report", "--list"]).stdout).unwrap();
    listed.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_string())).collect()
}

/// Reasons why commands of a page are refused, and how many commands there are. A command that ends with
/// `--help` is read up to there, and does nothing.
fn refusals(page: &str) -> (Vec<String>, usize) {
    let sections = sections();
    let spans = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let commands: Vec<Vec<&str>> = spans.filter_map(words).collect();
    let refusal = |words: &Vec<&str>| {
        let ended = lab(&[&words[..], &["--help"]].concat());
        let unknown = words.windows(2).find(|pair| {
            pair[0] == "--only" && words[0] == "report" && sections.iter().all(|section| section != pair[1])
        });
        match unknown {
            _ if !ended.status.success() => {
                Some(format!("{words:?}: {}", String::from_utf8_lossy(&ended.stderr)))
            }
            Some(pair) => Some(format!("{words:?}: the report has no section {}", pair[1])),
            None => None,
        }
    };
    (commands.iter().filter_map(refusal).collect(), commands.len())
}

#[test]
fn benchmarks_of_the_papers_are_understood() {
    let (refused, commands) = refusals(PAGE);
    assert!(refused.is_empty(), "docs/papers.md: {refused:#?}");
    assert!(commands > 0, "docs/papers.md names no benchmark");
}

#[test]
fn refused_benchmarks_are_found() {
    let page = "`make bench ARGS=\"--only modes --only engine\"` `make bench-kernel ARGS=\"--case x\"`\n\
                `micanite-lab tables --case \"two words\"` `make test` `micanite plan paper`\n\
                `make bench ARGS=\"--only nothing\"` `make bench-nothing`\n\
                `make bench-kernel ARGS=\"--nothing\"` `micanite-lab nothing`\n";
    let (refused, commands) = refusals(page);
    assert_eq!((refused.len(), commands), (4, 7), "{refused:#?}");
}
