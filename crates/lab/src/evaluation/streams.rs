//! Streams over TCP and Unix sockets: ours by epoll and by io_uring beside memcached and Redis, as fast as
//! replies come, and at half of that.

use micanite_net::Uring;

use super::Options;
use super::load::{Client, Data, Figures};
use super::rounds::{Metric, RATES, Rounds};
use super::sides::{self, Side};
use crate::Result;
use crate::harness::peers;
use crate::harness::servers::{Program, Transport};
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

/// A shape of requests.
struct Shape {
    name: &'static str,
    /// Options of `micanite load`.
    flags: &'static [&'static str],
    /// Is false of batches: at a rate a batch waits for its last request.
    has_rate: bool,
}

const SHAPES: [Shape; 7] = [
    Shape {
        name: "50 connections, 1 GET in flight",
        flags: &["--connections", "50", "--get", "100"],
        has_rate: true,
    },
    Shape {
        name: "4 connections, pipelines of 32 GETs",
        flags: &["--connections", "4", "--batch", "32", "--get", "100"],
        has_rate: false,
    },
    Shape {
        name: "4 connections, multi-gets of 100",
        flags: &["--connections", "4", "--multiget", "100", "--get", "100"],
        has_rate: true,
    },
    Shape {
        name: "4 connections, pipelines of 32, half SET",
        flags: &["--connections", "4", "--batch", "32", "--get", "50"],
        has_rate: false,
    },
    Shape {
        name: "4 connections, pipelines of 32 SETs",
        flags: &["--connections", "4", "--batch", "32", "--get", "0"],
        has_rate: false,
    },
    Shape {
        name: "50 connections, 1 in flight, half SET",
        flags: &["--connections", "50", "--get", "50"],
        has_rate: false,
    },
    Shape {
        name: "4 connections, multi-gets of 10",
        flags: &["--connections", "4", "--multiget", "10", "--get", "100"],
        has_rate: false,
    },
];
const SHAPES_QUICK: usize = 3;
/// Items of keys of 16 bytes and values of 32; all fit.
const DATA: Data<'_> = Data { set: "16/32", items: 1 << 17 };
const FLAGS: [&str; 6] = ["-m", "1024", "--item-size", "48", "-c", "1024"];
const P99: Metric = ("p99", "us", |figures| figures.p99_us);

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let most = match options.common.quick {
        true => SHAPES_QUICK,
        false => SHAPES.len(),
    };
    for transport in [Transport::Tcp, Transport::Unix] {
        let cases = SHAPES[..most].iter().map(|shape| {
            let name = format!("streams over {}, {}", transport.name(), shape.name);
            (name, shape)
        });
        let cases: Vec<_> = cases.filter(|(name, _)| options.common.wants(name)).collect();
        if !cases.is_empty() {
            measure(options, cpus, transport, &cases, report)?;
        }
    }
    Ok(())
}

fn measure(
    options: &Options,
    cpus: &[usize],
    transport: Transport,
    cases: &[(String, &Shape)],
    report: &mut Measurement,
) -> Result<()> {
    let sides = start(options, transport, cpus[0], report)?;
    let client = Client::filled(options, cpus, DATA, &sides)?;
    let names = || sides.iter().map(|side| side.name.as_str());
    for (name, shape) in cases {
        let (mut peaks, mut halves) = (Rounds::new(names()), Rounds::new(names()));
        let mut rates = vec![Vec::new(); sides.len()];
        for round in 0..options.common.rounds() {
            eprint!("\r{name}, round {}   ", round + 1);
            for (at, side) in sides.iter().enumerate() {
                let peak = client.slice(side, shape.flags)?;
                rates[at].push(peak.per_second);
                peaks.add(at, peak);
                if shape.has_rate {
                    halves.add(at, at_half(&client, side, shape, median(&rates[at]))?);
                }
            }
        }
        eprintln!();
        peaks.report(name, &RATES, report);
        if shape.has_rate {
            halves.report(&format!("{name}, half load"), &[P99], report);
        }
    }
    Ok(())
}

/// Requests due by a schedule, at half of a peak.
fn at_half(client: &Client<'_>, side: &Side, shape: &Shape, peak: f64) -> Result<Figures> {
    let rate = format!("{:.0}", peak / 2.0);
    client.slice(side, &[shape.flags, &["--rate", &rate]].concat())
}

/// Ours by epoll first: the others stand beside it.
fn start(options: &Options, transport: Transport, cpu: usize, report: &mut Measurement) -> Result<Vec<Side>> {
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let start =
        |program, name: Option<&str>, flags: &[&str]| Side::stream((program, transport), name, flags, cpu);
    let ours = |io| [&FLAGS[..], &["--io", io]].concat();
    let micanite = Program::Micanite(&options.binaries.server);
    let mut sides = vec![start(micanite, Some("micanite"), &ours("epoll"))?];
    match Uring::probe() {
        Ok(()) => sides.push(start(micanite, Some("io_uring"), &ours("io_uring"))?),
        Err(error) => report.note_once(&format!("not by io_uring: {error}")),
    }
    for binary in &binaries {
        let usual = ["-m", "1024", "-c", "1088"];
        let long_turns = [&usual[..], &["-R", "64"]].concat();
        sides.push(start(Program::Memcached(binary), None, &usual)?);
        let mut side = start(Program::Memcached(binary), None, &long_turns)?;
        side.name += " -R 64";
        sides.push(side);
    }
    match options.redis.exists() {
        true => sides.push(start(Program::Redis(&options.redis), None, &[])?),
        false => report.note_once(sides::NO_REDIS),
    }
    Ok(sides)
}
