//! The tables of the document, written anew between their marks.

use std::fmt::Write as _;
use std::path::Path;

use crate::Result;
use crate::report::{Record, Report, number};

/// Enters the tables of a run into a document, and puts its figures beside it.
pub(super) fn write(path: &Path, report: &Report, figures: &[(&str, String)]) -> Result<()> {
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

/// The text with something else between a mark and its end.
fn replaced(text: &str, mark: &str, table: &str) -> Result<String> {
    let (begin, end) = (
        format!("<!-- {mark} -->\n"),
        format!("<!-- end of {mark} -->"),
    );
    let missing = || format!("the document has no place for {mark}");
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

fn throughput(records: &[&Record]) -> String {
    let mut table = String::from(
        "| case | metric | ours | unit | beside | ratio |\n|---|---|---|---|---|---|\n",
    );
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

/// A row for each case, a column for each metric.
fn by_case(records: &[&Record]) -> String {
    let Some(first) = records.first() else {
        return String::new();
    };
    let columns = records.iter().filter(|record| record.case == first.case);
    let mut table = String::from("| case |");
    let mut rule = String::from("\n|---|");
    for record in columns {
        let _ = write!(table, " {} ({}) |", record.metric, record.unit);
        rule += "---|";
    }
    table += &rule;
    let mut case = "";
    for record in records {
        if record.case != case {
            case = &record.case;
            let _ = write!(table, "\n| {case} |");
        }
        let _ = write!(table, " {} |", number(record.value));
    }
    table + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_between_their_marks() {
        let mut report = Report::new("test");
        report.value("latency/a/0.5", "p50", "us", &[1.0]);
        report.value("latency/a/0.5", "p99", "us", &[2.0]);
        report.beside(("memif", "throughput_ops", "/s"), &[5e6], "echo", &[1e7]);
        let records: Vec<_> = report.records().iter().collect();
        let latency = by_case(&records[..2]);
        assert_eq!(
            latency,
            "| case | p50 (us) | p99 (us) |\n|---|---|---|\n| latency/a/0.5 | 1.00 | 2.00 |\n"
        );
        let table = throughput(&records[2..]);
        assert!(table.ends_with(
            "| memif | throughput_ops | 5 000 000 | /s | echo | 0.50 (0.50 .. 0.50) |\n"
        ));
        let text = "a\n<!-- x -->\nold\n<!-- end of x -->\nb\n";
        let text = replaced(text, "x", &latency).unwrap();
        assert!(text.starts_with("a\n<!-- x -->\n| case") && text.ends_with("of x -->\nb\n"));
        assert!(!text.contains("old") && replaced(&text, "y", "").is_err());
    }
}
