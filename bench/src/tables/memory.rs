//! Fed from memory: no client and no network take part, as with a network card that delivers for
//! nothing. One worker, then one on each CPU.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::round::Round;
use super::table::{Table, TableKind, Tables};
use super::{Load, Options, SEED};
use crate::Result;
use crate::generator::packets::{Packets, Protocol, Shape};
use crate::harness::system;
use crate::network::direction::Memory;
use crate::results::measurement::Measurement;

/// Datagrams of a burst.
const BURST: usize = 32;
/// The most CPUs that are used.
const WORKERS_MAX: usize = 16;

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let all = cpus.len().min(WORKERS_MAX);
    let counts: &[usize] = if all > 1 { &[1, all] } else { &[1] };
    for workers in counts {
        let way = match workers {
            1 => "fed from memory, 1 worker".to_owned(),
            workers => format!("fed from memory, {workers} workers"),
        };
        let loads = Load::ALL.into_iter().map(|load| (load.name(&way), load));
        let wanted: Vec<_> = loads.filter(|(name, _)| options.common.wants(name)).collect();
        if !wanted.is_empty() {
            measure(options, &cpus[cpus.len() - workers..], &wanted, report)?;
        }
    }
    Ok(())
}

fn measure(
    options: &Options,
    cpus: &[usize],
    cases: &[(String, Load)],
    report: &mut Measurement,
) -> Result<()> {
    let mut tables = Vec::new();
    for kind in TableKind::ALL {
        eprint!("\rfilling {}   ", kind.name());
        tables.push(Tables::new(kind, options.items(), cpus.len())?);
    }
    for (name, load) in cases {
        let mut fed: Vec<_> = tables.iter().map(|tables| Fed::new(options, tables, *load)).collect();
        let mut rates = vec![Vec::new(); tables.len()];
        let rounds = options.common.rounds();
        // The first round only warms up.
        for round in 0..=rounds {
            eprint!("\r{name}, round {round} of {rounds}   ");
            for ((tables, fed), rates) in tables.iter_mut().zip(&mut fed).zip(&mut rates) {
                let rate = fed.slice(options, tables, cpus)?;
                if round > 0 {
                    rates.push(rate);
                }
            }
        }
        eprintln!();
        record(name, &tables, &rates, report);
    }
    Ok(())
}

fn record(name: &str, tables: &[Tables], rates: &[Vec<f64>], report: &mut Measurement) {
    for (tables, theirs) in tables.iter().zip(rates) {
        report.value(name, tables.kind.name(), "requests/s", theirs);
        if tables.kind != TableKind::Micanite {
            let metric = (name, "requests", "requests/s");
            report.beside(metric, &rates[0], tables.kind.name(), theirs);
        }
    }
}

/// Requests of each worker, with its share of all requests.
struct Fed(Vec<(Packets, f64)>);

impl Fed {
    /// Requests of tables that workers own a part of each go to the owner; others to anybody.
    fn new(options: &Options, tables: &Tables, load: Load) -> Self {
        let shape = Shape {
            protocol: Protocol::Native,
            batch: 1,
            get_percent: load.get_percent,
            popularity: load.popularity,
            partition: None,
        };
        let count = if options.common.quick { 1 << 19 } else { 1 << 20 };
        let of_worker = |number| {
            let owners = tables.owners.clone().map(|owners| (owners, number));
            let seed = SEED + number as u64;
            let (items, terms) = (options.items(), tables.terms);
            Packets::of_owner(&shape, items, terms, (count, seed), owners)
        };
        Self((0..tables.of_worker.len()).map(of_worker).collect())
    }

    /// Requests per second that all workers do of this load.
    fn slice(&mut self, options: &Options, tables: &mut Tables, cpus: &[usize]) -> Result<f64> {
        let duration = Duration::from_millis(if options.common.quick { 100 } else { 500 });
        let (barrier, ended) = (Barrier::new(cpus.len()), AtomicBool::new(false));
        let (barrier, ended) = (&barrier, &ended);
        let done: Vec<_> = std::thread::scope(|scope| {
            let workers = tables.of_worker.iter_mut().zip(&mut self.0).zip(cpus);
            let threads: Vec<_> = workers
                .map(|((table, (packets, share)), cpu)| {
                    let share = *share;
                    scope.spawn(move || {
                        let pinned = system::pin(*cpu).is_ok();
                        barrier.wait();
                        let rate = feed(table, packets, duration, ended);
                        (rate, share, pinned)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut rates = Vec::new();
        for done in done {
            let (rate, share, pinned) = done.map_err(|_| "a worker has panicked")?;
            if !pinned {
                return Err("a worker could not be pinned".into());
            }
            rates.push((rate.map_err(|few| few.to_string())?, share));
        }
        let of_worker = |(rate, share): &(f64, f64)| rate / share;
        Ok(match tables.owners {
            // The load has the workers' shares: the one that is loaded most says how much.
            Some(_) => rates.iter().map(of_worker).fold(f64::INFINITY, f64::min),
            None => rates.iter().map(|(rate, _)| rate).sum(),
        })
    }
}

/// Runs a worker for a while; requests per second, or what was wrong.
fn feed(
    table: &mut Table,
    packets: &mut Packets,
    duration: Duration,
    ended: &AtomicBool,
) -> std::result::Result<f64, String> {
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut outbox = Memory::default();
    let mut burst = vec![0; BURST * micanite_wire::native::PAYLOAD_BYTES];
    let (mut asked, mut succeeded) = (0, 0);
    let began = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if began.elapsed() >= duration {
            ended.store(true, Ordering::Relaxed);
        }
        let ends = packets.take_burst::<BURST>(&mut burst);
        let mut round = Round::new(table, &mut outbox);
        let mut start = 0;
        for end in ends {
            round.take(&burst[start..end], peer.into());
            start = end;
        }
        succeeded += round.finish();
        asked += (BURST * packets.batch()) as u64;
    }
    let elapsed_s = began.elapsed().as_secs_f64();
    if succeeded * 50 < asked * 49 {
        return Err(format!("only {succeeded} of {asked} requests succeeded"));
    }
    Ok(asked as f64 / elapsed_s)
}
