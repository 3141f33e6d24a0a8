//! The tables of docs/benchmarks/fabric.md.

use std::fmt::Write as _;
use std::path::Path;

use super::load::Way;
use crate::Result;
use crate::results::document::{self, by_case, notes};
use crate::results::measurement::{Measurement, Record, number};
use crate::results::statistics::median;

/// Enters the tables of a run into the document.
pub(super) fn write(path: &Path, report: &Measurement) -> Result<()> {
    let records = report.records();
    let of = |wanted: &dyn Fn(&Record) -> bool| -> Vec<&Record> {
        records.iter().filter(|record| wanted(record)).collect()
    };
    let is_bound = |record: &Record| record.case.contains("/bare/") || record.case.starts_with("copy/");
    let is_cpu = |record: &Record| record.case.contains("/cpu/");
    let tables = [
        ("notes", notes(report)),
        ("targets", targets(records)),
        ("means", means(records)),
        ("ratios", ratios(records)),
        ("percentiles", percentiles(records)),
        ("bounds", document::throughput(&of(&is_bound))),
        ("cpu", document::throughput(&of(&is_cpu))),
        ("copies", copies(records)),
        ("stats", by_case(&of(&|record| record.metric.starts_with("stats: ")))),
        ("others", by_case(&of(&|record| is_other(record)))),
    ];
    document::write(path, &tables, &[])
}

/// Figures of our other protocols, beside those over the fabric.
fn is_other(record: &Record) -> bool {
    record.case.contains("/one-length/") && record.metric.starts_with("GET p50, ")
}

/// Cases of the workloads, in their order.
fn cases(records: &[Record]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for record in records {
        if record.metric == "GET mean, innercache" && !cases.contains(&record.case.as_str()) {
            cases.push(&record.case);
        }
    }
    cases
}

fn find<'r>(records: &'r [Record], case: &str, metric: &str) -> Option<&'r Record> {
    records.iter().find(|record| record.case == case && record.metric == metric)
}

fn cell(records: &[Record], case: &str, metric: &str) -> String {
    find(records, case, metric).map_or_else(String::new, |record| number(record.value))
}

fn with_spread(records: &[Record], case: &str, metric: &str) -> String {
    find(records, case, metric).map_or_else(String::new, |record| {
        let (low, high) = (number(record.spread.min), number(record.spread.max));
        format!("{} ({low} .. {high})", number(record.value))
    })
}

/// A table of cases.
fn table(heading: &[&str], records: &[Record], row: impl Fn(&str) -> Vec<String>) -> String {
    let mut text = format!("| case | {} |\n|---|{}\n", heading.join(" | "), "---|".repeat(heading.len()));
    for case in cases(records) {
        let _ = writeln!(text, "| {case} | {} |", row(case).join(" | "));
    }
    text
}

/// Means of GET and SET by the three ways.
fn means(records: &[Record]) -> String {
    let heading = [
        "GET innercache",
        "one-sided",
        "two-sided",
        "SET innercache",
        "one-sided",
        "two-sided",
        "read one-sided",
    ];
    table(&heading, records, |case| {
        let of =
            |kind: &str| Way::READS.map(|way| cell(records, case, &format!("{kind} mean, {}", way.name())));
        let share = cell(records, case, "one-sided GETs, innercache");
        let share = if share.is_empty() { share } else { format!("{share} %") };
        of("GET").into_iter().chain(of("SET")).chain([share]).collect()
    })
}

const RATIOS: [&str; 4] = [
    "GET, two-sided / innercache",
    "GET, innercache / one-sided",
    "SET, innercache / one-sided",
    "median, two-sided GET / one-sided hit",
];

fn ratios(records: &[Record]) -> String {
    table(&RATIOS, records, |case| RATIOS.map(|metric| with_spread(records, case, metric)).to_vec())
}

/// p50, p95 and p99 of each way.
fn percentiles(records: &[Record]) -> String {
    let heading = ["GET innercache", "GET one-sided", "GET two-sided", "SET innercache", "SET two-sided"];
    table(&heading, records, |case| {
        let of = |kind: &str, way: Way| {
            let parts = ["p50", "p95", "p99"];
            parts.map(|part| cell(records, case, &format!("{kind} {part}, {}", way.name()))).join(" / ")
        };
        let gets = Way::READS.map(|way| of("GET", way));
        gets.into_iter().chain([of("SET", Way::InnerCache), of("SET", Way::TwoSided)]).collect()
    })
}

