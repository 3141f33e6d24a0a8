//! Throughput of a whole server by the number of its workers (MICA, figure 14). The client needs cores,
//! too: it has the rest of them. Where there are too few for that, two workers beside one are measured on
//! cores that the client has as well, and only what a request costs the server is of interest.

use super::Options;
use super::load::{Client, Data};
use super::rounds::{RATES, Rounds};
use super::sides::Side;
use crate::Result;
use crate::harness::cpus::Sides;
use crate::harness::peers;
use crate::results::measurement::Measurement;

const ITEM_BYTES: usize = 16;

/// Returns the numbers of workers to measure: each leaves as many CPUs for the client.
fn workers(cpus: &Sides) -> Vec<usize> {
    let most = cpus.server.len().min(cpus.client.len());
    let mut numbers: Vec<_> = std::iter::successors(Some(1), |number| Some(number * 2))
        .take_while(|number| *number < most)
        .collect();
    numbers.push(most);
    numbers
}

pub(super) fn run(options: &Options, cpus: &Sides, report: &mut Measurement) -> Result<()> {
    let name_of = |workers: usize| format!("cores of a server, {workers}");
    let numbers: Vec<_> =
        workers(cpus).into_iter().filter(|number| options.common.wants(&name_of(*number))).collect();
    for number in numbers {
        let cpus = (&cpus.server[..number], &cpus.client[..number]);
        let rounds = measure(options, &name_of(number), cpus, report)?;
        rounds.report(&name_of(number), &RATES, report);
    }
    Ok(())
}

/// One worker and two, on two cores that the client's two threads have, too: of streams, since workers that
/// wait for datagrams spin, which would count.
pub(super) fn run_shared(options: &Options, cpus: &Sides, report: &mut Measurement) -> Result<()> {
    let shared = cpus.first();
    if workers(cpus) != [1] || shared[0] == shared[1] {
        return Ok(());
    }
    for number in [1, 2] {
        let name = format!("workers on the client's cores, {number}");
        if options.common.wants(&name) {
            let rounds = measure(options, &name, (&shared[..number], &shared), report)?;
            let [per_core_second, ..] = RATES;
            rounds.report(&name, &[per_core_second], report);
        }
    }
    Ok(())
}

/// Measures our server and memcached, with a worker on each of some cores and a client's thread on each of
/// others.
fn measure(
    options: &Options,
    name: &str,
    (server_cpus, client_cpus): (&[usize], &[usize]),
    report: &mut Measurement,
) -> Result<Rounds> {
    let client = Client { options, cpus: client_cpus, data: Data { set: "tiny", items: options.items() } };
    let mut sides = start(options, server_cpus, report)?;
    if server_cpus[0] == client_cpus[0] {
        sides.retain(|side| !side.url.starts_with("native"));
    }
    for side in &sides {
        client.fill(side)?;
    }
    let mut rounds = Rounds::new(sides.iter().map(|side| side.name.as_str()));
    let streams = (4 * client_cpus.len()).to_string();
    for round in 0..options.common.rounds() {
        eprint!("\r{name}, round {}   ", round + 1);
        for (at, side) in sides.iter().enumerate() {
            let mut flags = vec!["--popularity", "zipf:0.99", "--get", "95"];
            if side.url.starts_with("native") {
                flags.extend(side.busy);
            } else {
                flags.extend(["--connections", &streams, "--batch", "32"]);
            }
            rounds.add(at, client.slice(side, &flags)?);
        }
    }
    eprintln!();
    Ok(rounds)
}

/// Starts our server and memcached with a worker on each of these cores.
fn start(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<Vec<Side>> {
    let workers = cpus.len().to_string();
    let item_bytes = ITEM_BYTES.to_string();
    let ours = ["-m", "3072", "--item-size", &item_bytes, "-t", &workers];
    let theirs = ["-m", "3072", "-R", "64", "-t", &workers];
    let mut sides = vec![Side::native(options, &ours, cpus)?, Side::tcp(options, &ours, cpus)?];
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    if let Some(binary) = binaries.first() {
        sides.push(Side::memcached(binary, &theirs, cpus)?);
    }
    Ok(sides)
}
