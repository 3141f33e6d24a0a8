//! At three rates, the same for all servers: SETs are due by a schedule, whatever the server does.

use super::Options;
use super::cases::CASES;
use super::load::{self, Figures};
use super::servers::Server;
use crate::Result;
use crate::report::Report;

/// Of the least peak.
const PARTS: [f64; 3] = [0.1, 0.4, 0.7];

/// All servers at all rates, in turns.
pub(super) fn run(
    options: &Options,
    servers: &[Server],
    cpus: [usize; 2],
    report: &mut Report,
) -> Result<()> {
    let case = CASES[0];
    let name = |part: f64| format!("latency/{}/{part}", case.name);
    let parts = match options.common.quick {
        true => &PARTS[1..2],
        false => &PARTS[..],
    };
    let wanted: Vec<_> = parts
        .iter()
        .copied()
        .filter(|part| options.common.wants(&name(*part)))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut peak = f64::INFINITY;
    for server in servers {
        peak = peak.min(load::run(options, server, cpus, &case, None)?.per_second);
    }
    for part in wanted {
        let mut rounds: Vec<Vec<Figures>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 0..options.common.rounds().min(5) {
            for (server, rounds) in servers.iter().zip(&mut rounds) {
                rounds.push(load::run(options, server, cpus, &case, Some(peak * part))?);
            }
            eprint!(
                "\rlatency at {part} of the least peak, round {}   ",
                round + 1
            );
        }
        eprintln!();
        for (server, rounds) in servers.iter().zip(&rounds) {
            let of =
                |figure: fn(&Figures) -> f64| -> Vec<f64> { rounds.iter().map(figure).collect() };
            let case = format!("{}/{}", name(part), server.name);
            report.value(&case, "rate", "/s", &of(|figures| figures.per_second));
            report.value(&case, "p50", "us", &of(|figures| figures.p50_us));
            report.value(&case, "p99", "us", &of(|figures| figures.p99_us));
            report.value(
                &case,
                "in_kernel",
                "%",
                &of(|figures| figures.in_kernel * 100.0),
            );
            report.value(&case, "core_ns", "ns", &of(|figures| figures.core_ns));
        }
    }
    Ok(())
}