/// The time of one copy in parts of the mean of a two-sided GET; the paper's average is 18 %.
fn copies(records: &[Record]) -> String {
    let mut text = String::from(
        "| provider and size | one copy (us) | two-sided GET (us) | share |\n|---|---|---|---|\n",
    );
    let mut known: Vec<String> = Vec::new();
    for case in cases(records) {
        let mut words = case.split('/');
        let (Some(provider), Some(size)) = (words.next(), words.next()) else { continue };
        let place = format!("{provider}/{size}");
        let copy = find(records, &format!("copy/{size}"), "uncached copy, median");
        let (Some(copy), false) = (copy, known.contains(&place)) else { continue };
        let gets = |case: &&&str| case.starts_with(&format!("{place}/"));
        let all = cases(records);
        let gets: Vec<_> = all
            .iter()
            .filter(gets)
            .filter_map(|case| Some(find(records, case, "GET p50, two-sided")?.value))
            .collect();
        let get = median(&gets);
        let (one, share) = (number(copy.value), number(copy.value / get * 100.0));
        let _ = writeln!(text, "| {place} | {one} | {} | {share} % |", number(get));
        known.push(place);
    }
    text
}

/// A demand on one figure of some cases.
struct Target {
    text: &'static str,
    /// Part of the names of its cases.
    is_of: fn(&str) -> bool,
    metric: &'static str,
    keeps: fn(f64) -> bool,
}

const TARGETS: [Target; 6] = [
    Target {
        text: "GET mean at most 1.10 of one-sided (90 % GET, everything fits)",
        is_of: |case| case.contains("-90/fits"),
        metric: RATIOS[1],
        keeps: |ratio| ratio <= 1.10,
    },
    Target {
        text: "tcp, 1 KiB: a two-sided GET takes at least 1.2 of a one-sided hit, medians",
        is_of: |case| case.starts_with("tcp") && case.contains("/1k/"),
        metric: RATIOS[3],
        keeps: |ratio| ratio >= 1.2,
    },
    Target {
        text: "tcp, 512 KiB: at least 1.4",
        is_of: |case| case.starts_with("tcp") && case.contains("/512k/"),
        metric: RATIOS[3],
        keeps: |ratio| ratio >= 1.4,
    },
    Target {
        text: "net: at least 1.0",
        is_of: |case| case.starts_with("net"),
        metric: RATIOS[3],
        keeps: |ratio| ratio >= 1.0,
    },
    Target {
        text: "SET mean at most 1.15 of one-sided (10 % GET, 512 KiB)",
        is_of: |case| case.contains("/512k/") && case.contains("-10/"),
        metric: RATIOS[2],
        keeps: |ratio| ratio <= 1.15,
    },
    Target {
        text: "the paper's 1.5: mean of two-sided GETs by that of InnerCache",
        is_of: |case| !case.contains("/one-length/"),
        metric: RATIOS[0],
        keeps: |ratio| ratio >= 1.5,
    },
];

/// For each target and provider: how many of its cases keep it, and their median, least and greatest.
fn targets(records: &[Record]) -> String {
    let mut text = String::from(
        "| target | provider | median (least .. greatest) | cases that keep it |\n|---|---|---|---|\n",
    );
    let mut providers: Vec<&str> = Vec::new();
    for case in cases(records) {
        let provider = case.split('/').next().unwrap_or_default();
        if !providers.contains(&provider) {
            providers.push(provider);
        }
    }
    for target in &TARGETS {
        for provider in &providers {
            let of = |record: &&Record| {
                record.metric == target.metric
                    && record.case.starts_with(&format!("{provider}/"))
                    && (target.is_of)(&record.case)
            };
            let values: Vec<_> = records.iter().filter(of).map(|record| record.value).collect();
            if values.is_empty() {
                continue;
            }
            let kept = values.iter().filter(|value| (target.keeps)(**value)).count();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let greatest = values.iter().copied().fold(0.0, f64::max);
            let (middle, least, greatest) = (number(median(&values)), number(least), number(greatest));
            let (words, all) = (target.text, values.len());
            let _ = writeln!(
                text,
                "| {words} | {provider} | {middle} ({least} .. {greatest}) | {kept} of {all} |"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets count the cases that they are of, and the tables have a row for each case.
    #[test]
    fn tables_have_cases_and_targets() {
        let mut report = Measurement::new("test");
        for (case, ratio) in
            [("tcp;ofi_rxm/512k/zipf-90/fits", 1.05), ("tcp;ofi_rxm/512k/latest-90/fits", 1.3)]
        {
            report.value(case, "GET mean, innercache", "us", &[100.0, 110.0]);
            report.value(case, "GET p50, two-sided", "us", &[200.0]);
            report.value(case, RATIOS[1], "x", &[ratio]);
            report.value(case, RATIOS[3], "x", &[1.5]);
        }
        report.value("copy/512k", "uncached copy, median", "us", &[50.0]);
        let records = report.records();
        let text = targets(records);
        assert!(text.contains("| tcp;ofi_rxm | 1.18 (1.05 .. 1.30) | 1 of 2 |"), "{text}");
        assert!(text.contains("at least 1.4 | tcp;ofi_rxm | 1.50 (1.50 .. 1.50) | 2 of 2 |"), "{text}");
        assert_eq!(means(records).lines().count(), 4);
        assert!(copies(records).contains("| 50.0 | 200 | 25.0 % |"), "{}", copies(records));
        assert!(ratios(records).contains("1.05 (1.05 .. 1.05)"));
    }
}
