//! Documents name benchmarks that exist, and `testdata/report.json` is of the report's sections.
//!
//! The gate does not compile `bench/`: this reads its sources. `make test-bench` runs the parser of the
//! commands, and draws the records.

use std::collections::BTreeSet;

use serde_json::Value;

use super::papers::words;
use crate::markdown;
use crate::tree::Tree;
use crate::verdict::{Offence, Verdict};

const SOURCES: &str = "bench/src/";
const RECORDED: &str = "testdata/report.json";
/// Beginnings of commands, in front of a target.
const PROGRAMS: [&str; 2] = ["micanite-lab ", "bench/Cargo.toml -- "];
/// Beginnings of commands that take words for the benchmarks in `ARGS`.
const MAKE: [&str; 2] = ["make bench", "make report"];
/// Options that name sections of the report.
const CHOICES: [&str; 2] = ["--only", "--again"];

/// Names that the sources of the benchmarks declare.
struct Declared {
    targets: BTreeSet<String>,
    options: BTreeSet<String>,
    sections: BTreeSet<String>,
}

impl Declared {
    fn of(tree: &Tree) -> Self {
        let source = |path: &str| tree.text(&format!("{SOURCES}{path}")).unwrap_or_default();
        let (_, variants) = source("main.rs").split_once("enum Target {\n").unwrap_or_default();
        let variants = variants.lines().take_while(|line| *line != "}").map(str::trim);
        let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
        let targets = variants.filter_map(|line| Some(line.split_once('(')?.0.to_lowercase()));
        let mut options = BTreeSet::from(["--help".to_string()]);
        for (_, text) in sources(tree) {
            let lines: Vec<&str> = text.lines().map(str::trim).collect();
            let fields =
                lines.windows(2).filter(|pair| pair[0].starts_with("#[arg(long")).map(|pair| pair[1]);
            let names = fields.filter_map(|field| field.trim_start_matches("pub ").split(':').next());
            options.extend(names.map(|name| format!("--{}", name.replace('_', "-"))));
        }
        let texts = source("report/sections/texts.toml").lines();
        let sections = texts.filter_map(|line| line.strip_prefix('[')?.strip_suffix(']'));
        Self { targets: targets.collect(), options, sections: sections.map(str::to_string).collect() }
    }

    /// Returns the first word that a command may not have: a target in front, options, sections behind them.
    /// A word in capitals stands for a choice.
    fn unknown<'t>(&self, words: &[&'t str]) -> Option<&'t str> {
        let is_unknown = |word: &&str, known: &BTreeSet<String>| {
            !known.contains(*word) && !word.chars().all(|letter| letter.is_ascii_uppercase())
        };
        let is_option = |word: &&str| word.starts_with("--");
        let target = words.first().copied().filter(|word| !is_option(word));
        let mut options = words.iter().copied().filter(is_option);
        let choices = words.windows(2).filter(|pair| CHOICES.contains(&pair[0]));
        let mut sections = choices.flat_map(|pair| pair[1].split(','));
        target
            .filter(|word| is_unknown(word, &self.targets))
            .or_else(|| options.find(|word| is_unknown(word, &self.options)))
            .or_else(|| sections.find(|word| is_unknown(word, &self.sections)))
    }
}

fn sources(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts_ending(&[".rs"]).filter(|(path, _)| path.starts_with(SOURCES))
}

/// Words of the commands in a line, up to its end or that of a code span. Those of `make` are without target.
fn commands(line: &str) -> Vec<Vec<&str>> {
    let behind = |begin: &&str| {
        let ends = line.match_indices(*begin).map(|(at, begin)| at + begin.len());
        ends.filter_map(|end| line[end..].split(['`', '#', '\\']).next()).collect::<Vec<_>>()
    };
    let typed = PROGRAMS.iter().flat_map(behind).map(words);
    let made = MAKE.iter().flat_map(behind).filter_map(|rest| {
        let (_, arguments) = rest.split_once("ARGS=\"")?;
        Some(arguments.split('"').next()?.split_whitespace().collect())
    });
    typed.chain(made).collect()
}

/// Commands of benchmarks with an unknown target, option or section. The changelog and recorded runs may name
/// what was.
fn unknown_benchmarks(tree: &Tree) -> Vec<Offence> {
    let declared = Declared::of(tree);
    let mut offences = Vec::new();
    let is_kept = |(path, text): &(&str, &str)| *path != "CHANGELOG.md" && !markdown::is_generated(text);
    for (page, text) in tree.texts_ending(&[".md"]).filter(is_kept) {
        for (index, line) in text.lines().enumerate() {
            for word in commands(line).iter().filter_map(|words| declared.unknown(words)) {
                let what = format!("line {}: the benchmarks know no {word}", index + 1);
                offences.push(Offence { place: page.to_string(), size: 1, what });
            }
        }
    }
    offences
}

