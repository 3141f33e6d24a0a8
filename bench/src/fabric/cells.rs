//! The workloads: three laws by three shares of GETs, two lengths of values, filled by the measured client or
//! by another one; the same where everything fits the cache area; values of one length beside our other
//! protocols.

use std::collections::BTreeMap;

use super::Options;
use super::load::{self, Figures, Way};
use super::server::Server;
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

const LAWS: [&str; 3] = ["uniform", "latest", "zipf"];
const GETS: [u64; 3] = [50, 90, 10];
/// Values on average, by their names in the cases and in the workloads.
const SIZES: [(&str, &str, u64); 2] = [("1k", "", 1 << 10), ("512k", "-512k", 512 << 10)];
const KEY_BYTES: u64 = 100;
/// Those of the nine workloads that a quick run has.
const QUICK: [&str; 4] = ["uniform-50", "latest-90", "zipf-90", "zipf-10"];
/// Part of the cache area that a load which fits fills.
const FITTING_PERCENT: u64 = 40;

/// A workload and the ways that are compared.
struct Cell {
    case: String,
    flags: Vec<String>,
    /// Bytes of the items that are there, and those that come in the run.
    bytes: u64,
    ways: Vec<Way>,
}

pub(super) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    for provider in &options.provider {
        for size in SIZES {
            for cell in cells(options, provider, size) {
                let measured = measure(options, provider, &cell, report);
                report.part(measured.map_err(|error| format!("{}: {error}", cell.case).into()));
            }
        }
    }
    Ok(())
}

fn cells(options: &Options, provider: &str, (size, suffix, value_bytes): (&str, &str, u64)) -> Vec<Cell> {
    let item_bytes = KEY_BYTES + value_bytes;
    let mut cells = Vec::new();
    let mut add = |name: &str, by: &str, data_bytes: u64, words: &str, inserts: u64, ways: &[Way]| {
        let items = data_bytes / item_bytes;
        let (fill, operations) = (format!("--fill={by}"), options.operations().to_string());
        let items_text = items.to_string();
        let always = [&*fill, "--operations", &operations, "--items", &items_text];
        cells.push(Cell {
            case: format!("{provider}/{size}/{name}"),
            flags: words.split(' ').chain(always).map(str::to_owned).collect(),
            bytes: (items + inserts) * item_bytes,
            ways: ways.to_vec(),
        });
    };
    for law in LAWS {
        for gets in GETS {
            let mix = format!("{law}-{gets}");
            let is_short = options.common.quick && !QUICK.contains(&mix.as_str());
            let words = format!("--workload innercache-{mix}{suffix}");
            let inserts = if law == "latest" { options.operations() * (100 - gets) / 100 } else { 0 };
            for by in ["own", "other"] {
                if !is_short && (by == "own" || !options.common.quick || mix == "zipf-90") {
                    let name = format!("{mix}/{by}");
                    add(&name, by, options.data_bytes(), &words, inserts, &Way::READS);
                }
            }
            if gets == 90 && !is_short {
                let fitting = options.area_bytes() * FITTING_PERCENT / 100;
                add(&format!("{mix}/fits"), "own", fitting, &words, inserts, &Way::READS);
            }
        }
    }
    // Items of one length that a datagram holds.
    let words = format!("--dataset {KEY_BYTES}/{value_bytes} --get 90");
    let mut ways = Way::READS.to_vec();
    if value_bytes + KEY_BYTES < 1_400 {
        ways.push(Way::Native);
    }
    ways.push(Way::Tcp);
    let fitting = options.area_bytes() * FITTING_PERCENT / 100;
    add("one-length/fits", "own", fitting, &words, 0, &ways);
    cells
}

/// Runs of the ways in turns.
fn measure(options: &Options, provider: &str, cell: &Cell, report: &mut Measurement) -> Result<()> {
    if !options.common.wants(&cell.case) {
        return Ok(());
    }
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); cell.ways.len()];
    let mut stats = Vec::new();
    for round in 0..options.rounds() {
        for (way, figures) in cell.ways.iter().zip(&mut rounds) {
            eprint!("\r{}, {}, round {}          ", cell.case, way.name(), round + 1);
            let area_bytes = match way {
                Way::InnerCache => options.area_bytes(),
                // All of it, chunks of a class that are longer than their items, and those that die.
                Way::OneSided => cell.bytes * 2 + (64 << 20),
                _ => 0,
            };
            let server = Server::start(&options.binaries.server, provider, area_bytes)?;
            figures.push(load::run(options, &server, *way, &cell.flags)?);
            if *way == Way::InnerCache {
                stats.push(server.stats()?);
            }
        }
    }
    eprintln!();
    enter(&cell.case, &cell.ways, &rounds, report);
    enter_stats(&cell.case, &stats, report);
    Ok(())
}

/// Registered buffers and what index pushes cost, as the server has counted them.
fn enter_stats(case: &str, rounds: &[BTreeMap<String, f64>], report: &mut Measurement) {
    let names = rounds.first().map(|stats| stats.keys()).into_iter().flatten();
    let is_shown =
        |name: &&String| ["registration", "push", "broadcast"].iter().any(|part| name.contains(part));
    for name in names.filter(is_shown) {
        let values: Vec<_> = rounds.iter().filter_map(|stats| stats.get(name).copied()).collect();
        report.value(case, &format!("stats: {name}"), "", &values);
    }
}

