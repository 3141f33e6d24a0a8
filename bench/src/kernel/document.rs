//! The tables of docs/benchmarks/kernel.md.

use std::fmt::Write as _;
use std::path::Path;

use super::hippos;
use super::sides::METRIC;
use crate::Result;
use crate::results::document::{self, by_case, by_case_with_spread, notes, throughput};
use crate::results::measurement::{Measurement, Record, number};

/// Wanted multiples of memcached's rate.
const TARGETS: [(&str, f64); 7] = [
    ("kernel/tiny", 5.0),
    ("kernel/tiny-16m", 3.0),
    ("kernel/fb-usr", 5.0),
    ("kernel/fb-app", 1.8),
    ("kernel/fb-etc", 1.8),
    ("kernel/fb-var", 2.0),
    ("kernel/fb-sys", 2.0),
];
/// Wanted share of USR's hits, in percent.
const HITS_IN_KERNEL_TARGET: f64 = 90.0;

/// Enters the tables of a run into the document.
pub(super) fn write(path: &Path, report: &Measurement) -> Result<()> {
    let records = report.records();
    let of = |wanted: &dyn Fn(&Record) -> bool| -> Vec<&Record> {
        records.iter().filter(|record| wanted(record)).collect()
    };
    let is = |record: &Record, part: &str| record.case.contains(part);
    let others = ["/latency/", "/mix/", "/account/", "backing", hippos::CASE];
    let hippos = |name: &str| {
        let case = format!("{}/{name}", hippos::CASE);
        of(&|record| record.case.starts_with(&case))
    };
    let peaks = of(&|record| {
        let is_other = others.iter().any(|other| is(record, other));
        !is_other && record.peer.is_none() && record.metric != "hits_in_kernel"
    });
    let beside = |record: &&Record| record.peer.is_some();
    let tables = [
        ("notes", notes(report)),
        ("targets", targets(records)),
        ("ratios", throughput(&of(&|record| record.metric == METRIC && record.peer.is_some()))),
        ("peaks", by_case(&peaks)),
        ("latency", by_case(&of(&|record| is(record, "/latency/") && !is(record, hippos::CASE)))),
        ("mixes", by_case(&of(&|record| is(record, "/mix/")))),
        ("account", by_case(&of(&|record| is(record, "/account/")))),
        ("backing", throughput(&of(&|record| is(record, "backing")))),
        ("places", by_case_with_spread(&hippos("places"))),
        ("program", by_case_with_spread(&hippos("program"))),
        ("misses", throughput(&hippos("misses").into_iter().filter(beside).collect::<Vec<_>>())),
        ("packet", throughput(&hippos("packet").into_iter().filter(beside).collect::<Vec<_>>())),
        ("parts of latency", by_case_with_spread(&hippos("latency"))),
    ];
    // A run of some cases leaves the tables of the others as they are.
    let is_partial = peaks.is_empty();
    let tables: Vec<_> = tables
        .into_iter()
        .filter(|(name, table)| match *name {
            "notes" | "targets" => !is_partial,
            _ => table.lines().count() > 2,
        })
        .collect();
    document::write(path, &tables, &[])
}

/// Table of targets and results.
fn targets(records: &[Record]) -> String {
    let mut table = String::from("| case | wanted | measured | |\n|---|---|---|---|\n");
    for (case, wanted) in TARGETS {
        let found = records.iter().find(|record| {
            record.case == case && record.metric == METRIC && record.peer.as_deref() == Some("memcached")
        });
        let measured = found.and_then(|record| Some((record.ratio?, record.spread)));
        let (measured, verdict) = match measured {
            None => ("not measured".to_owned(), ""),
            Some((ratio, spread)) => {
                let spread = format!("({} .. {})", number(spread.min), number(spread.max));
                (format!("{} x {spread}", number(ratio)), verdict(ratio, wanted))
            }
        };
        let wanted = number(wanted);
        let _ = writeln!(table, "| {case}, over memcached's UDP | {wanted} x | {measured} | {verdict} |");
    }
    let is_share = |record: &&Record| record.case == "kernel/fb-usr" && record.metric == "hits_in_kernel";
    let share = records.iter().find(is_share).map(|record| record.value);
    let (measured, verdict) = match share {
        None => ("not measured".to_owned(), ""),
        Some(share) => (format!("{} %", number(share)), verdict(share, HITS_IN_KERNEL_TARGET)),
    };
    let _ = writeln!(
        table,
        "| kernel/fb-usr, hits answered in the kernel | {HITS_IN_KERNEL_TARGET} % | {measured} | {verdict} |"
    );
    table
}

fn verdict(measured: f64, wanted: f64) -> &'static str {
    if measured >= wanted { "met" } else { "missed" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_met_missed_or_not_measured() {
        let mut report = Measurement::new("test");
        let what = |case| (case, METRIC, "GETs/core-s");
        report.beside(what("kernel/tiny"), &[5e5], "memcached", &[1e5]);
        report.beside(what("kernel/tiny"), &[5e5], "reflect", &[1e6]);
        report.beside(what("kernel/tiny-16m"), &[2e5], "memcached", &[1e5]);
        report.value("kernel/fb-usr", "hits_in_kernel", "% of hits", &[99.0]);
        let table = targets(report.records());
        let row = |case: &str| {
            let start = format!("| {case},");
            table.lines().find(|line| line.starts_with(&start)).unwrap().to_owned()
        };
        assert!(row("kernel/tiny").ends_with("| met |"), "{table}");
        assert!(row("kernel/tiny-16m").ends_with("| missed |"), "{table}");
        assert!(row("kernel/fb-var").contains("not measured"), "{table}");
        assert!(table.contains("| kernel/fb-usr, hits answered in the kernel | 90 % | 99.0 % | met |"));
    }
}