/// Sections that the recorded run lacks, and sections and results in it that the report does not know. Each
/// command has records, or says what it lacks.
fn unfit_records(tree: &Tree) -> Vec<Offence> {
    let recorded: Value =
        tree.text(RECORDED).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut lacking = Declared::of(tree).sections;
    let mut offences = Vec::new();
    let mut offend = |what: String| offences.push(Offence { place: RECORDED.to_string(), size: 1, what });
    for section in recorded["sections"].as_array().into_iter().flatten() {
        let id = section["id"].as_str().unwrap_or_default();
        if !lacking.remove(id) {
            offend(format!("the report has no section {id}, or it is here twice"));
        }
        for command in section["commands"].as_array().into_iter().flatten() {
            let result = command["result"].as_str().unwrap_or_default();
            let quoted = format!("\"{result}\"");
            if !sources(tree).any(|(_, text)| text.contains(&quoted)) {
                offend(format!("{id}: no command writes {result}"));
            }
            if command["lacks"].is_null() && command["json"].as_array().is_none_or(Vec::is_empty) {
                offend(format!("{id}: {result} has no records"));
            }
        }
    }
    lacking.iter().for_each(|id| offend(format!("it has no run of the section {id}")));
    offences
}

#[test]
fn benchmarks_that_documents_name_exist() {
    let declared = Declared::of(Tree::repository());
    assert!(declared.targets.len() > 10 && declared.options.len() > 20 && declared.sections.len() > 10);
    Verdict::of(&unknown_benchmarks(Tree::repository()), &[]).check();
}

#[test]
fn the_recorded_report_has_every_section() {
    Verdict::of(&unfit_records(Tree::repository()), &[]).check();
}

/// A tree of two targets, an option and two sections, with one more file.
#[cfg(test)]
fn tree_with(path: &str, text: &str) -> Tree {
    let main = "enum Target {\n    /// One (or more)\n    Net(Options),\n    #[command(hide = true)]\n    \
                Report(Options),\n}\n#[arg(long, default_value = \"1\")]\n    pub real_time: bool,\n\
                #[arg(long)]\nonly: String,\nCommand::lab(\"net\", \"net\")\n";
    let texts = "[one]\ntitle = \"\"\n[two]\n";
    Tree::of(&[("bench/src/main.rs", main), ("bench/src/report/sections/texts.toml", texts), (path, text)])
}

#[test]
fn benchmarks_that_do_not_exist_are_found() {
    let page = "`micanite-lab net --real-time --help` `micanite-lab TARGET`\n\
                `make bench-net ARGS=\"--only one,two\"`\n```\nmicanite-lab report --only ID # --later\n```\n\
                `micanite-lab`, `make run ARGS=\"--port 1\"`\n`micanite-lab server`\n\
                `cargo run --manifest-path bench/Cargo.toml -- net --case \"--a\" --b`\n\
                target/release/micanite-lab report --only three\n`make report ARGS=\"--only one --c\"`\n";
    let found = |page| unknown_benchmarks(&tree_with("a.md", page)).into_iter().map(|offence| offence.what);
    let found: Vec<String> = found(page).collect();
    assert_eq!(
        found,
        [
            "line 7: the benchmarks know no server",
            "line 8: the benchmarks know no --case",
            "line 9: the benchmarks know no three",
            "line 10: the benchmarks know no --c"
        ]
    );
    let recorded = format!("# Page\n\n<!-- Generated by `make report` -->\n{page}");
    assert_eq!(unknown_benchmarks(&tree_with("a.md", &recorded)).len(), 0);
}

#[test]
fn records_that_do_not_fit_are_found() {
    let command = |result: &str, lacks: &str, json: &str| {
        format!("{{\"result\": \"{result}\", \"lacks\": {lacks}, \"json\": {json}}}")
    };
    let section = |id: &str, commands: &[String]| {
        format!("{{\"id\": \"{id}\", \"commands\": [{}]}}", commands.join(","))
    };
    let found = |sections: &[String]| {
        let text = format!("{{\"sections\": [{}]}}", sections.join(","));
        let offences = unfit_records(&tree_with(RECORDED, &text));
        offences.into_iter().map(|offence| offence.what).collect::<Vec<_>>()
    };
    let fits = command("net", "null", "[1]");
    let one = section("one", &[fits.clone(), command("net", "\"no NIC\"", "null")]);
    assert_eq!(found(&[one.clone(), section("two", std::slice::from_ref(&fits))]), [""; 0]);
    assert_eq!(
        found(&[
            one.clone(),
            one,
            section("three", &[command("net", "null", "[]"), command("old", "null", "[1]")])
        ]),
        [
            "the report has no section one, or it is here twice",
            "the report has no section three, or it is here twice",
            "three: net has no records",
            "three: no command writes old",
            "it has no run of the section two",
        ]
    );
    assert_eq!(unfit_records(&tree_with(RECORDED, "{")).len(), 2);
}
