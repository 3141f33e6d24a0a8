//! Latency against throughput, as SVG.

use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point};

use crate::report::{Latency, Report};

/// A line by its name.
type Percentile = (&'static str, fn(&Latency) -> f64);

const LINES: [Percentile; 4] = [
    ("p50", |latency| latency.p50),
    ("p95", |latency| latency.p95),
    ("p99", |latency| latency.p99),
    ("p99.9", |latency| latency.p999),
];

/// Draws the runs, joined in the order of their rates.
pub(crate) fn draw(title: &str, reports: &[Report]) -> String {
    let mut runs: Vec<_> = reports.iter().collect();
    let rate = |report: &Report| report.offered_ops.unwrap_or(report.throughput_ops);
    runs.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let line = |(name, latency_us): Percentile| Line {
        name: name.to_owned(),
        kind: Kind::Measured,
        points: runs.iter().map(|run| Point::new(run.throughput_ops, latency_us(&run.latency_us))).collect(),
    };
    LineChart {
        title: title.to_owned(),
        x: Axis::linear("throughput (operations/s)"),
        y: Axis::log("latency (us)"),
        lines: LINES.map(line).into(),
    }
    .svg()
}
