use std::path::Path;

use super::*;
use crate::testing::{evidence, measured, ran, section};

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
/// Whoever changes what is drawn draws the committed document anew:
/// `cargo run -p micanite-report -- --data docs/benchmarks/report/raw.json --document docs/benchmarks.md`
#[test]
fn the_document_in_the_tree_is_that_of_its_raw_data() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let folder = docs.join(FOLDER);
    let evidence = Evidence::read(&folder.join(RAW)).unwrap();
    let document = document(&evidence, &crate::sections::all());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        read(&docs.join("benchmarks.md")) == document.text,
        "docs/benchmarks.md is not what its raw data makes"
    );
    for (name, svg) in &document.figures {
        assert!(
            &read(&folder.join(name)) == svg,
            "{name} is not what its raw data makes"
        );
    }
    let names = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap());
    let others: Vec<_> = names
        .filter(|name| name != RAW && document.figures.iter().all(|(figure, _)| figure != name))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}
