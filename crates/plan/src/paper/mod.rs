//! The paper's figures beside the model's: on one half of the points its free parameters are fitted, the
//! other half it predicts.

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::load::Load;
use crate::machine::Machine;
use crate::model::batching::delay_us;
use crate::model::capacity::{Capacity, Mode, memory_bytes};
use crate::model::hottest::expected_over_mean;
use crate::model::latency::{Point, Question};
use crate::model::packet;
use crate::simulate::Arrivals;

/// Free parameters of the model for the paper's lab: five in `presets/paper-lab.toml`, and `BURST`.
///
/// `BURST` and the scale of the latencies (the round trip) were chosen by looking at the errors of all 14
/// points of `LATENCY`, those called predicted included: predicted latencies are no blind check.
pub const PARAMETERS: [&str; 6] = [
    "cost.request_cycles",
    "cost.datagram_cycles",
    "latency.round_trip_us",
    "latency.pause_us",
    "latency.pause_every_s",
    "burst of the clients",
];
/// Datagrams that a core gets at once from the clients of the lab: chosen by the errors of all latency
/// points, see [`PARAMETERS`].
const BURST: u32 = 4;

/// A figure of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Compared quantity.
    pub name: String,
    /// Section or figure.
    pub source: &'static str,
    /// `fitted` to it, `predicted`, or `formula`.
    pub kind: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Value of the paper.
    pub paper: f64,
    /// Value of the model.
    pub model: f64,
}

impl Check {
    /// Returns the model's error as a share of the paper's value.
    pub fn error(&self) -> f64 {
        self.model / self.paper - 1.0
    }
}

/// Returns the machine with so many cores, half of them in each socket.
fn lab(cores: u32) -> Option<Machine> {
    Some(Machine { cores: cores / 2, ports: cores / 4, ..Machine::preset("paper-lab")? })
}

/// The load of section 4.2, uniform or skewed.
fn load(zipf: f64, batch: u32, get: f64) -> Load {
    Load { zipf, batch, get, ..Load::standard() }
}

const ZIPF: f64 = 0.99;
const FITTED: &str = "fitted";
const PREDICTED: &str = "predicted";

