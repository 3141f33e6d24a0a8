//! The plan as figures.

use micanite_workload::figure::{
    Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series, short,
};

use super::{ModePlan, Plan, Resource};

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Line {
    Line {
        name: name.to_owned(),
        kind: Kind::Measured,
        points: points.map(|(x, y)| Point::new(x, y)).collect(),
    }
}

/// Unit of memory.
const MIB: f64 = (1u64 << 20) as f64;

/// Returns a figure for each part.
pub fn all(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut all = vec![("throughput.svg", throughput(plan)), ("cores.svg", cores(plan))];
    if let Some(mode) = plan.recommended() {
        all.push(("latency.svg", latency(mode)));
    }
    all.push(("batching.svg", batching(plan)));
    all.extend([
        ("servers.svg", servers(plan)),
        ("memory.svg", memory(plan)),
        ("resources.svg", resources(plan)),
    ]);
    if !plan.power.is_empty() {
        all.push(("power.svg", power(plan)));
    }
    if !plan.misses.is_empty() {
        let chart = LineChart {
            title: "Reads that miss against memory".to_owned(),
            x: Axis::log("memory (MiB)"),
            y: Axis::linear("share of reads"),
            lines: vec![line("the trace", plan.misses.iter().map(|(bytes, share)| (bytes / MIB, *share)))],
        };
        all.push(("misses.svg", chart.svg()));
    }
    all
}

fn bars(name: &str, values: impl Iterator<Item = Option<f64>>) -> Series {
    Series {
        name: name.to_owned(),
        kind: Kind::Measured,
        bars: values.map(|value| value.map(Bar::new)).collect(),
    }
}

fn throughput(plan: &Plan) -> String {
    let of = |name: &str, value: &dyn Fn(&ModePlan) -> Option<f64>| bars(name, plan.modes.iter().map(value));
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

/// Requests of a server in the mean and of the busiest one, before and after the loss of one.
fn servers(plan: &Plan) -> String {
    let (fleet, rate) = (&plan.fleet, plan.load.rate);
    let mean = |servers: usize| (servers > 0).then(|| rate / servers as f64);
    let after = fleet.loss.map(|loss| loss.load_factor * fleet.busiest_rate);
    let mut title = format!("Servers: {}", fleet.servers);
    if fleet.servers > 1 {
        title += &format!(", the busiest with {:.2} times the mean of the keys", fleet.spread);
    }
    let hits = fleet.loss.map_or(0.0, |loss| loss.hit_ratio * 100.0);
    let chart = BarChart {
        title,
        x: Axis::linear("requests/s of a server (dashed: at most within the target)"),
        groups: vec!["all there".to_owned(), format!("one lost, {hits:.1} % hits left")],
        series: vec![
            bars("mean", [mean(fleet.servers), mean(fleet.servers - 1)].into_iter()),
            bars("busiest (ketama)", [Some(fleet.busiest_rate), after].into_iter()),
        ],
        arrangement: Arrangement::Beside,
        reference: Some(plan.server_rate),
    };
    chart.svg()
}

fn memory(plan: &Plan) -> String {
    let all: f64 = plan.memory.iter().map(|(_, bytes)| bytes).sum();
    let largest = plan.fleet.largest_memory_bytes / all;
    let parts = plan.memory.iter().map(|(part, bytes)| {
        bars(
            &format!("{part} ({})", short(*bytes)),
            [1.0, largest].into_iter().map(|share| Some(bytes * share)),
        )
    });
    let chart = BarChart {
        title: "Memory with overhead".to_owned(),
        x: Axis::linear("bytes (legend: of all servers)"),
        groups: vec!["all servers".to_owned(), "server with most keys".to_owned()],
        series: parts.collect(),
        arrangement: Arrangement::Stacked,
        reference: None,
    };
    chart.svg()
}

fn resources(plan: &Plan) -> String {
    let group = |at: &Resource| format!("{}: {}/{} {}", at.name, short(at.used), short(at.limit), at.unit);
    let chart = BarChart {
        title: "Resources of the busiest server".to_owned(),
        x: Axis::linear("% of the limit"),
        groups: plan.resources.iter().map(group).collect(),
        series: vec![bars("", plan.resources.iter().map(|at| Some(at.used / at.limit * 100.0)))],
        arrangement: Arrangement::Beside,
        reference: Some(100.0),
    };
    chart.svg()
}

fn power(plan: &Plan) -> String {
    let parts = plan.power.iter().map(|at| at.parts.len()).max().unwrap_or(0);
    let part = |number: usize| {
        let name = plan.power[0].parts[number].0;
        bars(name, plan.power.iter().map(move |at| Some(at.parts[number].1)))
    };
    let chart = BarChart {
        title: "Power of a server".to_owned(),
        x: Axis::linear("W"),
        groups: plan.power.iter().map(|at| format!("{}, {} requests/s", at.name, short(at.rate))).collect(),
        series: (0..parts).map(part).collect(),
        arrangement: Arrangement::Stacked,
        reference: None,
    };
    chart.svg()
}
