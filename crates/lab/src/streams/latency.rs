//! At half of each one's own peak: requests are due by a schedule, whatever the server does.

use super::Options;
use super::cases;
use super::load;
use super::servers::Server;
use crate::Result;
use crate::measurement::Measurement;
use crate::statistics::median;

/// Slices that look for the peak.
const PEAK_ROUNDS: usize = 3;

/// All cases that have a rate, the first server beside each of the others.
pub(super) fn run(
    options: &Options,
    servers: &[Server],
    cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    let mut cases = cases::all(&options.common);
    cases.retain(|case| case.has_rate);
    if cases.is_empty() {
        return Ok(());
    }
    for server in servers {
        load::fill(options, server, cpu)?;
    }
    for case in cases {
        let name = format!("{}, {}, half load", servers[0].transport.name(), case.name);
        let mut peaks = vec![Vec::new(); servers.len()];
        for _ in 0..PEAK_ROUNDS {
            for (server, peaks) in servers.iter().zip(&mut peaks) {
                peaks.push(load::run(options, server, cpu, &case, None)?.per_second);
            }
        }
        let halves: Vec<f64> = peaks.iter().map(|peaks| median(peaks) / 2.0).collect();
        let mut p99_us = vec![Vec::new(); servers.len()];
        let mut lost = 0.0;
        for round in 0..options.common.rounds() {
            for (at, server) in servers.iter().enumerate() {
                let figures = load::run(options, server, cpu, &case, Some(halves[at]))?;
                p99_us[at].push(figures.p99_us);
                lost += figures.loss;
            }
            let last = options.common.rounds();
            eprint!("\r{name}, round {} of {last}   ", round + 1);
        }
        eprintln!();
        if lost > 0.0 {
            report.note(format!("{name}: some requests were not answered in time"));
        }
        for (server, half) in servers.iter().zip(&halves) {
            report.value(
                &name,
                &format!("rate of {}", server.name),
                "ops/s",
                &[*half],
            );
        }
        for (at, peer) in servers.iter().enumerate().skip(1) {
            let what = (name.as_str(), "p99", "us");
            report.beside(what, &p99_us[0], &peer.name, &p99_us[at]);
        }
    }
    Ok(())
}
