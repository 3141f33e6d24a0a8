//! CPU time of a datagram that gets to a place and ends there, against the rate: figures 3.2 and 3.3 of the
//! dissertation, with the servers that answer at such a place beside.

use std::time::Duration;

use super::super::latency::measure_open;
use super::super::servers::{Kind, Server};
use super::super::sides::{Round, Side};
use super::super::{Bench, Options, tiny};
use super::{CASE, Place};
use crate::Result;
use crate::results::measurement::Measurement;

const ITEMS: u64 = 1 << 16;
/// Datagrams per second.
const RATES: [f64; 5] = [80e3, 160e3, 320e3, 480e3, 640e3];
const QUICK_RATES: [f64; 3] = [160e3, 320e3, 640e3];
/// More than any place gets here.
const MOST: f64 = 2e6;
/// A rate counts as served when so many of its datagrams came.
const SERVED: f64 = 0.98;
const KINDS: [Kind; 14] = [
    Kind::Sink(Place::Driver),
    Kind::Sink(Place::Generic),
    Kind::Sink(Place::Ingress),
    Kind::Sink(Place::PreRouting),
    Kind::Sink(Place::Lookup),
    Kind::Sink(Place::Filter),
    Kind::Sink(Place::FullQueue),
    Kind::Sink(Place::Sockmap),
    Kind::Sink(Place::Reader),
    Kind::Reflect,
    Kind::KernelGet,
    Kind::KernelGeneric,
    Kind::Udp,
    Kind::Memcached,
];

pub(super) fn run(options: &Options, bench: &mut Bench, report: &mut Measurement) -> Result<()> {
    let case = format!("{CASE}/places");
    if !options.common.wants(&case) {
        return Ok(());
    }
    let mut servers = bench.start(&KINDS, 64, report)?;
    let mut sides = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        tiny::fill(server, ITEMS)?;
        let ring = tiny::gets(server, ITEMS, 1 << 16)?;
        sides.push(Side::new(at, server.kind.name(), ring));
        server.process.pause();
    }
    let rates: &[f64] = if options.common.quick { &QUICK_RATES } else { &RATES };
    for rate in rates.iter().chain([&MOST]) {
        rate_of_all(&case, options, *rate, &mut servers, &mut sides, report)?;
    }
    eprintln!();
    Ok(())
}

fn rate_of_all(
    case: &str,
    options: &Options,
    rate: f64,
    servers: &mut [Server],
    sides: &mut [Side],
    report: &mut Measurement,
) -> Result<()> {
    let (rounds, slice_ms) = if options.common.quick { (3, 60) } else { (3, 150) };
    let mut measured: Vec<Vec<(Round, f64)>> = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (side, measured) in sides.iter_mut().zip(&mut measured) {
            eprint!("\r{case} {:.0} k/s {}      ", rate / 1000.0, side.name);
            let server = &mut servers[side.server];
            measured.push(slice(server, side, rate, Duration::from_millis(slice_ms))?);
        }
    }
    for (side, rounds) in sides.iter().zip(&measured) {
        let case = format!("{case}/{}", side.name);
        let of = |of: &dyn Fn(&Round, f64) -> f64| -> Vec<f64> {
            rounds.iter().map(|(round, came)| of(round, *came)).collect()
        };
        if rate == MOST {
            if servers[side.server].kind == Kind::Sink(Place::Lookup) {
                // It is not known how often the program ran twice.
                continue;
            }
            let most = of(&|round, came| came / round.tally.elapsed_s);
            report.value(&case, "most", "datagrams/s", &most);
            let busy = of(&|round, _| round.usage.utilisation() * 100.0);
            report.value(&case, "core_busy", "%", &busy);
            continue;
        }
        let served: Vec<_> =
            rounds.iter().filter(|(r, came)| *came >= r.tally.sent as f64 * SERVED).collect();
        if served.len() * 2 > rounds.len() {
            let ns = served.iter().map(|(round, came)| round.usage.threads_s * 1e9 / came);
            report.value(&case, &format!("at {:.0} k/s", rate / 1000.0), "ns", &ns.collect::<Vec<_>>());
        }
    }
    Ok(())
}

/// Sends at a rate; returns also how many datagrams came to the place.
fn slice(server: &mut Server, side: &mut Side, rate: f64, duration: Duration) -> Result<(Round, f64)> {
    let mut before = 0;
    let round = measure_open(server, side, rate, duration, &mut |server| {
        before = server.sunk()?;
        Ok(())
    })?;
    server.process.resume();
    let came = match server.kind {
        // GRO searches for the socket, too: the program runs twice for a datagram.
        Kind::Sink(Place::Lookup) => (server.sunk()? - before).min(round.tally.sent),
        Kind::Sink(_) => server.sunk()? - before,
        _ => round.tally.gets,
    };
    server.process.pause();
    Ok((round, came as f64))
}
