use std::collections::HashMap;
use std::path::Path;

use micanite_workload::figure::colour_of_system;

use super::*;
use crate::report::testing::{evidence, measured, ran, section};

/// Returns `testdata/report.json`: one run of every section, with as few records as its figures need.
fn recorded() -> Evidence {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/report.json");
    Evidence::read(&path).unwrap()
}

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

#[test]
fn every_section_is_drawn() {
    let evidence = recorded();
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
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let text = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
    let mut named: Vec<_> =
        text.split(&format!("]({FOLDER}/")).skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let files = std::fs::read_dir(docs.join(FOLDER)).unwrap().flatten();
    let mut files: Vec<_> = files.map(|entry| entry.file_name().into_string().unwrap()).collect();
    named.sort_unstable();
    files.sort_unstable();
    assert_eq!(named, files);
}

/// Returns the names in the legend of a figure, each with the class of its colour.
fn legend(svg: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = svg.lines().collect();
    let entry = |pair: &[&str]| {
        let name = pair[1].split_once("text-anchor=\"start\">")?.1.split_once('<')?.0;
        let colour = pair[0].split_once("class=\"mf-")?.1.split_once('"')?.0;
        Some((name.to_owned(), colour.to_owned()))
    };
    lines.windows(2).filter_map(entry).filter(|(name, _)| colour_of_system(name).is_some()).collect()
}

/// A system has the same colour in all figures of the report, and keeps it when any other series is left out.
#[test]
fn a_system_has_one_colour_in_all_figures() {
    let (evidence, known) = (recorded(), crate::report::sections::all().unwrap());
    let mut colours: HashMap<String, String> = HashMap::new();
    let mut check = |svg: &str| {
        for (name, colour) in legend(svg) {
            let before = colours.entry(name.clone()).or_insert_with(|| colour.clone());
            assert_eq!(*before, colour, "{name}");
        }
    };
    for shown in shown::all(&evidence, &known) {
        for exhibit in shown.exhibits {
            match exhibit {
                Exhibit::Lines(chart) => {
                    check(&chart.svg());
                    for without in 0..chart.lines.len() {
                        let mut fewer = chart.clone();
                        fewer.lines.remove(without);
                        // Lines of one system share its colour; each has the next marks and dashes.
                        check(&fewer.svg());
                    }
                }
                Exhibit::Bars(chart) => {
                    check(&chart.svg());
                    let systems = chart.series.iter().map(|series| colour_of_system(&series.name));
                    let systems: Vec<_> = systems.collect();
                    for without in 0..chart.series.len() {
                        // The second of two bars of one system has another colour while the first is there.
                        let is_only =
                            |at: &usize| systems.iter().filter(|of| **of == systems[*at]).count() == 1;
                        if (0..systems.len()).filter(|at| systems[*at].is_some()).all(|at| is_only(&at)) {
                            let mut fewer = chart.clone();
                            fewer.series.remove(without);
                            check(&fewer.svg());
                        }
                    }
                }
                Exhibit::Table(_) | Exhibit::Note(_) | Exhibit::Headline(_) => {}
            }
        }
    }
    let of = |name: &str| colours.iter().find(|(known, _)| known.starts_with(name)).map(|(_, colour)| colour);
    for (one, other) in [("memcached", "micanite native"), ("memcached", "Redis"), ("MICA", "memcached")] {
        assert!(of(one).is_some() && of(one) != of(other), "{one} {other}: {colours:?}");
    }
}

/// Each figure with whiskers has a caption that says of how many rounds they are.
#[test]
fn whiskers_are_explained() {
    let (evidence, known) = (recorded(), crate::report::sections::all().unwrap());
    let text = document(&evidence, &known).text;
    assert!(text.contains("Whiskers: least and greatest of "), "{text}");
    for shown in shown::all(&evidence, &known) {
        for exhibit in &shown.exhibits {
            let (caption, has_spread) = match exhibit {
                Exhibit::Lines(chart) => {
                    let points = chart.lines.iter().flat_map(|line| &line.points);
                    (chart.caption(shown.rounds()), points.into_iter().any(|point| point.low < point.high))
                }
                _ => continue,
            };
            assert_eq!(caption.is_some(), has_spread, "{}", shown.section.id);
        }
    }
}
