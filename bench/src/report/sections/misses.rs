//! Miss ratios on real requests: the engine's policies beside references and published ones.

use micanite_workload::figure::{Axis, Kind, Line, LineChart, Point};

use super::grid;
use crate::harness::system::target;
use crate::report::section::{Command, Exhibit, Form, Headline, Results, Table};
use crate::results::measurement::Record;

/// Traces that scripts/fetch-traces fetches.
const TRACE: &str = "traces/twitter_cluster52.csv";
const LONG_TRACE: &str = "traces/twitter_cluster52_10m.csv.zst";
/// Default policy of the server.
const DEFAULT: &str = "s3-fifo";
/// All keys and values of the trace.
const FOOTPRINT_BYTES: f64 = 29_227_218.0;
const PERCENTS: [f64; 6] = [0.1, 1.0, 5.0, 10.0, 25.0, 50.0];
/// Object miss ratios by libCacheSim at those parts of the footprint.
const PUBLISHED: [(&str, [f64; 6]); 6] = [
    ("LRU", [0.5006, 0.3415, 0.2499, 0.2091, 0.1697, 0.1509]),
    ("SIEVE", [0.4847, 0.3270, 0.2338, 0.1983, 0.1661, 0.1502]),
    ("S3-FIFO", [0.4934, 0.3088, 0.2153, 0.1877, 0.1631, 0.1506]),
    ("2Q", [0.4852, 0.3032, 0.2178, 0.1936, 0.1722, 0.1604]),
    ("ARC", [0.4909, 0.3332, 0.2452, 0.2100, 0.1679, 0.1498]),
    ("W-TinyLFU", [0.5285, 0.3325, 0.2187, 0.1872, 0.1632, 0.1506]),
];

pub(super) fn commands(form: Form) -> Vec<Command> {
    let words =
        form.pick("traces --percents 1,5,10,25 --sizes 24", "traces --percents 0.1,1,5,10,25,50 --sizes 24");
    let mut command = Command::lab("traces", words);
    let mut needed = vec![target(TRACE)];
    if form == Form::Full {
        let long = target(LONG_TRACE);
        command = command.with("--replayed").with(long.to_string_lossy());
        needed.push(long);
    }
    if let Some(missing) = needed.iter().find(|path| !path.exists()) {
        let reason = format!("{} is not there: scripts/fetch-traces fetches it.", missing.display());
        command = command.lacking(reason);
    }
    vec![command]
}

/// Misses of a policy with some memory.
#[derive(Clone, Debug)]
struct Ratio {
    policy: String,
    bytes: f64,
    object_miss_ratio: f64,
    byte_miss_ratio: f64,
}

/// Simulated misses by policy, then by memory.
fn ratios(records: &[Record]) -> Vec<Ratio> {
    let of_objects = records.iter().filter(|record| record.metric == "object_miss_ratio");
    let ratio = |record: &Record| {
        let named = record.case.strip_prefix("simulated, ")?.strip_suffix(" bytes")?;
        let (policy, bytes) = named.split_once(", ")?;
        let of_bytes =
            records.iter().find(|other| other.case == record.case && other.metric == "byte_miss_ratio")?;
        Some(Ratio {
            policy: policy.to_owned(),
            bytes: bytes.parse().ok()?,
            object_miss_ratio: record.value,
            byte_miss_ratio: of_bytes.value,
        })
    };
    of_objects.filter_map(ratio).collect()
}

pub(super) fn draw(results: &Results) -> Result<Vec<Exhibit>, String> {
    let records = results.records("traces")?;
    let ratios = ratios(&records);
    let (table, worst) = beside_published(&ratios);
    let mut shown = vec![
        Exhibit::Lines(chart("Requests that miss", &ratios, false, |ratio| ratio.object_miss_ratio)),
        Exhibit::Lines(chart("Requests that miss, beside published policies", &ratios, true, |ratio| {
            ratio.object_miss_ratio
        })),
        Exhibit::Lines(chart("Bytes that miss", &ratios, false, |ratio| ratio.byte_miss_ratio)),
        Exhibit::Table(table),
    ];
    if let Some(worst) = worst {
        shown.push(Exhibit::Headline(Headline {
            what:
                "Misses of the default policy beside the best of SIEVE, S3-FIFO, 2Q, ARC and W-TinyLFU, at \
                   its worst from 1 to 25 % of the footprint"
                    .to_owned(),
            ours: format!("{worst:+.1} %"),
            published: "their misses by libCacheSim".to_owned(),
        }));
    }
    shown.extend(changes(&records).map(Exhibit::Table));
    let live: Vec<Record> =
        records.iter().filter(|record| record.case.starts_with("live")).cloned().collect();
    if !live.is_empty() {
        let title = "Misses of live servers, all memory counted (% of GETs)";
        shown.push(Exhibit::Table(grid::table(&live, title, "misses", "")));
    }
    for record in live.iter().filter(|record| record.peer.is_some()) {
        if let Some(ratio) = record.ratio_bar() {
            shown.push(Exhibit::Headline(Headline {
                what: format!(
                    "Misses of a live server beside one of memcached's, {}",
                    record.case.trim_start_matches("live, ")
                ),
                ours: format!("{:+.1} %", (ratio.value - 1.0) * 100.0),
                published: String::new(),
            }));
        }
    }
    Ok(shown)
}

