//! Requests of one datagram (billion-rps, figures 10 to 12): throughput, what it takes of a network, and
//! latency at half of it; beside memcached, whose clients put keys together into multi-gets.
//!
//! Datagrams are made before the clock runs: a client that makes and checks each request is slower than the
//! server, and all sizes look alike.

use std::time::Duration;

use micanite_workload::Popularity;

use super::Options;
use super::load::{Client, Data, Figures};
use super::rounds::{Metric, RATES, Rounds};
use super::sides::{self, Side, Wanted};
use crate::Result;
use crate::generator::load::{Generator, Load as _, Schedule};
use crate::generator::packets::{Packets, Protocol, Shape};
use crate::generator::sockets::Datagrams;
use crate::harness::energy::Meters;
use crate::harness::servers::Server;
use crate::harness::system;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];
const ITEM_BYTES: usize = 16;
/// Datagrams in flight.
const WINDOW: usize = 256;
/// Keys in flight to memcached.
const KEYS_IN_THE_AIR: usize = 256;
/// Requests that are made beforehand.
const REQUESTS: usize = 1 << 20;
const SEED: u64 = 64;
/// Pause behind a slice, in which other tasks may run.
const PAUSE: Duration = Duration::from_millis(300);
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);

const LATENCIES: [Metric; 3] = [
    ("p50 at half of the peak", "us", |figures| figures.p50_us),
    ("p95 at half of the peak", "us", |figures| figures.p95_us),
    ("p99 at half of the peak", "us", |figures| figures.p99_us),
];

pub(super) fn run(options: &Options, cpus: &[usize], report: &mut Measurement) -> Result<()> {
    let name_of = |size: usize| format!("batches of {size}");
    let sizes: Vec<_> = SIZES.into_iter().filter(|size| options.common.wants(&name_of(*size))).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let wanted =
        Wanted { native: true, all_memcacheds: false, memcached_udp: false, redis: false, elsewhere: false };
    let mut sides = sides::start(options, wanted, ITEM_BYTES, cpus[0], report)?;
    // Ours over TCP has no datagrams.
    sides.remove(1);
    let data = Data { set: "tiny", items: options.items() };
    let client = Client::filled(options, cpus, data, &sides)?;
    system::pin(cpus[cpus.len() - 1])?;
    if !options.common.no_real_time {
        begin_real_time(&sides);
    }
    let names = || sides.iter().map(|side| side.name.as_str());
    let new = || -> Vec<_> { sizes.iter().map(|_| Rounds::new(names())).collect() };
    let (mut peaks, mut halves) = (new(), new());
    let mut rates = vec![vec![Vec::new(); sides.len()]; sizes.len()];
    let server = sides[0].server.as_ref().ok_or("our server runs here")?;
    let mut made: Vec<Made<'_>> = Vec::new();
    for size in &sizes {
        made.push(Made::new(options, server, *size)?);
    }
    for round in 0..options.common.rounds() {
        for (number, size) in sizes.iter().enumerate() {
            eprint!("\r{}, round {}   ", name_of(*size), round + 1);
            for (at, side) in sides.iter().enumerate() {
                let mut load = |rate| match at {
                    0 => made[number].slice(options.slice(), rate),
                    _ => multigets(&client, side, *size, rate),
                };
                let peak = load(None)?;
                std::thread::sleep(PAUSE);
                rates[number][at].push(peak.per_second);
                peaks[number].add(at, peak);
                halves[number].add(at, load(Some(median(&rates[number][at]) / 2.0))?);
                std::thread::sleep(PAUSE);
            }
        }
    }
    eprintln!();
    if !options.common.no_real_time {
        system::make_normal();
    }
    for (number, size) in sizes.iter().enumerate() {
        peaks[number].report(&name_of(*size), &RATES, report);
        for (what, gigabits) in ["requests", "replies"].iter().zip(&made[number].gigabits) {
            let metric = format!("network for {what}, {}", sides[0].name);
            report.value(&name_of(*size), &metric, "Gb/s", gigabits);
        }
        halves[number].report(&name_of(*size), &LATENCIES, report);
    }
    Ok(())
}

/// Gives a real-time priority to the servers and to the client. Slices of less than a second with pauses are
/// not stopped by the kernel.
fn begin_real_time(sides: &[Side]) {
    system::make_real_time();
    for pid in sides.iter().filter_map(Side::pid) {
        system::make_other_real_time(pid);
    }
}

/// Loads memcached at a rate, or as fast as replies come.
fn multigets(client: &Client<'_>, side: &Side, size: usize, rate: Option<f64>) -> Result<Figures> {
    let (keys, pipeline) = (size.to_string(), (KEYS_IN_THE_AIR / 4 / size).max(1).to_string());
    let rate = rate.map(|rate| format!("{rate:.0}"));
    let mut flags = vec!["--get", "100", "--connections", "4", "--multiget", &keys];
    match &rate {
        Some(rate) => flags.extend(["--rate", rate]),
        None => flags.extend(["--pipeline", &pipeline]),
    }
    client.slice(side, &flags)
}

/// Datagrams of one size for our server, and how they are sent.
struct Made<'a> {
    server: &'a Server,
    client: Generator<Datagrams>,
    packets: Packets,
    meters: Meters,
    /// Gigabits per second of requests and replies, by rounds.
    gigabits: [Vec<f64>; 2],
}

impl<'a> Made<'a> {
    fn new(options: &Options, server: &'a Server, size: usize) -> Result<Self> {
        let mut client = Generator::new(Datagrams::new(server.udp(), true)?);
        let terms = client.terms(ANSWER_TIME_MAX)?;
        let shape = Shape {
            protocol: Protocol::Native,
            batch: size,
            get_percent: 100,
            popularity: Popularity::Uniform,
            partition: None,
        };
        let packets = Packets::new(&shape, options.items(), terms, REQUESTS / size, SEED);
        Ok(Self { server, client, packets, meters: Meters::of_machine(), gigabits: Default::default() })
    }

    /// Sends at a rate, or as fast as replies come.
    fn slice(&mut self, duration: Duration, rate: Option<f64>) -> Result<Figures> {
        let packets = &mut self.packets;
        self.client.closed(packets, false, WINDOW, duration / 5)?;
        let (cpu_before_ns, energy) = (system::cpu_time_ns(self.server.pid())?, self.meters.read());
        let mut latencies = Vec::new();
        let tally = match rate {
            None => self.client.closed(packets, false, WINDOW, duration)?,
            Some(rate) => {
                let datagrams_per_second = rate / packets.batch() as f64;
                let schedule = Schedule { datagrams_per_second, window: WINDOW, duration };
                self.client.open(packets, false, &schedule, &mut latencies)?
            }
        };
        let joules = self.meters.joules_since(energy.as_ref());
        let cpu_s = (system::cpu_time_ns(self.server.pid())? - cpu_before_ns) as f64 / 1e9;
        tally.check(&self.server.name, packets.batch())?;
        if rate.is_none() {
            for (all, gigabits) in self.gigabits.iter_mut().zip(tally.gigabits(packets)) {
                all.push(gigabits);
            }
        }
        let quantile_us = tally.quantiles(latencies);
        Ok(Figures {
            per_second: tally.per_second(),
            per_core_second: tally.succeeded as f64 / cpu_s,
            p50_us: quantile_us(0.5),
            p95_us: quantile_us(0.95),
            p99_us: quantile_us(0.99),
            loss: tally.lost_ratio(),
            hit_ratio: 1.0,
            joules_per_million: joules.map_or(f64::NAN, |joules| joules / (tally.succeeded as f64 / 1e6)),
        })
    }
}
