//! Throughput and memory against the number of items.

use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::measurement::Record;

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick("items --quick --rounds 3", "items --rounds 3");
    vec![Command::lab("items", words)]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("items")?;
    let rates = LineChart {
        title: "Operations per second of one core, 95 % GET, tiny items".to_owned(),
        x: Axis::log("items"),
        y: Axis::linear("operations/s"),
        lines: lines(&records, "throughput", &["uniform", "zipf 0.99"]),
    };
    let memory = LineChart {
        title: "Memory of an item with 16 bytes of key and value".to_owned(),
        x: Axis::log("items"),
        y: Axis::linear("bytes per item"),
        // Below that, what every process has shows.
        lines: lines(&records, "memory", &[""])
            .into_iter()
            .map(|mut line| {
                line.points.retain(|point| point.x >= (1 << 20) as f64);
                line
            })
            .collect(),
    };
    let filling = records.iter().filter(|record| record.metric.starts_with("filling"));
    let filling: Vec<Record> = filling.cloned().collect();
    Ok(vec![
        Exhibit::Lines(rates),
        Exhibit::Lines(memory),
        Exhibit::Table(grid::table(&filling, "Time to store all items once (s)", "filling", "")),
        Exhibit::Table(grid::ratios(&records, "Micanite's engine beside hashbrown")),
    ])
}

fn lines(records: &[Record], metric: &str, laws: &[&str]) -> Vec<Line> {
    let mut lines = Vec::new();
    for law in laws {
        for contender in grid::contenders(records, metric) {
            let whole = format!("{metric}, {contender}");
            let point = |record: &Record| {
                let (items, rest) = record.case.split_once(" items")?;
                let is_it = record.metric == whole && rest.contains(law);
                let bar = record.bar();
                is_it.then_some(Point { x: items.parse().ok()?, y: bar.value, low: bar.low, high: bar.high })
            };
            lines.push(Line {
                name: match *law {
                    "" => contender.to_owned(),
                    law => format!("{contender}, {law}"),
                },
                kind: Kind::Measured,
                points: records.iter().filter_map(point).collect(),
            });
        }
    }
    lines
}
