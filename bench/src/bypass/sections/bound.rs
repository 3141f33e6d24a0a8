//! Requests per datagram around the kernel's network stack, and the engine alone as their bound.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series};

use crate::report::machine;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::report::sections::grid;
use crate::results::measurement::Record;

const PORTS: &str = "bench-bypass";
const ENGINE: &str = "engine";
const THROUGHPUT: &str = "throughput_ops";
/// Loads with a bound: names, cases over memif, and cases of the engine.
const LOADS: [(&str, &str, &str); 4] = [
    ("uniform, 95 % GET", "memif/tiny/95", "tiny 8/8 uniform 95 % GET"),
    ("uniform, 50 % GET", "memif/tiny/50", "tiny 8/8 uniform 50 % GET"),
    ("Zipf 0.99, 95 % GET", "memif/zipf/95", "tiny 8/8 zipf 0.99 95 % GET"),
    ("Zipf 0.99, 50 % GET", "memif/zipf/50", "tiny 8/8 zipf 0.99 50 % GET"),
];
/// Sweeps of requests per datagram.
const SWEEPS: [(&str, &str); 3] = [
    ("memif, 95 % GET", "memif/tiny/95"),
    ("memif, 50 % GET", "memif/tiny/50"),
    ("xdp, 95 % GET", "xdp/tiny/95"),
];

pub(crate) fn commands(form: Form) -> Vec<Command> {
    let words = form
        .pick("bypass --quick --rounds 2 --items 4194304 --case batches", "bypass --rounds 3 --case batches");
    let mut ports = Command::lab(PORTS, words);
    ports.lacks = machine::lacks_root();
    let words = form.pick("engine --quick --rounds 2 --items 4194304", "engine --rounds 3 --items 16777216");
    let engine = LOADS
        .iter()
        .fold(Command::lab(ENGINE, words), |command, (_, _, case)| command.with("--case").with(*case));
    vec![ports, engine]
}

pub(crate) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let [ports, engine] = grid::either(results, [PORTS, ENGINE])?;
    let alone: Vec<_> = ports.iter().filter(|record| record.ratio.is_none()).cloned().collect();
    let x = || Axis::log("requests per datagram");
    let mut shown = vec![
        Exhibit::Bars(bound(&ports, &engine)),
        Exhibit::Lines(LineChart {
            title: "Throughput of one server core by requests per datagram".to_owned(),
            x: x(),
            y: Axis::linear("requests/s"),
            lines: SWEEPS.iter().map(|(name, case)| line(&ports, name, case, THROUGHPUT)).collect(),
        }),
        Exhibit::Lines(LineChart {
            title: "What it takes of an Ethernet, by requests per datagram".to_owned(),
            x: x(),
            y: Axis::linear("Gb/s"),
            lines: SWEEPS
                .iter()
                .flat_map(|(name, case)| {
                    ["requests", "replies"].map(|what| {
                        let name = format!("{name}, {what}");
                        line(&ports, &name, case, &format!("network, {what}"))
                    })
                })
                .collect(),
        }),
        Exhibit::Table(grid::values(&alone, "Median and spread by requests per datagram")),
        Exhibit::Table(grid::ratios(&ports, "Requests per datagram beside fewer")),
    ];
    for chart in &mut shown {
        if let Exhibit::Lines(chart) = chart {
            chart.lines.retain(|line| !line.points.is_empty());
        }
    }
    let place = ("memif/tiny/95/batches/4", THROUGHPUT, "1 per packet");
    let what = "Four requests in a datagram over DPDK's shared memory, 95 % GET";
    shown.extend(grid::headline(&ports, what, place, "billion-rps: 167.2 of 120.5 million, 1.39 times"));
    Ok(shown)
}

/// A metric by the requests per datagram.
fn line(records: &[Record], name: &str, case: &str, metric: &str) -> Line {
    let prefix = format!("{case}/batches/");
    let points = records.iter().filter(|record| record.metric == metric).filter_map(|record| {
        let requests = record.case.strip_prefix(&prefix)?.parse().ok()?;
        let Bar { value, low, high } = record.bar();
        Some(Point { x: requests, y: value, low, high })
    });
    Line { name: name.to_owned(), kind: Kind::Measured, points: points.collect() }
}

/// End to end with one and with four requests per datagram, beside the engine with requests from memory.
fn bound(ports: &[Record], engine: &[Record]) -> BarChart {
    let bar = |records: &[Record], case: &str, metric: &str| {
        let record = records.iter().find(|record| record.case == case && record.metric == metric)?;
        let Bar { value, low, high } = record.bar();
        let unit = if record.unit == "M/s" { 1e6 } else { 1.0 };
        Some(Bar { value: value * unit, low: low * unit, high: high * unit })
    };
    let end_to_end = |batch: usize| -> Vec<Option<Bar>> {
        let of = |case: &str| bar(ports, &format!("{case}/batches/{batch}"), THROUGHPUT);
        LOADS.iter().map(|(_, case, _)| of(case)).collect()
    };
    let alone = LOADS.iter().map(|(_, _, case)| bar(engine, case, "operations per core")).collect();
    let series = |name: &str, bars| Series { name: name.to_owned(), kind: Kind::Measured, bars };
    BarChart {
        title: "End to end over memif, beside the engine alone: one core, tiny items".to_owned(),
        x: Axis::linear("requests/s"),
        groups: LOADS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        series: vec![
            series("1 request per datagram", end_to_end(1)),
            series("4 requests per datagram", end_to_end(4)),
            series("the engine, requests from memory", alone),
        ],
        arrangement: Arrangement::Beside,
        reference: None,
    }
}
