//! Throughput of whole servers: by data set, skew and mix; by connections; under published workloads.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Series};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Table};
use crate::results::measurement::Record;

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case throughput --quick --rounds 2 --seconds 0.12",
        "evaluation --case throughput --rounds 3 --seconds 0.2 --items 1048576 --datasets \
         tiny,small,large,xlarge",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

/// Data sets and what the lab calls them.
const SETS: [(&str, &str); 4] = [
    ("tiny (8-byte keys, 8-byte values)", "throughput, tiny, "),
    ("small (16/64)", "throughput, small, "),
    ("large (128/1024)", "throughput, large, "),
    ("x-large (250/1152)", "throughput, xlarge, "),
];

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("evaluation")?;
    let mut shown = Vec::new();
    for (name, prefix) in SETS {
        if records.iter().any(|record| record.case.starts_with(prefix)) {
            let title = format!("Requests per second of a server's core: {name}");
            let metric = ("per server-core-second", "requests per server-core-second");
            shown.push(Exhibit::Bars(grid::bars(&records, &title, metric, prefix)));
        }
    }
    let per_second = "Requests per second, median and spread";
    let table = grid::table(&records, per_second, "throughput", "throughput, ");
    shown.push(Exhibit::Table(table));
    shown.push(Exhibit::Bars(beside_published(&records)));
    shown.push(Exhibit::Table(published()));
    for way in ["native", "TCP"] {
        let title =
            format!("Requests per second of a server's core: Micanite ({way}) beside the others, times");
        let metric = format!("per server-core-second of micanite {way}");
        let table = grid::beside(&records, &title, &metric, "throughput, ");
        shown.push(Exhibit::Table(table));
    }
    for (way, peer, published) in [
        ("TCP", "memcached", ""),
        ("TCP", "Redis", ""),
        (
            "native",
            "memcached",
            "MICA 75.5 to 76.9 million on 16 cores, Memcached 0.7 million at its best number of cores",
        ),
    ] {
        let what = format!("Requests per second of a server core, {way}, tiny items, half of them SETs");
        let place = (
            "throughput, tiny, uniform, 50 % GET",
            &*format!("per server-core-second of micanite {way}"),
            peer,
        );
        shown.extend(grid::headline(&records, &what, place, published));
    }
    shown.extend(grid::energy(&records, "throughput, "));
    Ok(shown)
}

/// Rates of the talk's slides 5 and 20, in millions: under Zipf 0.99 with 50 and with 95 % GET, each system
/// at its best number of 16 cores. The paper's abstract says which of MICA's two is which.
const SYSTEMS: [(&str, [f64; 2]); 5] = [
    ("MICA", [70.4, 65.6]),
    ("Masstree", [6.5, 16.5]),
    ("RAMCloud", [1.0, 5.8]),
    ("MemC3", [0.9, 5.7]),
    ("Memcached", [0.7, 1.3]),
];

/// One core here, and what was published of 16.
fn beside_published(records: &[Record]) -> BarChart {
    const METRIC: &str = "throughput";
    let mixes = ["50 % GET", "95 % GET"];
    let contenders = grid::contenders(records, METRIC);
    let ours = contenders.iter().filter(|name| name.contains("micanite"));
    let peer = contenders.iter().find(|name| name.contains("memcached"));
    let measured = ours.chain(peer).map(|name| Series {
        name: format!("{name}, here"),
        kind: Kind::Measured,
        bars: mixes
            .iter()
            .map(|mix| {
                let case = format!("throughput, tiny, zipf 0.99, {mix}");
                grid::find(records, &case, METRIC, name).map(Record::bar)
            })
            .collect(),
    });
    let published = SYSTEMS.iter().map(|(name, rates)| Series {
        name: (*name).to_owned(),
        kind: Kind::Published,
        bars: rates.iter().map(|rate| Some(Bar::new(rate * 1e6))).collect(),
    });
    BarChart {
        title:
            "Tiny items, Zipf 0.99: one core and loopback here, up to 16 cores and DPDK in the published ones"
                .to_owned(),
        x: Axis::linear("requests/s"),
        groups: mixes.map(str::to_owned).to_vec(),
        series: measured.chain(published).collect(),
        arrangement: Arrangement::Beside,
        reference: None,
    }
}

