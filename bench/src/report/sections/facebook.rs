//! Facebook's pools: GETs in the kernel and outside of it, beside memcached.

use micanite_workload::figure::{Arrangement, Axis, Bar, BarChart, Kind, Line, LineChart, Point, Series};

use super::grid::value;
use crate::report::machine;
use crate::report::section::{Command, Exhibit, Form, Results, Table};
use crate::results::charts;
use crate::results::measurement::Record;

const POOLS: [&str; 5] = ["usr", "etc", "app", "var", "sys"];
/// Peaks of Hippos beside Memcached, where the text says them.
const HIPPOS_1_GBPS: [Option<f64>; 5] = [Some(1.98), Some(1.41), Some(1.15), Some(2.5), Some(1.33)];
const HIPPOS_10_GBPS: [Option<f64>; 5] = [None, Some(2.4), Some(2.0), None, Some(6.9)];
/// Table 2.1 of the dissertation.
const HIT_PERCENT: [f64; 5] = [98.2, 81.4, 92.9, 93.7, 98.7];
const SERVERS: [&str; 4] = ["memcached", "kernel-udp", "af-xdp", "kernel-get"];
const MIXES: [u32; 4] = [100, 90, 50, 0];

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "kernel --quick --rounds 2 --keys 131072 --case kernel/fb-usr --case kernel/fb-etc --case \
         kernel/mix/100",
        "kernel --quick --rounds 5 --case kernel/fb --case kernel/mix",
    );
    let mut command = Command::lab("bench-kernel", words);
    command.lacks = machine::lacks_root().or_else(machine::lacks_memcached);
    vec![command]
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("bench-kernel")?;
    let mut shown = vec![
        Exhibit::Bars(ratios(&records)),
        Exhibit::Bars(charts::values(
            ("Requests per second, mean latency within a millisecond", "requests/s"),
            &records,
            |record| {
                let (case, server) = record.case.rsplit_once('/')?;
                let is_shown = record.metric == "requests_per_second" && case.contains("/fb-");
                is_shown.then_some((pool(case), server))
            },
        )),
        Exhibit::Table(hits(&records)),
        Exhibit::Table(latencies(&records)),
    ];
    for mix in MIXES {
        let chart = curves(&records, mix);
        if !chart.lines.is_empty() {
            shown.push(Exhibit::Lines(chart));
        }
    }
    if records.iter().any(|record| record.metric == "energy") {
        let note = "Energy is that of the machine's packages (RAPL), client included.";
        shown.push(Exhibit::Note(note.to_owned()));
    }
    Ok(shown)
}

/// GETs per second of the server's core beside memcached, and Hippos beside its Memcached.
fn ratios(records: &[Record]) -> BarChart {
    let ours = POOLS.map(|pool| {
        let case = format!("kernel/fb-{pool}");
        let is_it = |record: &&Record| record.case == case && record.peer.as_deref() == Some("memcached");
        records.iter().find(is_it).and_then(Record::ratio_bar)
    });
    // Our ratios at peak, to compare with those of Hippos.
    let peaks = POOLS.map(|pool| {
        let of = |server: &str| {
            let case = format!("kernel/fb-{pool}/{server}");
            value(records, &case, "requests_per_second")
        };
        Some(Bar::new(of("kernel-get")? / of("memcached")?))
    });
    let series = |name: &str, kind, bars: Vec<Option<Bar>>| Series { name: name.to_owned(), kind, bars };
    let hippos = |peaks: [Option<f64>; 5]| peaks.map(|peak| peak.map(Bar::new)).into();
    BarChart {
        title: "GETs answered in the kernel, beside memcached".to_owned(),
        x: Axis::linear("ratio to memcached"),
        groups: POOLS.map(str::to_uppercase).into(),
        series: vec![
            series("Micanite, GETs per second of the server's core", Kind::Measured, ours.into()),
            series("Micanite, peak", Kind::Measured, peaks.into()),
            series("Hippos, peak, 1 Gb/s", Kind::Published, hippos(HIPPOS_1_GBPS)),
            series("Hippos, peak, 10 Gb/s", Kind::Published, hippos(HIPPOS_10_GBPS)),
        ],
        arrangement: Arrangement::Beside,
        reference: Some(1.0),
    }
}

