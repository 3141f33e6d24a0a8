//! Latency against throughput, without client batching: open loop at some rates up to the peak,
//! counted from the time that a request was due, at normal priority.

use std::time::Duration;

use super::servers::Server;
use super::sides::Side;
use super::throughput::{shape, side};
use super::{Options, Servers};
use crate::Result;
use crate::harness::system;
use crate::results::measurement::Measurement;

pub(super) const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Parts of each server's own peak.
const PARTS: [f64; 7] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95];
const QUICK_PARTS: [f64; 3] = [0.25, 0.5, 0.8];

pub(super) fn run(options: &Options, servers: &mut Servers, report: &mut Measurement) -> Result<()> {
    let places = [("memif", servers.memif), ("xdp", servers.xdp), ("kernel-udp", servers.kernel)];
    let wanted = |port: &str| options.common.wants(&format!("latency/{port}"));
    let places = places.into_iter().filter(|(port, _)| wanted(port));
    let places: Vec<_> = places.filter_map(|(port, pair)| Some((port, pair?[0]))).collect();
    if places.is_empty() {
        return Ok(());
    }
    // Tasks of real-time priority that never wait are stopped for 50 ms of each second, which is
    // all that a high quantile would show.
    system::make_normal();
    for (port, at) in places {
        let mut side = side(options, servers, at, &shape(95, 1))?;
        let server = &mut servers.all[at];
        system::make_other_normal(server.process.id());
        server.process.resume();
        curve(options, port, server, &mut side, report)?;
        server.process.pause();
    }
    Ok(())
}

fn curve(
    options: &Options,
    port: &str,
    server: &mut Server,
    side: &mut Side,
    report: &mut Measurement,
) -> Result<()> {
    let quick = options.common.quick;
    let duration = Duration::from_millis(if quick { 300 } else { 1000 });
    let rounds = if quick { 1 } else { 3 };
    side.warm_up(server, duration)?;
    let peak = side.closed(server, duration)?.per_second();
    let parts: &[f64] = if quick { &QUICK_PARTS } else { &PARTS };
    for part in parts {
        eprint!("\rlatency/{port}, {:.0} % of the peak   ", part * 100.0);
        let case = format!("latency/{port}/{part}");
        let (mut rates, mut lost, mut at) = (Vec::new(), Vec::new(), [vec![], vec![], vec![]]);
        for _ in 0..rounds {
            let mut latencies = Vec::new();
            let (requests, echoes) = (&mut side.requests, server.echoes);
            let load = &mut server.load;
            let tally = load.open(requests, echoes, peak * part, duration, &mut latencies)?;
            rates.push(tally.per_second());
            lost.push(tally.lost_ratio() * 100.0);
            // Lost requests count as infinitely late.
            latencies.resize(tally.sent_datagrams as usize, u32::MAX);
            latencies.sort_unstable();
            for (values, (_, quantile)) in at.iter_mut().zip(QUANTILES) {
                let place = (latencies.len().saturating_sub(1) as f64 * quantile) as usize;
                let latency_ns = latencies.get(place).copied().unwrap_or(u32::MAX);
                values.push(f64::from(latency_ns) / 1000.0);
            }
        }
        report.value(&case, "rate", "requests/s", &rates);
        for (values, (name, _)) in at.iter().zip(QUANTILES) {
            report.value(&case, name, "us", values);
        }
        report.value(&case, "lost", "%", &lost);
    }
    eprintln!();
    Ok(())
}
