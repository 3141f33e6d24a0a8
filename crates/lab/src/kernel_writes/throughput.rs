//! As fast as replies come: SETs per second of the server's core, and where that core's time goes.

use super::Options;
use super::cases;
use super::load::{self, Figures};
use super::responder::Answer;
use super::servers::{Kind, Server};
use crate::Result;
use crate::report::Report;

/// A figure of a slice, its name and its unit.
type Metric = (&'static str, &'static str, fn(&Figures) -> f64);

/// What is told of each server.
const METRICS: [Metric; 8] = [
    ("sets_per_second", "/s", |figures| figures.per_second),
    ("core_ns", "ns", |figures| figures.core_ns),
    ("process_ns", "ns", |figures| figures.process_ns),
    ("poller_ns", "ns", |figures| figures.poller_ns),
    ("workers_ns", "ns", |figures| figures.workers_ns),
    ("in_kernel", "%", |figures| figures.in_kernel * 100.0),
    ("p50", "us", |figures| figures.p50_us),
    ("p99", "us", |figures| figures.p99_us),
];

/// Ours beside what the program would do if it stored, too, at what that costs in user space: the
/// difference between ours and the echo.
fn storing(case: &str, servers: &[Server], rounds: &[Vec<Figures>], report: &mut Report) {
    let of = |wanted: fn(&Kind) -> bool| {
        let at = servers.iter().position(|server| wanted(&server.kind))?;
        Some((&servers[at].name, &rounds[at]))
    };
    let (Some((_, program)), Some((_, echo)), Some((name, ours))) = (
        of(|kind| matches!(kind, Kind::Responder(Answer::Kernel))),
        of(|kind| matches!(kind, Kind::Responder(Answer::Epoll))),
        of(|kind| matches!(kind, Kind::Micanite(_))),
    ) else {
        return;
    };
    let storing: Vec<_> = program
        .iter()
        .zip(echo)
        .zip(ours)
        .map(|((program, echo), ours)| 1e9 / (program.core_ns + ours.core_ns - echo.core_ns))
        .collect();
    let ours: Vec<_> = ours.iter().map(|ours| ours.per_core_second).collect();
    let what = (case, "sets_per_server_core_second, if it stored", "/s");
    report.beside(what, &storing, name, &ours);
}

/// All cases, the first server beside each of the others.
pub(super) fn run(
    options: &Options,
    servers: &[Server],
    cpus: [usize; 2],
    report: &mut Report,
) -> Result<()> {
    for case in cases::all(&options.common) {
        let mut rounds: Vec<Vec<Figures>> = servers.iter().map(|_| Vec::new()).collect();
        for round in 0..options.common.rounds() {
            for (server, rounds) in servers.iter().zip(&mut rounds) {
                rounds.push(load::run(options, server, cpus, &case, None)?);
            }
            let last = options.common.rounds();
            eprint!("\r{}, round {} of {last}   ", case.name, round + 1);
        }
        eprintln!();
        let of = |at: usize, figure: fn(&Figures) -> f64| -> Vec<f64> {
            rounds[at].iter().map(figure).collect()
        };
        let per_core_second = |at| of(at, |figures| figures.per_core_second);
        for (at, server) in servers.iter().enumerate().skip(1) {
            let what = (case.name, "sets_per_server_core_second", "/s");
            report.beside(
                what,
                &per_core_second(0),
                &server.name,
                &per_core_second(at),
            );
        }
        storing(case.name, servers, &rounds, report);
        for (at, server) in servers.iter().enumerate() {
            let name = format!("{}/{}", case.name, server.name);
            report.value(
                &name,
                "sets_per_server_core_second",
                "/s",
                &per_core_second(at),
            );
            for (metric, unit, figure) in METRICS {
                report.value(&name, metric, unit, &of(at, figure));
            }
        }
    }
    Ok(())
}