/// Name of a case's pool in the dissertation.
fn pool(case: &str) -> &str {
    let names = ["USR", "ETC", "APP", "VAR", "SYS"];
    let word = case.rsplit('-').next().unwrap_or_default();
    let known = names.into_iter().find(|name| name.eq_ignore_ascii_case(word));
    known.unwrap_or(case)
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn hits(records: &[Record]) -> Table {
    let mut table = Table {
        title: "Hit rate of the GETs (%)".to_owned(),
        columns: ["pool", "published"].into_iter().chain(SERVERS).map(str::to_owned).collect(),
        rows: Vec::new(),
    };
    for (pool, published) in POOLS.iter().zip(HIT_PERCENT) {
        let of = |server: &&str| value(records, &format!("kernel/fb-{pool}/{server}"), "hits");
        let measured: Vec<_> = SERVERS.iter().map(of).collect();
        if measured.iter().any(Option::is_some) {
            let mut row = vec![pool.to_uppercase(), cell(Some(published), 1)];
            row.extend(measured.into_iter().map(|percent| cell(percent, 1)));
            table.rows.push(row);
        }
    }
    table
}

/// Lists latencies as the dissertation's table 3.4: at low, medium and high load for memcached.
fn latencies(records: &[Record]) -> Table {
    const METRICS: [&str; 7] = [
        "get_latency",
        "get_median",
        "update_latency",
        "update_median",
        "delete_latency",
        "thread_time",
        "energy",
    ];
    let columns = [
        "load and server",
        "GET (us)",
        "GET, median (us)",
        "UPDATE (us)",
        "UPDATE, median (us)",
        "DELETE (us)",
        "CPU of the server's threads (s per million requests)",
        "energy (J per million requests)",
    ];
    let mut cases: Vec<_> =
        records.iter().map(|record| record.case.as_str()).filter(|case| case.contains("/latency/")).collect();
    cases.dedup();
    let row = |case: &&str| {
        let name = case.trim_start_matches("kernel/fb-").replace("/latency/", ", ");
        let metrics = METRICS.iter().map(|metric| cell(value(records, case, metric), 1));
        [name.replace('/', ", ").replace("k, s", "k/s")].into_iter().chain(metrics).collect()
    };
    Table {
        title: "Mean latency at a quarter, a half and three quarters of memcached's peak".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: cases.iter().map(row).collect(),
    }
}

/// Latency against the rate, of a mix of GET over UDP and SET over TCP.
fn curves(records: &[Record], get_percent: u32) -> LineChart {
    let mut lines: Vec<Line> = Vec::new();
    for server in SERVERS {
        let case = format!("kernel/mix/{get_percent}/{server}");
        let point = |record: &Record| {
            let rate = record.metric.strip_prefix("at ")?.strip_suffix(" k/s")?;
            let rate: f64 = rate.parse().ok()?;
            let Bar { value, low, high } = record.bar();
            Some(Point { x: rate * 1e3, y: value, low, high })
        };
        let of_case = records.iter().filter(|record| record.case == case);
        let points: Vec<_> = of_case.filter_map(point).collect();
        if !points.is_empty() {
            lines.push(Line { name: server.to_owned(), kind: Kind::Measured, points });
        }
    }
    LineChart {
        title: format!(
            "Mean latency of {get_percent} % GET over UDP, the rest SET over TCP; 20-byte keys and values"
        ),
        x: Axis::linear("requests/s"),
        y: Axis::log("mean latency (us)"),
        lines,
    }
}