/// Records of a case: latencies of each way, and the ratios of the rounds.
fn enter(case: &str, ways: &[Way], rounds: &[Vec<Figures>], report: &mut Measurement) {
    let column = |way: usize, of: fn(&Figures) -> f64| rounds[way].iter().map(of).collect::<Vec<_>>();
    let mut value = |metric: &str, unit: &str, rounds: &[f64]| {
        if rounds.iter().all(|figure| figure.is_finite()) {
            report.value(case, metric, unit, rounds);
        }
    };
    type Part = (&'static str, fn(&Figures) -> f64);
    let parts: [Part; 8] = [
        ("GET mean", |figures| figures.get.mean),
        ("GET p50", |figures| figures.get.p50),
        ("GET p95", |figures| figures.get.p95),
        ("GET p99", |figures| figures.get.p99),
        ("SET mean", |figures| figures.set.mean),
        ("SET p50", |figures| figures.set.p50),
        ("SET p95", |figures| figures.set.p95),
        ("SET p99", |figures| figures.set.p99),
    ];
    for (number, way) in ways.iter().enumerate() {
        for (metric, of) in parts {
            value(&format!("{metric}, {}", way.name()), "us", &column(number, of));
        }
        value(&format!("hits, {}", way.name()), "%", &column(number, |figures| figures.hits * 100.0));
        let one_sided = column(number, |figures| figures.one_sided * 100.0);
        value(&format!("one-sided GETs, {}", way.name()), "%", &one_sided);
    }
    value("bytes pushed", "bytes", &column(0, |figures| figures.push_bytes));
    let ratios = |above: Vec<f64>, below: Vec<f64>| {
        above.into_iter().zip(below).map(|(above, below)| above / below).collect::<Vec<_>>()
    };
    let [inner, one, two] = [0, 1, 2];
    let mean: fn(&Figures) -> f64 = |figures| figures.get.mean;
    let set: fn(&Figures) -> f64 = |figures| figures.set.mean;
    let p50: fn(&Figures) -> f64 = |figures| figures.get.p50;
    let hit: fn(&Figures) -> f64 = |figures| figures.one_sided_p50;
    value("GET, two-sided / innercache", "x", &ratios(column(two, mean), column(inner, mean)));
    value("GET, innercache / one-sided", "x", &ratios(column(inner, mean), column(one, mean)));
    value("SET, innercache / one-sided", "x", &ratios(column(inner, set), column(one, set)));
    // A load that is too small for hits of its own takes the baseline's.
    let hits = match median(&column(inner, hit)).is_finite() {
        true => column(inner, hit),
        false => column(one, hit),
    };
    value("median, two-sided GET / one-sided hit", "x", &ratios(column(two, p50), hits));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::AREA_BYTES;
    use crate::fabric::load::Latency;

    /// Ratios are those of the rounds, and what has no figures has no records.
    #[test]
    fn ratios_are_of_the_rounds() {
        let figures = |get: f64, one_sided_p50: f64| Figures {
            get: Latency { mean: get, p50: get, p95: get, p99: get },
            set: Latency { mean: f64::NAN, p50: f64::NAN, p95: f64::NAN, p99: f64::NAN },
            one_sided: 0.5,
            one_sided_p50,
            hits: 1.0,
            gets: 10.0,
            push_bytes: 32.0,
        };
        let rounds = [
            vec![figures(10.0, 8.0), figures(20.0, 16.0)],
            vec![figures(10.0, 10.0), figures(10.0, 10.0)],
            vec![figures(20.0, f64::NAN), figures(20.0, f64::NAN)],
        ];
        let mut report = Measurement::new("test");
        enter("x", &Way::READS, &rounds, &mut report);
        let find = |metric: &str| report.records().iter().find(|record| record.metric == metric);
        let ratio = find("GET, two-sided / innercache").unwrap();
        assert_eq!((ratio.spread.min, ratio.spread.max), (1.0, 2.0));
        assert_eq!(find("median, two-sided GET / one-sided hit").unwrap().spread.max, 2.5);
        assert!(find("SET mean, innercache").is_none());
        assert_eq!(find("one-sided GETs, innercache").unwrap().value, 50.0);
    }

    /// The nine mixes stand in a full run with both clients that fill.
    #[test]
    fn a_full_run_has_all_nine_workloads() {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            options: Options,
        }
        let parse = |words: &[&str]| {
            let words = std::iter::once("lab").chain(words.iter().copied());
            <CommandLine as clap::Parser>::try_parse_from(words).unwrap().options
        };
        let full = parse(&[]);
        let cells = cells(&full, "shm", SIZES[1]);
        assert_eq!(cells.len(), 9 * 2 + 3 + 1);
        let nine = cells.iter().filter(|cell| cell.case.ends_with("/other")).count();
        assert_eq!(nine, 9);
        assert!(cells[0].flags.join(" ").contains("--workload innercache-uniform-50-512k --fill=own"));
        assert_eq!(cells[0].bytes / 1_000_000, 499);
        assert!(full.area_bytes() == AREA_BYTES && parse(&["--quick"]).area_bytes() < AREA_BYTES);
    }
}
