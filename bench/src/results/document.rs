//! Tables of documents, written anew between their marks.

use std::fmt::Write as _;
use std::path::Path;

use crate::Result;
use crate::results::measurement::{Measurement, Record, number};

/// The text with something else between a mark and its end.
fn replaced(text: &str, mark: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->"));
    let missing = || format!("the document has no place for {mark}");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

/// Enters the tables of a run into a document, each at its mark, and puts its figures beside it.
pub(crate) fn write(path: &Path, tables: &[(&str, String)], figures: &[(&str, String)]) -> Result<()> {
    let mut text = std::fs::read_to_string(path)?;
    for (mark, table) in tables {
        text = replaced(&text, mark, table)?;
    }
    std::fs::write(path, text)?;
    let stem = path.with_extension("");
    for (name, svg) in figures {
        std::fs::write(format!("{}-{name}.svg", stem.display()), svg)?;
    }
    println!("written: {}", path.display());
    Ok(())
}

/// The notes of a run as a list.
pub(crate) fn notes(report: &Measurement) -> String {
    let notes = report.notes().iter();
    notes.fold(String::new(), |all, note| all + "- " + note + "\n")
}

/// A row for each figure, with what it stands beside.
pub(crate) fn throughput(records: &[&Record]) -> String {
    let mut table =
        String::from("| case | metric | ours | unit | beside | ratio |\n|---|---|---|---|---|---|\n");
    for record in records {
        let (low, high) = (number(record.spread.min), number(record.spread.max));
        let beside = match (&record.peer, record.ratio) {
            (Some(peer), Some(ratio)) => format!("{peer} | {} ({low} .. {high})", number(ratio)),
            _ => format!("| ({low} .. {high})"),
        };
        let value = number(record.value);
        let (case, metric, unit) = (&record.case, &record.metric, &record.unit);
        let _ = writeln!(table, "| {case} | {metric} | {value} | {unit} | {beside} |");
    }
    table
}

/// A row for each case, a column for each metric; what a case has not stays empty.
pub(crate) fn by_case(records: &[&Record]) -> String {
    cells(records, |record| number(record.value))
}

/// The same, each figure with its spread.
pub(crate) fn by_case_with_spread(records: &[&Record]) -> String {
    cells(records, |record| {
        let [value, low, high] = [record.value, record.spread.min, record.spread.max].map(number);
        format!("{value} ({low} .. {high})")
    })
}

fn cells(records: &[&Record], cell: impl Fn(&Record) -> String) -> String {
    let mut columns: Vec<(&str, &str)> = Vec::new();
    let mut cases: Vec<&str> = Vec::new();
    for record in records {
        let column = (record.metric.as_str(), record.unit.as_str());
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !cases.contains(&record.case.as_str()) {
            cases.push(&record.case);
        }
    }
    if cases.is_empty() {
        return String::new();
    }
    let mut table = String::from("| case |");
    for (metric, unit) in &columns {
        let _ = write!(table, " {metric} ({unit}) |");
    }
    table += "\n|---|";
    table += &"---|".repeat(columns.len());
    for case in cases {
        let _ = write!(table, "\n| {case} |");
        for (metric, _) in &columns {
            let is_cell = |record: &&&Record| record.case == case && record.metric == *metric;
            match records.iter().find(is_cell) {
                Some(record) => {
                    let _ = write!(table, " {} |", cell(record));
                }
                None => table += " |",
            }
        }
    }
    table + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_between_their_marks() {
        let mut report = Measurement::new("test");
        report.value("latency/a/0.5", "p50", "us", &[1.0]);
        report.value("latency/a/0.5", "p99", "us", &[2.0]);
        report.beside(("memif", "throughput_ops", "/s"), &[5e6], "echo", &[1e7]);
        let records: Vec<_> = report.records().iter().collect();
        let latency = by_case(&records[..2]);
        assert_eq!(
            latency,
            "| case | p50 (us) | p99 (us) |\n|---|---|---|\n| latency/a/0.5 | 1.00 | 2.00 |\n"
        );
        report.value("latency/b/0.5", "p99", "us", &[3.0]);
        let records: Vec<_> = report.records().iter().collect();
        let some = by_case(&[records[0], records[1], records[3]]);
        assert!(some.ends_with("\n| latency/b/0.5 | | 3.00 |\n"), "{some}");
        let table = throughput(&records[2..3]);
        assert!(
            table.ends_with("| memif | throughput_ops | 5 000 000 | /s | echo | 0.50 (0.50 .. 0.50) |\n")
        );
        let text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n";
        let text = replaced(text, "x", &latency).unwrap();
        assert!(text.starts_with("a\n<!-- x -->\n| case") && text.ends_with("of x -->\nb\n"));
        assert!(!text.contains("old") && replaced(&text, "y", "").is_err());
    }
}
