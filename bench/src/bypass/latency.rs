//! Latency against throughput, with one and with four requests per datagram: open loop at some rates up to
//! the peak, counted from the time that a datagram was due.

use std::time::Duration;

use super::servers::Server;
use super::sides::{Side, WINDOW};
use super::throughput::{shape, side};
use super::{Options, Servers};
use crate::Result;
use crate::generator::load::Schedule;
use crate::harness::energy::Meters;
use crate::harness::system;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

pub(super) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];
/// Parts of each server's own peak.
const PARTS: [f64; 7] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95];
const QUICK_PARTS: [f64; 4] = [0.1, 0.5, 0.8, 0.9];
const BATCHES: [usize; 2] = [1, 4];
/// A turn, and the pause behind it. A real-time task that never waits is stopped for 50 ms of each second:
/// two such tasks that run for less than a second, and then let all others run, are not.
const TURN: Duration = Duration::from_millis(400);
const PAUSE: Duration = Duration::from_millis(550);
const PEAK_TURNS: usize = 3;

pub(super) fn run(options: &Options, servers: &mut Servers, report: &mut Measurement) -> Result<()> {
    let places = [("memif", servers.memif), ("xdp", servers.xdp), ("kernel-udp", servers.kernel)];
    for (port, place) in places {
        let Some([at, _]) = place else {
            continue;
        };
        for batch in BATCHES {
            let case = name(port, batch);
            if options.common.wants(&case) {
                let mut side = side(options, servers, at, &shape(95, batch))?;
                curve(options, &case, &mut servers.all[at], &mut side, report)?;
            }
        }
    }
    Ok(())
}

fn name(port: &str, batch: usize) -> String {
    format!("latency/{port}/{batch}")
}

/// Tells whether a case over a port is wanted.
pub(super) fn is_wanted(options: &Options, port: &str) -> bool {
    BATCHES.iter().any(|batch| options.common.wants(&name(port, *batch)))
}

/// A turn at some rate, in the units of the report.
struct Turn {
    rate: f64,
    mean_us: f64,
    quantiles_us: Vec<f64>,
    lost_percent: f64,
    /// Share of the time that one of the two was ready and had no CPU.
    waited_percent: f64,
    joules_per_million: Option<f64>,
}

fn curve(
    options: &Options,
    case: &str,
    server: &mut Server,
    side: &mut Side,
    report: &mut Measurement,
) -> Result<()> {
    let quick = options.common.quick;
    let rounds = options.common.rounds().min(if quick { 2 } else { 5 });
    let batch = side.requests.batch() as f64;
    let mut peaks = Vec::new();
    for _ in 0..PEAK_TURNS {
        server.process.resume();
        side.warm_up(server, TURN / 8)?;
        peaks.push(side.closed(server, TURN)?.per_second());
        pause(server);
    }
    let peak = median(&peaks);
    let parts: &[f64] = if quick { &QUICK_PARTS } else { &PARTS };
    let mut turns: Vec<Vec<Turn>> = parts.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for (part, turns) in parts.iter().zip(&mut turns) {
            eprint!("\r{case}, {:.0} % of the peak, round {round}   ", part * 100.0);
            server.process.resume();
            side.warm_up(server, TURN / 16)?;
            turns.push(turn(server, side, peak * part / batch)?);
            pause(server);
        }
    }
    eprintln!();
    for (part, turns) in parts.iter().zip(&turns) {
        let case = format!("{case}/{part}");
        let of = |pick: &dyn Fn(&Turn) -> f64| -> Vec<f64> { turns.iter().map(pick).collect() };
        report.value(&case, "offered", "requests/s", &[peak * part]);
        report.value(&case, "rate", "requests/s", &of(&|turn| turn.rate));
        report.value(&case, "mean", "us", &of(&|turn| turn.mean_us));
        for (at, (name, _)) in QUANTILES.into_iter().enumerate() {
            report.value(&case, name, "us", &of(&|turn| turn.quantiles_us[at]));
        }
        report.value(&case, "lost", "%", &of(&|turn| turn.lost_percent));
        report.value(&case, "waited", "%", &of(&|turn| turn.waited_percent));
        let energies: Option<Vec<_>> = turns.iter().map(|turn| turn.joules_per_million).collect();
        if let Some(energies) = energies {
            report.value(&case, "energy", "J/M requests", &energies);
        }
    }
    Ok(())
}

/// Stops a server, and lets others run.
fn pause(server: &Server) {
    server.process.pause();
    std::thread::sleep(PAUSE);
}

fn turn(server: &mut Server, side: &mut Side, datagrams_per_second: f64) -> Result<Turn> {
    let mut latencies = Vec::with_capacity((datagrams_per_second * TURN.as_secs_f64() * 1.1) as usize);
    let (requests, echoes) = (&mut side.requests, server.echoes);
    let schedule = Schedule { datagrams_per_second, window: WINDOW, duration: TURN };
    let (meters, processes) = (Meters::of_machine(), [std::process::id(), server.process.id()]);
    let waited_ns = || processes.iter().map(|process| system::waited_ns(*process)).sum::<Result<u64>>();
    let (energy, waited_before_ns) = (meters.read(), waited_ns()?);
    let tally = server.load.open(requests, echoes, &schedule, &mut latencies)?;
    let joules = meters.joules_since(energy.as_ref());
    let waited_ns = waited_ns()? - waited_before_ns;
    let sum_ns: f64 = latencies.iter().map(|ns| f64::from(*ns)).sum();
    let mean_us = sum_ns / latencies.len() as f64 / 1000.0;
    let quantile_us = tally.quantiles(latencies);
    Ok(Turn {
        rate: tally.per_second(),
        mean_us,
        quantiles_us: QUANTILES.iter().map(|(_, quantile)| quantile_us(*quantile)).collect(),
        lost_percent: tally.lost_ratio() * 100.0,
        waited_percent: waited_ns as f64 / TURN.as_nanos() as f64 * 100.0,
        joules_per_million: joules.map(|joules| joules / (tally.succeeded as f64 / 1e6)),
    })
}