/// Misses of workloads behind one whose items have other sizes, beside those without it.
fn changes(records: &[Record]) -> Option<Table> {
    let rows = records.iter().filter(|record| record.metric == "after").filter_map(|after| {
        let fresh = records.iter().find(|other| other.case == after.case && other.metric == "fresh")?;
        let case = after.case.strip_prefix("sizes change, ")?;
        let mut row: Vec<_> = case.split(", ").map(str::to_owned).collect();
        row.extend([after.value, fresh.value].map(|ratio| format!("{:.2}", ratio * 100.0)));
        Some(row)
    });
    let columns = ["items", "memory", "policy", "misses after the change (%)", "fresh (%)"];
    let table = Table {
        title: "Misses of simulated caches after a change of sizes".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: rows.collect(),
    };
    (!table.rows.is_empty()).then_some(table)
}

fn percent(bytes: f64) -> f64 {
    bytes / FOOTPRINT_BYTES * 100.0
}

fn chart(title: &str, ratios: &[Ratio], beside: bool, of: impl Fn(&Ratio) -> f64) -> LineChart {
    let mut policies: Vec<&str> = Vec::new();
    for ratio in ratios {
        let is_shown = !beside || ratio.policy == DEFAULT;
        if is_shown && !policies.contains(&ratio.policy.as_str()) {
            policies.push(&ratio.policy);
        }
    }
    let measured = policies.iter().map(|policy| Line {
        name: match *policy {
            DEFAULT => format!("Micanite ({DEFAULT}, the default)"),
            policy => policy.to_owned(),
        },
        kind: Kind::Measured,
        points: ratios
            .iter()
            .filter(|ratio| ratio.policy == *policy)
            .map(|ratio| Point::new(percent(ratio.bytes), of(ratio) * 100.0))
            .collect(),
    });
    let published = PUBLISHED.iter().map(|(name, ratios)| Line {
        name: format!("{name} (libCacheSim)"),
        kind: Kind::Published,
        points: (PERCENTS.iter().zip(ratios))
            .map(|(percent, ratio)| Point::new(*percent, ratio * 100.0))
            .collect(),
    });
    let mut lines: Vec<_> = measured.collect();
    if beside {
        lines.extend(published);
    }
    LineChart {
        title: title.to_owned(),
        x: Axis::log("memory (% of the bytes of all keys and values)"),
        y: Axis::linear(match beside {
            true => "misses (%)",
            false => "misses (%), all policies as simulated here",
        }),
        lines,
    }
}

/// The default policy beside LRU and the best published one, and by how many percent it misses more
/// than that at worst.
fn beside_published(ratios: &[Ratio]) -> (Table, Option<f64>) {
    let mut rows = Vec::new();
    let mut worst: Option<f64> = None;
    for (at, share) in PERCENTS.iter().enumerate() {
        let is_it =
            |ratio: &&Ratio| ratio.policy == DEFAULT && (percent(ratio.bytes) / share - 1.0).abs() < 0.02;
        let Some(ours) = ratios.iter().find(is_it) else {
            continue;
        };
        let ours = ours.object_miss_ratio;
        let others = PUBLISHED.iter().skip(1);
        let best = others.map(|(name, ratios)| (ratios[at], *name));
        let Some((best, name)) = best.min_by(|one, other| one.0.total_cmp(&other.0)) else {
            continue;
        };
        let more = (ours / best - 1.0) * 100.0;
        if (1.0..=25.0).contains(share) {
            worst = Some(worst.map_or(more, |worst| worst.max(more)));
        }
        let cell = |ratio: f64| format!("{:.2}", ratio * 100.0);
        rows.push(vec![
            format!("{share}"),
            cell(ours),
            cell(PUBLISHED[0].1[at]),
            format!("{} ({name})", cell(best)),
            format!("{more:+.1}"),
        ]);
    }
    let columns = [
        "memory (% of the footprint)",
        "Micanite, misses (%)",
        "LRU, published (%)",
        "best of SIEVE, S3-FIFO, 2Q, ARC, W-TinyLFU, published (%)",
        "Micanite misses more (%, relative)",
    ];
    let table = Table {
        title: "The default policy beside published ones".to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows,
    };
    (table, worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_life_stands_beside_a_fresh_one() {
        let mut run = crate::results::measurement::Measurement::new("traces");
        let case = "sizes change, large then tiny, 8m, clock";
        run.value(case, "fresh", "", &[0.11]);
        run.value("sizes change, large then tiny, 8m, fifo", "after", "", &[0.2]);
        assert!(changes(run.records()).is_none(), "no case has both");
        run.value(case, "after", "", &[0.23]);
        let table = changes(run.records()).unwrap();
        assert_eq!(table.rows, [["large then tiny", "8m", "clock", "23.00", "11.00"]]);
    }

    #[test]
    fn the_default_is_compared_at_the_same_memory() {
        let ratio = |percent: f64, misses: f64| Ratio {
            policy: DEFAULT.to_owned(),
            bytes: (FOOTPRINT_BYTES * percent / 100.0).round(),
            object_miss_ratio: misses,
            byte_miss_ratio: misses,
        };
        let (table, worst) = beside_published(&[ratio(1.0, 0.3032), ratio(10.0, 0.1872 * 1.02)]);
        let last: Vec<_> = table.rows.iter().map(|row| row[4].as_str()).collect();
        assert_eq!(last, ["+0.0", "+2.0"]);
        assert!((worst.unwrap() - 2.0).abs() < 1e-9);
        assert!(beside_published(&[ratio(3.0, 0.5)]).1.is_none());
    }
}
