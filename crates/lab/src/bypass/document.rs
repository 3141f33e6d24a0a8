//! The tables of the document, written anew between their marks.

use std::path::Path;

use crate::Result;
use crate::document::{by_case, replaced, throughput};
use crate::measurement::{Measurement, Record};

/// Enters the tables of a run into a document, and puts its figures beside it.
pub(super) fn write(path: &Path, report: &Measurement, figures: &[(&str, String)]) -> Result<()> {
    let mut text = std::fs::read_to_string(path)?;
    let records = report.records();
    let of = |wanted: &dyn Fn(&Record) -> bool| -> Vec<&Record> {
        records.iter().filter(|record| wanted(record)).collect()
    };
    let latencies = of(&|record| record.case.starts_with("latency/"));
    let parts = of(&|record| record.case.ends_with("/parts"));
    let rest =
        of(&|record| !record.case.starts_with("latency/") && !record.case.ends_with("/parts"));
    let notes: String = report
        .notes()
        .iter()
        .fold(String::new(), |all, note| all + "- " + note + "\n");
    for (mark, table) in [
        ("notes", notes),
        ("throughput", throughput(&rest)),
        ("latency", by_case(&latencies)),
        ("parts", by_case(&parts)),
    ] {
        text = replaced(&text, mark, &table)?;
    }
    std::fs::write(path, text)?;
    let stem = path.with_extension("");
    for (name, svg) in figures {
        std::fs::write(format!("{}-{name}.svg", stem.display()), svg)?;
    }
    println!("written: {}", path.display());
    Ok(())
}
