//! Predictions of `micanite plan` beside measurements.

use micanite_workload::figure::{
    Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series, short,
};

use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::results::measurement::Record;

/// Start of the cases of the paper's figures.
const PAPER: &str = "paper, ";

pub(crate) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("plan --quick --rounds 3 --seconds 1", "plan --rounds 5 --seconds 2");
    vec![Command::lab("plan", words)]
}

pub(crate) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("plan")?;
    let (paper, here): (Vec<Record>, Vec<Record>) =
        records.into_iter().partition(|record| record.case.starts_with(PAPER));
    let mut shown = Vec::new();
    for (metric, title, axis) in [
        ("throughput", "Throughput of this machine", "throughput (requests/s)"),
        ("p95 at a fifth of the load", "95th percentile at a fifth of the load", "p95 (us)"),
        ("p95 at half load", "95th percentile at half load", "p95 (us)"),
    ] {
        let pairs = pairs(&here, &format!("{metric}, predicted"), &format!("{metric}, measured"));
        if pairs.is_empty() {
            continue;
        }
        shown.push(Exhibit::Bars(bars(title, axis, &pairs)));
        shown.push(Exhibit::Table(table(title, ["case", "predicted", "measured"], &pairs)));
        if metric == "throughput" {
            shown.push(headline(&pairs));
        }
    }
    let published = pairs(&paper, "model", "paper");
    shown.push(Exhibit::Lines(latencies(&published)));
    shown.push(Exhibit::Table(table("Figures of the papers", ["figure", "model", "paper"], &published)));
    Ok(shown)
}

/// A prediction and what was found.
struct Pair {
    case: String,
    predicted: Record,
    found: Record,
}

impl Pair {
    fn error(&self) -> f64 {
        self.predicted.value / self.found.value - 1.0
    }
}

fn pairs(records: &[Record], predicted: &str, found: &str) -> Vec<Pair> {
    let of = |case: &str, metric: &str| {
        records.iter().find(|record| record.case == case && record.metric == metric).cloned()
    };
    let predictions = records.iter().filter(|record| record.metric == predicted);
    let pair = |record: &Record| {
        let case = record.case.trim_start_matches(PAPER).to_owned();
        Some(Pair { case, predicted: record.clone(), found: of(&record.case, found)? })
    };
    predictions.filter_map(pair).collect()
}

fn bars(title: &str, axis: &str, pairs: &[Pair]) -> BarChart {
    let series = |name: &str, bar: &dyn Fn(&Pair) -> Bar| Series {
        name: name.to_owned(),
        kind: Kind::Measured,
        bars: pairs.iter().map(|pair| Some(bar(pair))).collect(),
    };
    BarChart {
        title: title.to_owned(),
        x: Axis::linear(axis),
        groups: pairs.iter().map(|pair| pair.case.clone()).collect(),
        series: vec![
            series("predicted", &|pair| Bar::new(pair.predicted.value)),
            series("measured", &|pair| pair.found.bar()),
        ],
        arrangement: Arrangement::Beside,
        reference: None,
    }
}

fn table(title: &str, columns: [&str; 3], pairs: &[Pair]) -> Table {
    let mut columns: Vec<_> = columns.map(str::to_owned).to_vec();
    columns.extend(["unit".to_owned(), "error".to_owned()]);
    let row = |pair: &Pair| {
        vec![
            pair.case.clone(),
            short(pair.predicted.value),
            short(pair.found.value),
            pair.found.unit.clone(),
            format!("{:+.1} %", pair.error() * 100.0),
        ]
    };
    Table { title: title.to_owned(), columns, rows: pairs.iter().map(row).collect() }
}

fn headline(pairs: &[Pair]) -> Exhibit {
    let worst = pairs.iter().map(|pair| pair.error().abs()).fold(0.0, f64::max);
    let near = pairs.iter().filter(|pair| pair.error().abs() <= 0.15).count();
    Exhibit::Headline(Headline {
        what: "Throughput of this machine, predicted by micanite plan".to_owned(),
        ours: format!(
            "{near} of {} within 15 % of what was measured, the worst {:.0} % off",
            pairs.len(),
            worst * 100.0
        ),
        published: "billion-rps states no errors of its simulation".to_owned(),
    })
}

/// Latency against throughput on 24 cores: the paper's points beside the model's.
fn latencies(pairs: &[Pair]) -> LineChart {
    let mut lines = Vec::new();
    for quantile in ["p95", "p99", "p99.9"] {
        for (batches, name) in [(false, "one per datagram"), (true, "batches of 4")] {
            let of = |pair: &&Pair| {
                let is_it = pair.case.contains(&format!(", {quantile} at "));
                is_it && pair.case.contains("batches") == batches
            };
            let rate = |pair: &Pair| -> Option<f64> {
                let (_, after) = pair.case.split_once(" at ")?;
                after.split(' ').next()?.parse().ok()
            };
            let mut line = |kind, who: &str, value: &dyn Fn(&Pair) -> f64| {
                let mut points: Vec<Point> = pairs
                    .iter()
                    .filter(of)
                    .filter_map(|pair| Some(Point::new(rate(pair)?, value(pair))))
                    .collect();
                points.sort_by(|one, other| one.x.total_cmp(&other.x));
                lines.push(Line { name: format!("{quantile}, {name}, {who}"), kind, points });
            };
            line(Kind::Measured, "model", &|pair| pair.predicted.value);
            line(Kind::Published, "paper", &|pair| pair.found.value);
        }
    }
    lines.retain(|line| !line.points.is_empty());
    LineChart {
        title: "Latency of the paper's lab against throughput".to_owned(),
        x: Axis::fitted("throughput (million requests/s)"),
        y: Axis::log("latency (us)"),
        lines,
    }
}
