//! Latency of each kind of request at three rates, and what they cost, as Hippos' table 3.4.

use std::time::Duration;

use super::Options;
use super::load::client::Pace;
use super::load::requests::Kind as RequestKind;
use super::load::tally::Tally;
use super::servers::{Kind, Server};
use super::sides::{Round, Side, rest};
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

/// Parts of memcached's peak: a low, a medium and a high load for it.
const PARTS: [f64; 3] = [0.25, 0.5, 0.75];
const KINDS: [Kind; 3] = [Kind::Memcached, Kind::Udp, Kind::KernelGet];

/// Measures the servers that have just shown their peaks.
pub(super) fn run(
    case: &str,
    options: &Options,
    servers: &mut [Server],
    sides: &mut [Side],
    report: &mut Measurement,
) -> Result<()> {
    let is_memcached = |side: &&Side| servers[side.server].kind == Kind::Memcached;
    let memcached = sides.iter().find(is_memcached).ok_or("no memcached")?;
    let peaks: Vec<_> = memcached.rounds.iter().map(Round::requests_per_second).collect();
    let peak = median(&peaks);
    let (rounds, slice_ms) = if options.common.quick { (3, 150) } else { (5, 400) };
    let duration = Duration::from_millis(slice_ms);
    for part in PARTS {
        let rate = (peak * part / 1000.0).round() * 1000.0;
        let mut measured: Vec<Vec<Round>> = vec![Vec::new(); sides.len()];
        for _ in 0..rounds {
            for (side, measured) in sides.iter_mut().zip(&mut measured) {
                let server = &mut servers[side.server];
                if KINDS.contains(&server.kind) {
                    measured.push(slice(server, side, rate, duration)?);
                }
            }
        }
        for (side, rounds) in sides.iter().zip(&measured) {
            if !rounds.is_empty() {
                let case = format!("{case}/latency/{:.0} k/s/{}", rate / 1000.0, side.name);
                enter(&case, rounds, report);
            }
        }
    }
    Ok(())
}

/// An open loop at a rate.
pub(super) fn slice(server: &mut Server, side: &mut Side, rate: f64, duration: Duration) -> Result<Round> {
    measure_open(server, side, rate, duration, &mut |_| Ok(()))
}

/// An open loop at a rate; `before` is called after the warm-up.
pub(super) fn measure_open(
    server: &mut Server,
    side: &mut Side,
    rate: f64,
    duration: Duration,
    before: &mut dyn FnMut(&Server) -> Result<()>,
) -> Result<Round> {
    rest();
    server.process.resume();
    let pace = Pace::Open(rate);
    let mut measure = || -> Result<Round> {
        server.client.run(&mut side.ring, pace, duration / 8)?;
        before(server)?;
        let began = server.meter.read()?;
        let tally = server.client.run(&mut side.ring, pace, duration)?;
        let usage = server.meter.since(&began)?;
        Ok(Round { tally, usage })
    };
    let measured = measure();
    server.process.pause();
    measured
}

fn enter(case: &str, rounds: &[Round], report: &mut Measurement) {
    let mut value = |metric: &str, unit: &str, of: &dyn Fn(&Round) -> f64| {
        let values: Vec<_> = rounds.iter().map(of).collect();
        if values.iter().all(|value| value.is_finite()) {
            report.value(case, metric, unit, &values);
        }
    };
    for kind in RequestKind::ALL {
        let latency = |round: &Round| Tally::mean_us(&round.tally, kind);
        value(&format!("{}_latency", kind.name()), "us", &latency);
        for (name, share) in [("median", 0.5), ("p99", 0.99)] {
            let of_share = |round: &Round| round.tally.quantile_us(kind, share);
            value(&format!("{}_{name}", kind.name()), "us", &of_share);
        }
    }
    let millions = |round: &Round| round.tally.answered() as f64 / 1e6;
    let cpu = |round: &Round| round.usage.busy_s / millions(round);
    value("cpu_time", "s/M requests", &cpu);
    let threads = |round: &Round| round.usage.threads_s / millions(round);
    value("thread_time", "s/M requests", &threads);
    let joules = |round: &Round| round.usage.joules.unwrap_or(f64::NAN) / millions(round);
    value("energy", "J/M requests", &joules);
    value("lost", "%", &|round| round.tally.lost_ratio() * 100.0);
}
