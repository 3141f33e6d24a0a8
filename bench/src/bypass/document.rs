//! The tables of docs/benchmarks/bypass.md. Latency and parts are in the report.

use std::path::Path;

use crate::Result;
use crate::results::document::{self, notes, throughput};
use crate::results::measurement::{Measurement, Record};

/// Enters the tables of a run into the document.
pub(super) fn write(path: &Path, report: &Measurement) -> Result<()> {
    let tables = [("notes", notes(report)), ("throughput", throughput(&throughputs(report.records())))];
    document::write(path, &tables, &[])
}

fn throughputs(records: &[Record]) -> Vec<&Record> {
    let is_other = |case: &str| case.starts_with("latency/") || case.ends_with("/parts");
    records.iter().filter(|record| !is_other(&record.case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_throughput_alone() {
        let mut report = Measurement::new("test");
        report.value("latency/memif/1/0.5", "p50", "us", &[1.0]);
        report.value("memif/tiny/95/parts", "I/O", "ns", &[1.0]);
        report.value("memif/tiny/95/batches/4", "throughput_ops", "requests/s", &[1.0]);
        let cases: Vec<_> = throughputs(report.records()).iter().map(|record| &*record.case).collect();
        assert_eq!(cases, ["memif/tiny/95/batches/4"]);
    }
}
