//! As fast as replies come: operations per server-core-second and per second, in turns.

use super::Options;
use super::cases;
use super::load::{self, Figures};
use super::servers::Server;
use crate::Result;
use crate::measurement::Measurement;

/// All cases, the first server beside each of the others.
pub(super) fn run(
    options: &Options,
    servers: &[Server],
    cpu: usize,
    report: &mut Measurement,
) -> Result<()> {
    let cases = cases::all(&options.common);
    if cases.is_empty() {
        return Ok(());
    }
    for server in servers {
        load::fill(options, server, cpu)?;
    }
    for case in cases {
        let name = format!("{}, {}", servers[0].transport.name(), case.name);
        let mut rounds: Vec<Vec<Figures>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 0..options.common.rounds() {
            for (server, rounds) in servers.iter().zip(&mut rounds) {
                rounds.push(load::run(options, server, cpu, &case, None)?);
            }
            let last = options.common.rounds();
            eprint!("\r{name}, round {} of {last}   ", round + 1);
        }
        eprintln!();
        let of = |at: usize, figure: fn(&Figures) -> f64| -> Vec<f64> {
            rounds[at].iter().map(figure).collect()
        };
        for (at, peer) in servers.iter().enumerate().skip(1) {
            for (metric, unit, figure) in [
                (
                    "per server-core-second",
                    "ops",
                    (|f| f.per_core_second) as fn(&Figures) -> f64,
                ),
                ("throughput", "ops/s", |f| f.per_second),
            ] {
                report.beside(
                    (&name, metric, unit),
                    &of(0, figure),
                    &peer.name,
                    &of(at, figure),
                );
            }
        }
    }
    Ok(())
}
