//! The tables and figures of docs/benchmarks/bypass.md.

use std::path::Path;

use micanite_workload::figure::{Arrangement, Axis, BarChart, Kind, Line, LineChart, Point};

use super::latency::QUANTILES;
use crate::Result;
use crate::results::charts;
use crate::results::document::{self, by_case, notes, throughput};
use crate::results::measurement::{Measurement, Record};

/// Enters the tables of a run into the document, and puts its figures beside it.
pub(super) fn write(path: &Path, report: &Measurement) -> Result<()> {
    let records = report.records();
    let of = |wanted: &dyn Fn(&Record) -> bool| -> Vec<&Record> {
        records.iter().filter(|record| wanted(record)).collect()
    };
    let tables = [
        ("notes", notes(report)),
        ("throughput", throughput(&of(&|record| !is_latency(record) && !is_part(record)))),
        ("latency", by_case(&of(&is_latency))),
        ("parts", by_case(&of(&is_part))),
    ];
    document::write(path, &tables, &figures(records))
}

fn is_latency(record: &Record) -> bool {
    record.case.starts_with("latency/")
}

fn is_part(record: &Record) -> bool {
    record.case.ends_with("/parts")
}

pub(super) fn figures(records: &[Record]) -> [(&'static str, String); 2] {
    [("latency", latencies(records)), ("parts", parts(records))]
}

/// A line for each port and quantile: its rates along, latencies up.
fn latencies(records: &[Record]) -> String {
    let mut lines: Vec<Line> = Vec::new();
    let mut rate = f64::NAN;
    for record in records.iter().filter(|record| is_latency(record)) {
        if record.metric == "rate" {
            rate = record.value;
        }
        if !QUANTILES.iter().any(|(name, _)| *name == record.metric) {
            continue;
        }
        let port = record.case.split('/').nth(1).unwrap_or_default();
        let name = format!("{port}, {}", record.metric);
        let point = Point::new(rate, record.value);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Line { name, kind: Kind::Measured, points: vec![point] }),
        }
    }
    let title = "Latency against throughput, one server core, 95 % GET, tiny items";
    LineChart {
        title: title.to_owned(),
        x: Axis::log("requests per second"),
        y: Axis::log("latency (us)"),
        lines,
    }
    .svg()
}

/// The time of a request, its parts one behind the other.
fn parts(records: &[Record]) -> String {
    let title = "Time of a request on the server's core, over memif";
    let chart = charts::values((title, "ns per request"), records, |record| {
        let is_shown = is_part(record) && record.metric != "all";
        is_shown.then_some((record.case.as_str(), record.metric.as_str()))
    });
    BarChart { arrangement: Arrangement::Stacked, ..charts::not_below_zero(chart) }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_every_port_and_every_part() {
        let mut report = Measurement::new("test");
        for (part, rate) in [(0.5, 1e5), (0.9, 2e5)] {
            let case = format!("latency/memif/{part}");
            report.value(&case, "rate", "requests/s", &[rate]);
            for (name, quantile) in QUANTILES {
                report.value(&case, name, "us", &[quantile]);
            }
        }
        for (part, ns) in [("I/O", 50.0), ("parse", -1.0), ("all", 49.0)] {
            report.value("memif/tiny/95/parts", part, "ns", &[ns]);
        }
        let [(_, latencies), (_, parts)] = figures(report.records());
        for (name, _) in QUANTILES {
            assert!(latencies.contains(&format!("memif, {name}")), "{latencies}");
        }
        assert!(parts.contains("I/O") && !parts.contains(">all<"), "{parts}");
    }
}
