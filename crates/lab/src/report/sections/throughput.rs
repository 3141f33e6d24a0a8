//! Throughput by data set, skew and mix.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Series};

use super::grid;
use crate::report::section::{Command, Exhibit, Form, Results, Section, Table};
use crate::results::measurement::Record;

pub(super) const SECTION: Section = Section {
    id: "throughput",
    title: "Throughput by data set, skew and mix",
    question: "How many requests does a server's core answer, whatever the items, their popularity and the share of writes?",
    source: "MICA (NSDI 2014), figure 10",
    published: "MICA on 16 cores with eight 10 GbE ports: 75.5 to 76.9 million requests per second of tiny items under uniform popularity and 65.6 to 70.5 under Zipf 0.99, at 50 and 95 % GET; large items, where the network was the limit, 12.6 to 14.6 at 50 % and 8.6 to 9.4 at 95 % GET. Over the same network stack and at its best number of cores, Masstree came to 16.5 million at most, Memcached, MemC3 and RAMCloud below 6.1.",
    differs: "One core of a virtual machine and the kernel's network stack over loopback instead of 16 cores and DPDK, so that the network's part of a request is many times MICA's. Streams carry pipelines of 32 on four connections and native datagrams 16 requests, where MICA's clients sent one request in a packet. memcached runs with -R 64, without which it takes 20 requests of a pipeline at a time; its version 1.6.18 answers each GET of a pipeline by a system call of its own, which later ones do not. Fewer items: 1 Mi tiny ones in the full form, 512 Ki in the short one, and as many bytes of the others. Clients are closed loops.",
    commands,
    draw,
};

fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "evaluation --case throughput --quick --rounds 2 --seconds 0.12",
        "evaluation --case throughput --rounds 3 --seconds 0.2 --items 1048576 --datasets tiny,small,large,xlarge",
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

fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
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
    Ok(shown)
}

/// By the talk's slides 5 and 20, in millions: under Zipf 0.99 with 50 and with 95 % GET, each system at
/// its best number of 16 cores. Which of MICA's two is which says the paper's abstract.
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

/// Only what the text of the paper and of its talk says.
fn published() -> Table {
    let row = |cells: [&str; 6]| cells.map(str::to_owned).to_vec();
    Table {
        title: "Published: million requests per second, MICA on 16 cores, the others on as many of them as suit them best (MICA, abstract and 5.2; slides 5 and 20)"
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
            row([
                "tiny, Zipf 0.99, 50 % GET",
                "70.4",
                "0.7",
                "0.9",
                "1.0",
                "6.5",
            ]),
            row([
                "tiny, Zipf 0.99, 95 % GET",
                "65.6",
                "1.3",
                "5.7",
                "5.8",
                "16.5",
            ]),
            row(["large, 50 % GET", "12.6 to 14.6", "", "", "", ""]),
            row(["large, 95 % GET", "8.6 to 9.4", "", "", "", ""]),
        ],
    }
}
