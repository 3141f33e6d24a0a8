//! The tables of the document.

use std::path::Path;

use crate::Result;
use crate::document::{by_case, replaced, throughput};
use crate::report::Report;

/// Enters the tables of a run into a document.
pub(super) fn write(path: &Path, report: &Report) -> Result<()> {
    let mut text = std::fs::read_to_string(path)?;
    let notes: String = report
        .notes()
        .iter()
        .fold(String::new(), |all, note| all + "- " + note + "\n");
    let of = |prefix: &str| -> Vec<_> {
        let records = report.records().iter();
        records
            .filter(|record| record.peer.is_none() && record.case.starts_with(prefix))
            .collect()
    };
    let beside: Vec<_> = report
        .records()
        .iter()
        .filter(|record| record.peer.is_some())
        .collect();
    for (mark, table) in [
        ("notes", notes),
        ("gain", throughput(&beside)),
        ("throughput", by_case(&of("kernel-writes/"))),
        ("latency", by_case(&of("latency/"))),
    ] {
        text = replaced(&text, mark, &table)?;
    }
    std::fs::write(path, text)?;
    println!("written: {}", path.display());
    Ok(())
}
