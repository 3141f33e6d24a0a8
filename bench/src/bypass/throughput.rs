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
const FEW_BATCHES: [usize; 2] = [1, 4];
const GET_PERCENTS: [u64; 2] = [95, 50];

/// Loads with several requests per datagram over a port.
struct Sweep {
    port: &'static str,
    popularity: Popularity,
    get_percent: u64,
    batches: &'static [usize],
}

const SWEEPS: [Sweep; 5] = {
    const UNIFORM: Popularity = Popularity::Uniform;
    const ZIPF: Popularity = Popularity::Zipf(0.99);
    const fn sweep(port: &'static str, popularity: Popularity, get_percent: u64) -> Sweep {
        let batches: &[usize] = match popularity {
            UNIFORM => &BATCHES,
            _ => &FEW_BATCHES,
        };
        Sweep { port, popularity, get_percent, batches }
    }
    [
        sweep("memif", UNIFORM, 95),
        sweep("memif", UNIFORM, 50),
        sweep("memif", ZIPF, 95),
        sweep("memif", ZIPF, 50),
        sweep("xdp", UNIFORM, 95),
    ]
};

impl Sweep {
    fn name(&self) -> String {
        let law = match self.popularity {
            Popularity::Uniform => "tiny",
            _ => "zipf",
        };
        format!("{}/{law}/{}/batches", self.port, self.get_percent)
    }
}

fn single_name(port: &str, get_percent: u64) -> String {
    format!("{port}/tiny/{get_percent}")
}

/// Tells whether a port is wanted beside its echo and others.
pub(super) fn is_wanted(options: &Options, port: &str) -> bool {
    GET_PERCENTS.iter().any(|get_percent| options.common.wants(&single_name(port, *get_percent)))
}

/// Tells whether more requests per datagram are wanted over a port.
pub(super) fn has_batches(options: &Options, port: &str) -> bool {
    SWEEPS.iter().any(|sweep| sweep.port == port && options.common.wants(&sweep.name()))
}

pub(super) fn run(options: &Options, servers: &mut Servers, cpus: &[usize], report: &mut Measurement) {
    for get_percent in GET_PERCENTS {
        // A failure keeps the measurements before it.
        let done = single(options, servers, get_percent, cpus, report);
        report.part(done);
    }
    for sweep in SWEEPS {
        let done = batches(options, servers, &sweep, cpus, report);
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
    let cases = cases.map(|(port, places)| {
        let case = single_name(port, get_percent);
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

/// Measures more requests per datagram.
fn batches(
    options: &Options,
    servers: &mut Servers,
    sweep: &Sweep,
    cpus: &[usize],
    report: &mut Measurement,
) -> Result<()> {
    let case = sweep.name();
    let places = if sweep.port == "xdp" { servers.xdp } else { servers.memif };
    let Some([ours, _]) = places.filter(|_| options.common.wants(&case)) else {
        return Ok(());
    };
    let mut sides = Vec::new();
    for batch in sweep.batches {
        let shape = Shape { popularity: sweep.popularity, ..shape(sweep.get_percent, *batch) };
        sides.push(side(options, servers, ours, &shape)?);
    }
    measure(&case, &mut servers.all, &mut sides, rounds(options), cpus)?;
    let [one, four, ..] = &sides[..] else {
        return Err("there are two at least".into());
    };
    for (number, side) in sides.iter().enumerate() {
        let name = format!("{case}/{}", side.requests.batch());
        let metric = (name.as_str(), METRIC, "requests/s");
        match number {
            0 => report.value(&name, METRIC, "requests/s", &side.per_second),
            1 => report.beside(metric, &side.per_second, "1 per packet", &one.per_second),
            _ => report.beside(metric, &side.per_second, "4 per packet", &four.per_second),
        }
        for (what, gigabits) in ["requests", "replies"].into_iter().zip(&side.gigabits) {
            report.value(&name, &format!("network, {what}"), "Gb/s", gigabits);
        }
        if !side.joules.is_empty() {
            report.value(&name, "energy", "J/M requests", &side.joules);
        }
    }
    Ok(())
}
