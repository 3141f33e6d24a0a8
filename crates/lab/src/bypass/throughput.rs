//! Requests per second without client batching, and what batching is worth.

use std::time::Duration;

use micanite_workload::Popularity;

use super::servers::Server;
use super::sides::{Side, measure};
use super::{Options, Servers};
use crate::Result;
use crate::generator::packets::{Protocol, Shape};
use crate::results::measurement::Measurement;

pub(super) const SEED: u64 = 61;
const METRIC: &str = "throughput_ops";
/// Requests of a datagram; 0 = as many as fit.
const BATCHES: [usize; 5] = [1, 4, 8, 16, 0];

pub(super) fn run(options: &Options, servers: &mut Servers, cpus: &[usize], report: &mut Measurement) {
    for get_percent in [95, 50] {
        // A failure keeps the measurements before it.
        let done = single(options, servers, get_percent, cpus, report);
        report.part(done);
        let done = batches(options, servers, get_percent, cpus, report);
        report.part(done);
    }
}

pub(super) fn shape(get_percent: u64, batch: usize) -> Shape {
    Shape { protocol: Protocol::Native, batch, get_percent, popularity: Popularity::Uniform, partition: None }
}

fn rounds(options: &Options) -> (usize, Duration) {
    let slice_ms = if options.common.quick { 300 } else { 1000 };
    (options.common.rounds(), Duration::from_millis(slice_ms))
}

pub(super) fn side(options: &Options, servers: &mut Servers, at: usize, shape: &Shape) -> Result<Side> {
    let requests: usize = if options.common.quick { 1 << 20 } else { 1 << 21 };
    let count = match shape.batch {
        0 => requests / 32,
        batch => requests / batch,
    };
    let server: &mut Server = &mut servers.all[at];
    server.process.resume();
    let prepared = server.prepare(shape, options.items, count, SEED)?;
    server.process.pause();
    Ok(Side::new(at, prepared))
}

/// One request per datagram, everybody in turns.
fn single(
    options: &Options,
    servers: &mut Servers,
    get_percent: u64,
    cpus: &[usize],
    report: &mut Measurement,
) -> Result<()> {
    let cases = [("xdp", servers.xdp), ("memif", servers.memif)];
    let name = |port: &str| format!("{port}/tiny/{get_percent}");
    let cases = cases.map(|(port, places)| {
        let case = name(port);
        places.filter(|_| options.common.wants(&case)).map(|places| (case, places))
    });
    let wanted: Vec<_> = cases.into_iter().flatten().collect();
    let Some((first, _)) = wanted.first() else {
        return Ok(());
    };
    let mut sides = Vec::new();
    let places = wanted.iter().flat_map(|(_, places)| *places);
    let places: Vec<_> = places.chain(servers.kernel.into_iter().flatten()).collect();
    for at in places {
        sides.push(side(options, servers, at, &shape(get_percent, 1))?);
    }
    measure(first, &mut servers.all, &mut sides, rounds(options), cpus)?;
    let of = |at: usize| sides.iter().find(|side| side.server == at);
    let of = |at| of(at).ok_or("it was not measured");
    for (case, [ours, echo]) in &wanted {
        let (ours, echo) = (of(*ours)?, of(*echo)?);
        let is_xdp = case.starts_with("xdp");
        let (unit, pick): (_, fn(&Side) -> &[f64]) = match is_xdp {
            true => ("requests/CPU-s", |side| &side.per_cpu_second),
            false => ("requests/s", |side| &side.per_second),
        };
        let metric = (case.as_str(), METRIC, unit);
        report.beside(metric, pick(ours), "echo", pick(echo));
        if let Some([kernel, memcached]) = servers.kernel {
            report.beside(metric, pick(ours), "kernel-udp", pick(of(kernel)?));
            let peer = servers.all[memcached].name.clone();
            report.beside(metric, pick(ours), &peer, pick(of(memcached)?));
        }
        if is_xdp {
            report.value(case, "end_to_end", "requests/s", &ours.per_second);
        }
        let over_ns = ours.per_second.iter().zip(&echo.per_second);
        let over_ns: Vec<_> = over_ns.map(|(ours, echo)| 1e9 / ours - 1e9 / echo).collect();
        report.value(case, "over_the_echo", "ns", &over_ns);
    }
    Ok(())
}

/// Measures more requests per datagram, over shared memory.
fn batches(
    options: &Options,
    servers: &mut Servers,
    get_percent: u64,
    cpus: &[usize],
    report: &mut Measurement,
) -> Result<()> {
    let case = format!("memif/tiny/{get_percent}/batches");
    let Some([ours, _]) = servers.memif.filter(|_| options.common.wants(&case)) else {
        return Ok(());
    };
    let mut sides = Vec::new();
    for batch in BATCHES {
        sides.push(side(options, servers, ours, &shape(get_percent, batch))?);
    }
    measure(&case, &mut servers.all, &mut sides, rounds(options), cpus)?;
    let [one, four, more @ ..] = &sides[..] else {
        return Err("there are five".into());
    };
    let mut record = |side: &Side, peer: &str, beside: &Side| {
        let name = format!("{case}/{}", side.requests.batch());
        let metric = (name.as_str(), METRIC, "requests/s");
        report.beside(metric, &side.per_second, peer, &beside.per_second);
    };
    record(four, "1 per packet", one);
    for side in more {
        record(side, "4 per packet", four);
    }
    Ok(())
}