/// Lists the numbers that the text of the paper and of its talk says.
fn published() -> Table {
    let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
    Table {
        title: "Published: million requests per second, MICA on 16 cores, the others on as many of them as \
                suit them best (MICA, abstract and 5.2; slides 5 and 20)"
            .to_owned(),
        columns: row(["case", "MICA", "Memcached", "MemC3", "RAMCloud", "Masstree"]),
        rows: vec![
            row([
                "tiny, uniform",
                "75.5 to 76.9",
                "0.7 (50 % GET), 1.3 (95 % GET)",
                "below 6.1",
                "below 6.1",
                "16.5 at most",
            ]),
            row(["tiny, Zipf 0.99, 50 % GET", "70.4", "0.7", "0.9", "1.0", "6.5"]),
            row(["tiny, Zipf 0.99, 95 % GET", "65.6", "1.3", "5.7", "5.8", "16.5"]),
            row(["large, 50 % GET", "12.6 to 14.6", "", "", "", ""]),
            row(["large, 95 % GET", "8.6 to 9.4", "", "", "", ""]),
        ],
    }
}

pub(super) fn connection_commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case connections --quick --rounds 2 --seconds 0.2",
        "evaluation --case connections --rounds 3 --seconds 0.3 --items 1048576",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

pub(super) fn draw_connections(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("evaluation")?;
    let mut shown = Vec::new();
    for (after, what) in [
        (", one in flight", "one request in flight on each"),
        (", pipelines of 16", "pipelines of 16 on each"),
    ] {
        let title = format!("Requests per second of a server's core: {what}");
        let x = ("connections, ", after, Axis::log("connections"));
        let y = Axis::linear("requests per server-core-second");
        let metric = ("per server-core-second", y);
        shown.push(Exhibit::Lines(grid::by_number(&records, &title, x, metric)));
    }
    let per_second = "Requests per second, median and spread";
    let table = grid::table(&records, per_second, "throughput", "connections, ");
    shown.push(Exhibit::Table(table));
    let title = "Requests per second of a server's core: Micanite beside the others, times";
    let metric = "per server-core-second of micanite TCP";
    shown.push(Exhibit::Table(grid::beside(&records, title, metric, "connections, ")));
    shown.extend(grid::energy(&records, "connections, "));
    Ok(shown)
}

pub(super) fn ycsb(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case ycsb --quick --rounds 3 --seconds 0.2 --items 1048576",
        "evaluation --case ycsb --rounds 5 --seconds 0.4",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

pub(super) fn innercache(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case innercache --quick --rounds 2 --seconds 0.15",
        "evaluation --case innercache --rounds 5 --seconds 0.3",
    );
    vec![Command::lab("evaluation", words).with_peers()]
}

pub(super) fn draw_workloads(results: &Results) -> Result<Vec<Exhibit>, String> {
    const PREFIX: &str = "workload, ";
    let records = results.records("evaluation")?;
    let per_core = ("per server-core-second", "operations per server-core-second");
    let title = "Operations per second of a server's core";
    let shown = vec![
        Exhibit::Bars(grid::bars(&records, title, per_core, PREFIX)),
        Exhibit::Table(grid::table(
            &records,
            "Operations per second, median and spread",
            "throughput",
            PREFIX,
        )),
        Exhibit::Table(grid::table(
            &records,
            "99th percentile of latency (us), every connection with 32 requests in flight",
            "99th percentile of latency",
            PREFIX,
        )),
        Exhibit::Table(grid::ratios(&records, "Micanite beside the others")),
    ];
    Ok(shown.into_iter().chain(grid::energy(&records, PREFIX)).collect())
}
