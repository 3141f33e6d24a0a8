//! The plan as figures.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series};

use super::{ModePlan, Plan};

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Line {
    Line {
        name: name.to_owned(),
        kind: Kind::Measured,
        points: points.map(|(x, y)| Point::new(x, y)).collect(),
    }
}

/// Returns a figure for each part.
pub fn all(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut all = vec![("throughput.svg", throughput(plan)), ("cores.svg", cores(plan))];
    if let Some(mode) = plan.recommended() {
        all.push(("latency.svg", latency(mode)));
    }
    all.push(("batching.svg", batching(plan)));
    if !plan.misses.is_empty() {
        let chart = LineChart {
            title: "Reads that miss against memory".to_owned(),
            x: Axis::log("memory (bytes)"),
            y: Axis::linear("share of reads"),
            lines: vec![line("the trace", plan.misses.iter().copied())],
        };
        all.push(("misses.svg", chart.svg()));
    }
    all
}

fn throughput(plan: &Plan) -> String {
    let of = |name: &str, value: &dyn Fn(&ModePlan) -> Option<f64>| Series {
        name: name.to_owned(),
        kind: Kind::Measured,
        bars: plan.modes.iter().map(|mode| value(mode).map(Bar::new)).collect(),
    };
    let chart = BarChart {
        title: format!("Throughput of {}", plan.machine),
        x: Axis::linear("requests/s"),
        groups: plan
            .modes
            .iter()
            .map(|mode| format!("{} ({})", mode.mode.name(), mode.bottleneck.name()))
            .collect(),
        series: vec![
            of("at most", &|mode| Some(mode.throughput)),
            of("within the target", &|mode| mode.within_target.map(|point| point.rate)),
        ],
        arrangement: Arrangement::Beside,
        reference: None,
    };
    chart.svg()
}

fn cores(plan: &Plan) -> String {
    let cdf = |mode: &ModePlan| {
        let count = mode.core_loads.len() as f64;
        let points = mode.core_loads.iter().enumerate().map(|(at, load)| (*load, (at + 1) as f64 / count));
        line(mode.mode.name(), points.collect::<Vec<_>>().into_iter())
    };
    let chart = LineChart {
        title: "Load of the cores".to_owned(),
        x: Axis::linear("load over that of the hottest core"),
        y: Axis::linear("share of the cores"),
        lines: plan.modes.iter().map(cdf).collect(),
    };
    chart.svg()
}

fn latency(mode: &ModePlan) -> String {
    let of = |name: &str, value: fn(&crate::simulate::Percentiles) -> f64| {
        line(name, mode.latency.iter().map(|point| (point.rate, value(&point.latency))))
    };
    let chart = LineChart {
        title: format!("Latency against the rate, {}", mode.mode.name()),
        x: Axis::linear("requests/s"),
        y: Axis::log("latency (us)"),
        lines: vec![
            of("mean", |at| at.mean_us),
            of("p50", |at| at.p50_us),
            of("p95", |at| at.p95_us),
            of("p99", |at| at.p99_us),
            of("p99.9", |at| at.p999_us),
        ],
    };
    chart.svg()
}

/// Delay of batching, with the lines of figure 13: the mean round trip, and a tenth of it.
fn batching(plan: &Plan) -> String {
    let delays = plan.batching.iter().map(|(batch, delay)| (f64::from(*batch), *delay));
    let mean = plan.recommended().and_then(|mode| mode.within_target).map(|point| point.latency.mean_us);
    let mut lines = vec![line("delay (equation 1)", delays)];
    for (name, part) in [("mean round trip", 1.0), ("10 % of it", 0.1)] {
        let level = |mean: f64| plan.batching.iter().map(move |(batch, _)| (f64::from(*batch), mean * part));
        lines.extend(mean.map(|mean| line(name, level(mean))));
    }
    let chart = LineChart {
        title: "Delay of batching at a client".to_owned(),
        x: Axis::log("requests per datagram"),
        y: Axis::log("delay (us)"),
        lines,
    };
    chart.svg()
}
