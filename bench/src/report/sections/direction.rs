//! Direction of requests to their cores, and requests in a datagram.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Series};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results};
use crate::results::measurement::Record;

pub(super) fn commands(form: Form) -> Vec<Command> {
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

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
        ("network for requests", "What the requests take of an Ethernet", "Gb/s"),
        ("network for replies", "What the replies take of an Ethernet", "Gb/s"),
        ("p50 at half of the peak", "Median latency at half of the peak", "p50 (us)"),
        ("p95 at half of the peak", "95th percentile at half of the peak", "p95 (us)"),
    ] {
        let x = ("batches of ", "", Axis::log("requests in a datagram, keys in a multi-get"));
        let y = match metric {
            "throughput" | "network for requests" | "network for replies" => Axis::linear(axis),
            _ => Axis::log(axis),
        };
        shown.push(Exhibit::Lines(grid::by_number(&records, title, x, (metric, y))));
    }
    let per_core = "Requests per second of a server's core, median and spread";
    let table = grid::table(&records, per_core, "per server-core-second", "");
    shown.push(Exhibit::Table(table));
    shown.extend(grid::energy(&records, ""));
    Ok(shown)
}

/// Draws the ratio of requests by rings to directed ones: measured, and published.
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