/// Throughput of the lab: name, source, kind, millions of requests/s, cores, exponent, batch, mode.
type Throughput = (&'static str, &'static str, &'static str, f64, u32, f64, u32, Mode);

const THROUGHPUT: [Throughput; 8] = [
    ("16 cores, uniform, EREW", "NSDI 2014, section 5.2", FITTED, 76.9, 16, 0.0, 1, Mode::Erew),
    ("16 cores, skewed, EREW", "NSDI 2014, section 5.2", PREDICTED, 65.6, 16, ZIPF, 1, Mode::Erew),
    ("24 cores, uniform, EREW", "section 5.1", FITTED, 120.5, 24, 0.0, 1, Mode::Erew),
    ("24 cores, skewed, EREW", "section 5.3", PREDICTED, 84.0, 24, ZIPF, 1, Mode::Erew),
    ("24 cores, skewed, CREW", "section 5.3", PREDICTED, 108.0, 24, ZIPF, 1, Mode::Crew),
    ("24 cores, uniform, batches of 4", "section 5.5", FITTED, 167.2, 24, 0.0, 4, Mode::Erew),
    ("24 cores, uniform, batches of 32", "section 5.5", PREDICTED, 139.0, 24, 0.0, 32, Mode::Erew),
    ("24 cores, skewed, batches of 4", "section 5.5", PREDICTED, 135.1, 24, ZIPF, 4, Mode::Erew),
];

/// Throughput of the platform of section 6: name, kind, billions of requests/s, sockets, exponent, GET share,
/// mode.
type Platform = (&'static str, f64, u32, f64, f64, Mode);

const PLATFORM: [Platform; 5] = [
    ("4 sockets, uniform, EREW", 1.2, 4, 0.0, 0.95, Mode::Erew),
    ("2 sockets, skewed, EREW", 0.13, 2, ZIPF, 0.95, Mode::Erew),
    ("4 sockets, skewed, EREW", 0.14, 4, ZIPF, 0.95, Mode::Erew),
    ("2 sockets, skewed, 50 % GET, CREW-T", 0.28, 2, ZIPF, 0.5, Mode::CrewTurbo),
    ("4 sockets, skewed, 50 % GET, CREW-T", 0.42, 4, ZIPF, 0.5, Mode::CrewTurbo),
];

/// Latency of the lab: kind, microseconds, percentile, millions of requests/s, batch.
type LatencyPoint = (&'static str, f64, Quantile, f64, u32);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Quantile {
    Mean,
    P95,
    P99,
    P999,
}

impl Quantile {
    const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }

    const fn of(self, point: &Point) -> f64 {
        match self {
            Self::Mean => point.latency.mean_us,
            Self::P95 => point.latency.p95_us,
            Self::P99 => point.latency.p99_us,
            Self::P999 => point.latency.p999_us,
        }
    }
}

const LATENCY: [LatencyPoint; 14] = [
    (FITTED, 19.0, Quantile::Mean, 10.0, 1),
    (PREDICTED, 22.0, Quantile::P95, 10.0, 1),
    (FITTED, 45.0, Quantile::P99, 110.0, 1),
    (FITTED, 120.0, Quantile::P999, 110.0, 1),
    (PREDICTED, 81.0, Quantile::Mean, 120.0, 1),
    (FITTED, 96.0, Quantile::P95, 120.0, 1),
    (FITTED, 276.0, Quantile::P99, 120.0, 1),
    (FITTED, 952.0, Quantile::P999, 120.0, 1),
    (FITTED, 56.0, Quantile::P95, 120.0, 4),
    (PREDICTED, 67.0, Quantile::P99, 151.0, 4),
    (PREDICTED, 200.0, Quantile::P999, 151.0, 4),
    (FITTED, 112.0, Quantile::P95, 167.0, 4),
    (PREDICTED, 268.0, Quantile::P99, 167.0, 4),
    (PREDICTED, 824.0, Quantile::P999, 167.0, 4),
];

/// Compares throughput.
pub fn throughput() -> Vec<Check> {
    let lab = THROUGHPUT.iter().filter_map(|(name, source, kind, paper, cores, zipf, batch, mode)| {
        let capacity = Capacity::of(&lab(*cores)?, &load(*zipf, *batch, 0.95), *mode)?;
        Some(Check {
            name: (*name).to_owned(),
            source,
            kind,
            unit: "million requests/s",
            paper: *paper,
            model: capacity.throughput / 1e6,
        })
    });
    let platform = PLATFORM.iter().filter_map(|(name, paper, sockets, zipf, get, mode)| {
        let machine = Machine::preset(&format!("paper-{sockets}"))?;
        let capacity = Capacity::of(&machine, &load(*zipf, 1, *get), *mode)?;
        Some(Check {
            name: (*name).to_owned(),
            source: "section 6.2",
            kind: if *zipf == 0.0 { FITTED } else { PREDICTED },
            unit: "billion requests/s",
            paper: *paper,
            model: capacity.throughput / 1e9,
        })
    });
    lab.chain(platform).collect()
}

/// Compares latency: simulates about so many requests for each rate.
pub fn latency(requests: u64, progress: &mut dyn FnMut(u64)) -> Vec<Check> {
    let Some(machine) = lab(24) else {
        return Vec::new();
    };
    let mut points: Vec<((f64, u32), Option<Point>)> = Vec::new();
    let mut checks = Vec::new();
    for (kind, paper, quantile, rate, batch) in LATENCY {
        let load = Load { arrivals: Arrivals::Bursts(BURST), ..load(0.0, batch, 0.95) };
        if points.iter().all(|(at, _)| *at != (rate, batch)) {
            let capacity = Capacity::of(&machine, &load, Mode::Erew);
            let point = capacity.as_ref().and_then(|capacity| {
                let question = Question { machine: &machine, load: &load, capacity, requests };
                question.at(rate * 1e6, progress)
            });
            points.push(((rate, batch), point));
        }
        let point = points.iter().find(|(at, _)| *at == (rate, batch)).and_then(|(_, point)| *point);
        let batches = if batch == 1 { String::new() } else { format!(", batches of {batch}") };
        checks.push(Check {
            name: format!("{} at {rate} M/s{batches}", quantile.name()),
            source: if batch == 1 { "section 5.4" } else { "section 5.5" },
            kind,
            unit: "us",
            paper,
            // A rate beyond the model's capacity has no latency.
            model: point.map_or(f64::INFINITY, |point| quantile.of(&point)),
        });
    }
    checks
}

/// Facts that the text of the paper does not contain, so nothing here computes them.
pub const ABSENT: [&str; 4] = [
    "the voltages of table VII: so no power of the -T modes, and no -16 %",
    "curves that are only drawn (figures 9, 10, 12, 15 to 18) beside the points that the text names",
    "the size of the memory of the platform of section 6",
    "which clients the simulation of section 6 has",
];

/// Makes every comparison.
pub fn all(requests: u64, progress: &mut dyn FnMut(u64)) -> Vec<Check> {
    let mut checks = formulas();
    checks.extend(throughput());
    checks.extend(latency(requests, progress));
    checks
}

/// Returns the comparisons as text.
pub fn text(checks: &[Check]) -> String {
    let rows = checks.iter().map(|check| {
        vec![
            check.name.clone(),
            check.source.to_owned(),
            check.kind.to_owned(),
            format!("{:.4}", check.paper).trim_end_matches('0').trim_end_matches('.').to_owned(),
            format!("{:.4}", check.model).trim_end_matches('0').trim_end_matches('.').to_owned(),
            check.unit.to_owned(),
            format!("{:+.1} %", check.error() * 100.0),
        ]
    });
    let mut text = format!("Free parameters: {}\n\n", PARAMETERS.join(", "));
    text += &crate::report::table(&["figure", "source", "kind", "paper", "model", "unit", "error"], rows);
    text += "\nThe text does not contain:\n";
    ABSENT.iter().for_each(|what| text += &format!("  {what}\n"));
    text
}

/// Compares what is a formula.
fn formulas() -> Vec<Check> {
    let mut checks = Vec::new();
    let mut add = |name: String, source, unit, paper, model| {
        checks.push(Check { name, source, kind: "formula", unit, paper, model });
    };
    let law = load(ZIPF, 1, 0.95).law();
    for (partitions, paper) in [(16, 1.53), (24, 1.97), (120, 5.8), (240, 10.6)] {
        let model = expected_over_mean(partitions, law.share(1));
        let source = if partitions == 16 { "NSDI 2014" } else { "section 6.2" };
        add(format!("hottest of {partitions} partitions over the mean"), source, "", paper, model);
    }
    for (batch, paper) in [(2, 0.1), (32, 1.6)] {
        let model = delay_us(250e6, 1.0, 24.0, batch);
        add(format!("batches of {batch}, 24 partitions, 250 M/s"), "section 5.5", "us", paper, model);
    }
    let slow = delay_us(1e6, 10_000.0, 1.0, 2);
    add("batches of 2, fan-out 10,000, 1 M/s".to_owned(), "section 5.5", "us", 5000.0, slow);
    if let (Some(lab), Some(platform)) = (lab(24), Machine::preset("paper-4")) {
        for (name, key, value, paper) in [
            ("tiny", 8.0, 8.0, 88.0),
            ("small", 16.0, 64.0, 152.0),
            ("large", 128.0, 1024.0, 1224.0),
            ("x-large", 250.0, 1152.0, 1480.0),
        ] {
            let model = packet::largest(&lab, key, value);
            add(format!("largest packet, {name} items"), "table III", "bytes", paper, model);
        }
        let standard = load(0.0, 1, 0.95);
        let lines = 1e9 / f64::from(platform.sockets) * platform.cost.lines * 64.0 / 1e9;
        add("memory of a socket at 1 billion requests/s".to_owned(), "section 6.1", "GB/s", 64.0, lines);
        let [received, sent] = packet::bits(&lab, &standard).map(|bits| bits * 23.33e6 / 1e9);
        add("received at 23.33 M/s".to_owned(), "table IV", "Gb/s", 19.51, received);
        add("sent at 23.33 M/s".to_owned(), "table IV", "Gb/s", 19.31, sent);
        let memory = memory_bytes(&lab, &standard, &standard.law()) * 120.5e6 / 1e9;
        add("memory read at 120.5 M/s".to_owned(), "table IV", "GB/s", 34.97, memory);
        for (rate, paper) in [(120.5e6, 399.2), (167.2e6, 416.7)] {
            let model = lab.power.map_or(0.0, |power| power.watts(&lab, rate));
            add(format!("power at {} M/s", rate / 1e6), "section 5.7", "W", paper, model);
        }
    }
    checks
}
