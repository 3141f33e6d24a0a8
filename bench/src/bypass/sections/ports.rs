//! Ports around the kernel's network stack: latency against the offered load.

use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point, short};

use crate::report::machine;
use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::report::sections::grid;
use crate::results::measurement::Record;

const RESULT: &str = "bench-bypass";
const PORTS: [&str; 3] = ["memif", "xdp", "kernel-udp"];
const BATCHES: [usize; 2] = [1, 4];
/// Columns of the table: metrics, and how many digits they have behind the point.
const COLUMNS: [(&str, &str); 10] = [
    ("offered", "offered (requests/s)"),
    ("rate", "answered (requests/s)"),
    ("mean", "mean (us)"),
    ("p50", "median (us)"),
    ("p95", "p95 (us)"),
    ("p99", "p99 (us)"),
    ("p99.9", "p99.9 (us)"),
    ("lost", "lost (%)"),
    ("waited", "an end waited for its CPU (%)"),
    ("energy", "energy (J per million requests)"),
];

pub(crate) fn commands(form: Form) -> Vec<Command> {
    let words = form.pick(
        "bypass --quick --rounds 1 --items 4194304 --case latency/memif --case latency/xdp",
        "bypass --rounds 3 --case latency",
    );
    let mut command = Command::lab(RESULT, words);
    command.lacks = machine::lacks_root();
    vec![command]
}

pub(crate) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records(RESULT)?;
    let charts = [("mean", "mean"), ("p95", "95th percentile"), ("p99.9", "99.9th percentile")];
    let mut shown: Vec<_> =
        charts.into_iter().map(|(metric, what)| Exhibit::Lines(curves(&records, metric, what))).collect();
    shown.push(Exhibit::Table(table(&records)));
    if PORTS.iter().all(|port| port != &"memif" || grid::cases(&records, "latency/memif/").is_empty()) {
        shown.push(Exhibit::Note("Not over memif: the build has no DPDK (libdpdk-dev).".to_owned()));
    }
    shown.extend(near_the_peak(&records));
    Ok(shown)
}

/// A metric against the offered load: a line for each port and number of requests per datagram.
fn curves(records: &[Record], metric: &str, what: &str) -> LineChart {
    let mut lines = Vec::new();
    for port in PORTS {
        for batch in BATCHES {
            let prefix = format!("latency/{port}/{batch}/");
            let point = |part: &str| {
                let case = format!("{prefix}{part}");
                let at = grid::value(records, &case, "offered")?;
                let of = records.iter().find(|record| record.case == case && record.metric == metric)?;
                Some(Point { x: at, y: of.value, low: of.spread.min, high: of.spread.max })
            };
            let points: Vec<_> = grid::cases(records, &prefix).into_iter().filter_map(point).collect();
            if !points.is_empty() {
                let name = format!("{port}, {batch} per datagram");
                lines.push(Line { name, kind: Kind::Measured, points });
            }
        }
    }
    LineChart {
        title: format!("Latency around the kernel's network stack: {what}"),
        x: Axis::log("offered load (requests/s)"),
        y: Axis::log(format!("{what} (us)")),
        lines,
    }
}

fn table(records: &[Record]) -> Table {
    let columns: Vec<_> = COLUMNS
        .into_iter()
        .filter(|(metric, _)| records.iter().any(|record| record.metric == *metric))
        .collect();
    let row = |case: &str| {
        let words: Vec<_> = case.split('/').collect();
        let name = match words[..] {
            [port, batch, part] => {
                let percent = part.parse::<f64>().unwrap_or(f64::NAN) * 100.0;
                format!("{port}, {batch} per datagram, {percent:.0} % of the peak")
            }
            _ => case.to_owned(),
        };
        let cell = |metric: &str| {
            let value = grid::value(records, &format!("latency/{case}"), metric);
            value.map_or_else(String::new, short)
        };
        std::iter::once(name).chain(columns.iter().map(|(metric, _)| cell(metric))).collect()
    };
    Table {
        title: "Medians of the turns".to_owned(),
        columns: std::iter::once("case")
            .chain(columns.iter().map(|(_, column)| *column))
            .map(str::to_owned)
            .collect(),
        rows: grid::cases(records, "latency/").into_iter().map(row).collect(),
    }
}

/// Summarizes the latency over shared memory at the highest load that was offered.
fn near_the_peak(records: &[Record]) -> Option<Exhibit> {
    let part = *grid::cases(records, "latency/memif/1/").last()?;
    let case = format!("latency/memif/1/{part}");
    let of = |metric| grid::value(records, &case, metric).map(short);
    let percent = part.parse::<f64>().ok()? * 100.0;
    Some(Exhibit::Headline(Headline {
        what: format!(
            "Latency at {percent:.0} % of the peak over DPDK's shared memory, tiny items, one core"
        ),
        ours: format!(
            "median {} us, 95th percentile {} us, 99.9th {} us, at {} requests per second",
            of("p50")?,
            of("p95")?,
            of("p99.9")?,
            of("offered")?
        ),
        published: "billion-rps on 24 cores: 95th percentile 96 us at 120 million".to_owned(),
    }))
}
