use std::path::Path;

use super::*;
use crate::report::testing::{evidence, measured, ran, section};

#[test]
fn a_document_is_markdown_with_figures() {
    let evidence = evidence(vec![measured("one", ran())]);
    let document = document(&evidence, &[section("one")]);
    for part in [
        "## Latency against load",
        "![Latency &lt; \"load\"](benchmarks/report/one-1.svg)",
        "Rows \\| more",
        "| tiny | 1.23 M |",
        "| a request's time | 20 us | 24 us |",
        "- no real-time priority",
    ] {
        assert!(document.text.contains(part), "{part} in {}", document.text);
    }
    assert_eq!(document.figures.len(), 1);
}

/// Draws `testdata/report.json`: one run of every section, with as few records as its figures need.
#[test]
fn every_section_is_drawn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report.json");
    let evidence = Evidence::read(&path).unwrap();
    let known = crate::report::sections::all().unwrap();
    let document = document(&evidence, &known);
    for section in &known {
        let start = format!("## {}\n", section.text.title);
        let (_, text) = document.text.split_once(&start).expect(section.id);
        let text = text.split("\n## ").next().unwrap();
        let is_drawn = text.contains("![") || text.contains("|---|");
        assert!(is_drawn || section.id == "lacking", "{}: {text}", section.id);
    }
    let count = |shape: &str| {
        let svgs = document.figures.iter().map(|(_, svg)| svg.matches(shape).count());
        svgs.sum::<usize>()
    };
    assert!(document.figures.len() > 30, "{}", document.figures.len());
    assert!(count("<path") + count("<rect") > 100);
}

#[test]
fn the_figures_in_the_tree_are_those_of_the_document() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
    let mut named: Vec<_> =
        text.split(&format!("]({FOLDER}/")).skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let files = std::fs::read_dir(docs.join(FOLDER)).unwrap().flatten();
    let mut files: Vec<_> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    named.sort_unstable();
    files.sort_unstable();
    assert_eq!(named, files);
}
