//! CPU time of the server per GET: of its workers, and of the provider's threads.

use std::time::{Duration, Instant};

use super::Options;
use super::load::{self, Way};
use super::server::Server;
use crate::Result;
use crate::results::measurement::Measurement;

/// Time for which the idle server is watched.
const IDLE: Duration = Duration::from_millis(1_000);

pub(super) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    for provider in &options.provider {
        let case = format!("{provider}/cpu/1k");
        if options.common.wants(&case) {
            measure(options, provider, &case, report)?;
        }
    }
    Ok(())
}

/// Only GETs, of items that the client knows: what the server's threads use beyond what they use idle.
/// There are so many that the start of a client, and the second after it in which the worker looks out for
/// more, count little.
fn measure(options: &Options, provider: &str, case: &str, report: &mut Measurement) -> Result<()> {
    let server = Server::start(&options.binaries.server, provider, options.area_bytes())?;
    let words = |operations: u64| {
        let text = format!("--dataset 100/1024 --items 1000 --get 100 --operations {operations}");
        text.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let mut fill = words(1);
    fill.push("--fill".to_owned());
    load::run(options, &server, Way::TwoSided, &fill)?;
    for way in [Way::OneSided, Way::TwoSided] {
        let (mut workers, mut others) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds().max(3) {
            let idle = watched(&server, || {
                std::thread::sleep(IDLE);
                Ok(())
            })?;
            let mut figures = None;
            let busy = watched(&server, || {
                figures = Some(load::run(options, &server, way, &words(options.operations() * 20))?);
                Ok(())
            })?;
            let gets = figures.map_or(f64::NAN, |figures| figures.gets);
            // Polling costs the same whether there are requests or not: it is taken off by its time.
            let per_get = |which: usize| (busy.1[which] - idle.1[which] * busy.0 / idle.0) / gets;
            workers.push(per_get(0));
            others.push(per_get(1));
        }
        report.value(case, &format!("workers, {} GET", way.name()), "ns", &workers);
        report.value(case, &format!("other threads, {} GET", way.name()), "ns", &others);
    }
    Ok(())
}

/// Seconds of something, and nanoseconds of CPU that the server's threads used meanwhile.
fn watched(server: &Server, something: impl FnOnce() -> Result<()>) -> Result<(f64, [f64; 2])> {
    let (begin, before) = (Instant::now(), server.cpu_ns()?);
    something()?;
    let after = server.cpu_ns()?;
    let used = |which: usize| after[which].saturating_sub(before[which]) as f64;
    Ok((begin.elapsed().as_secs_f64(), [used(0), used(1)]))
}
