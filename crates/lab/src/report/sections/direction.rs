//! Direction of requests to their cores, and requests in a datagram.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Series};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section};
use crate::results::measurement::Record;

pub(super) const SECTION: Section = Section {
    id: "direction",
    title: "Request direction and client batching",
    question: "What is it worth that clients aim at the core that owns a key, and that they put several requests into a datagram?",
    source: "MICA (NSDI 2014), 5.5; billion-rps (TOCS 2016), figures 10 to 12",
    published: "MICA, tiny items, 50 % GET: 76.9 (uniform) and 70.4 (skewed) million requests per second directed by clients and the network card, 33.9 and 28.1 by software. billion-rps: 120.5 million requests per second with one request in a packet, 167.2 with four, 139 with 32; with four to a packet the 95th percentile at 120 million falls from 96 to 56 us.",
    differs: "Direction: two cores fed from memory instead of sixteen behind network cards that deliver for nothing. Batching: one core, whose time goes to the kernel's network stack for each datagram, so that a datagram costs more beside its requests than a packet did there, though the kernel joins datagrams of the native protocol on their way (GSO, GRO); latency is at half of each one's own peak and includes the wait of the first request for the last of its datagram. Beside memcached's multi-gets over TCP.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let direction = form.pick("net --quick --rounds 3 --items 262144", "net --rounds 3");
    let batches = form.pick(
        "evaluation --case batches --quick --rounds 2 --seconds 0.2",
        "evaluation --case batches --rounds 5 --seconds 0.3 --items 1048576",
    );
    let direction = Command::lab("net", &format!("{direction} --case"))
        .with("request direction on two cores, fed from memory");
    vec![
        match super::cores() {
            1 => direction.lacking("Direction needs two cores."),
            _ => direction,
        },
        Command::lab("evaluation", batches),
    ]
}

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let mut shown = Vec::new();
    let [direction, records] = grid::either(results, ["net", "evaluation"])?;
    if !direction.is_empty() {
        shown.push(Exhibit::Bars(directed(&direction)));
        let place = (
            "request direction on two cores, fed from memory, uniform, 50 % GET",
            "by rings over directed",
            "directed by the client",
        );
        let what = "Requests handed over by software, uniform, 50 % GET";
        let published = "MICA: 33.9 of 76.9 million, 0.44 times";
        shown.extend(grid::headline(&direction, what, place, published));
    }
    if records.is_empty() {
        return Ok(shown);
    }
    for (metric, title, axis) in [
        ("throughput", "Requests per second by requests in a datagram", "throughput (requests/s)"),
        ("p50 at half of the peak", "Median latency at half of the peak", "p50 (us)"),
        ("p95 at half of the peak", "95th percentile at half of the peak", "p95 (us)"),
    ] {
        let x = ("batches of ", "", Axis::log("requests in a datagram, keys in a multi-get"));
        let y = match metric {
            "throughput" => Axis::linear(axis),
            _ => Axis::log(axis),
        };
        shown.push(Exhibit::Lines(grid::by_number(&records, title, x, (metric, y))));
    }
    let per_core = "Requests per second of a server's core, median and spread";
    let table = grid::table(&records, per_core, "per server-core-second", "");
    shown.push(Exhibit::Table(table));
    Ok(shown)
}

/// By rings over directed: measured, and published.
fn directed(records: &[Record]) -> BarChart {
    let measured: Vec<_> = records.iter().filter(|record| record.ratio.is_some()).collect();
    let name = |record: &&Record| {
        let load = record.case.split_once("fed from memory, ");
        load.map_or(&*record.case, |(_, load)| load).to_owned()
    };
    let of_the_paper = |record: &&Record| {
        let paper =
            |other: &&Record| other.case == record.case && other.metric.starts_with("the paper's ratio");
        records.iter().find(paper).map(|paper| Bar::new(paper.value))
    };
    let series = |name: &str, kind, bars| Series { name: name.to_owned(), kind, bars };
    BarChart {
        title: "Handed over by software, beside directed by clients".to_owned(),
        x: Axis::linear("requests per second: ratio to directed by clients"),
        groups: measured.iter().map(name).collect(),
        series: vec![
            series(
                "two cores, here",
                Kind::Measured,
                measured.iter().map(|record| record.ratio_bar()).collect(),
            ),
            series("16 cores, MICA", Kind::Published, measured.iter().map(of_the_paper).collect()),
        ],
        arrangement: Arrangement::Beside,
        reference: Some(1.0),
    }
}
