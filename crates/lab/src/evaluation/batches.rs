//! Requests of one datagram (billion-rps, figures 10 to 12): throughput, and latency at half of that;
//! beside memcached, whose clients put keys together into multi-gets.

use super::Options;
use super::load::{Client, Data, Figures};
use super::rounds::{Metric, RATES, Rounds};
use super::sides::{self, Side, Wanted};
use crate::Result;
use crate::results::measurement::Measurement;
use crate::results::statistics::median;

const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];
const ITEM_BYTES: usize = 16;
/// Requests in flight, of every size of batch.
const IN_THE_AIR: usize = 256;

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
    let names = || sides.iter().map(|side| side.name.as_str());
    let new = || -> Vec<_> { sizes.iter().map(|_| Rounds::new(names())).collect() };
    let (mut peaks, mut halves) = (new(), new());
    let mut rates = vec![vec![Vec::new(); sides.len()]; sizes.len()];
    for round in 0..options.common.rounds() {
        for (number, size) in sizes.iter().enumerate() {
            eprint!("\r{}, round {}   ", name_of(*size), round + 1);
            for (at, side) in sides.iter().enumerate() {
                let peak = load(&client, side, *size, None)?;
                rates[number][at].push(peak.per_second);
                peaks[number].add(at, peak);
                let half = median(&rates[number][at]) / 2.0;
                halves[number].add(at, load(&client, side, *size, Some(half))?);
            }
        }
    }
    eprintln!();
    for ((size, peaks), halves) in sizes.iter().zip(&peaks).zip(&halves) {
        peaks.report(&name_of(*size), &RATES, report);
        halves.report(&name_of(*size), &LATENCIES, report);
    }
    Ok(())
}

/// Loads at a rate, or as fast as replies come.
fn load(client: &Client<'_>, side: &Side, size: usize, rate: Option<f64>) -> Result<Figures> {
    let size_text = size.to_string();
    let rate = rate.map(|rate| format!("{rate:.0}"));
    let mut flags = vec!["--get", "100"];
    let in_the_air = if side.url.starts_with("native") {
        flags.extend(["--batch", &size_text]);
        IN_THE_AIR.to_string()
    } else {
        flags.extend(["--connections", "4", "--multiget", &size_text]);
        (IN_THE_AIR / 4 / size).max(1).to_string()
    };
    match &rate {
        Some(rate) => flags.extend(["--rate", rate]),
        None => flags.extend(["--pipeline", &in_the_air]),
    }
    client.slice(side, &flags)
}
