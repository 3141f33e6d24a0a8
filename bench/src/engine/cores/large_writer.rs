//! A writer of small values beside a writer of 64 KiB values, in one partition under CRCW: how
//! long its writes take, and how many it does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use micanite_engine::{Access, Config, Expiry, Outcome, Worker};

use super::threads::{Pair, meet};
use crate::Result;
use crate::engine::Options;
use crate::engine::contenders::{bytes, config_of};
use crate::harness::popularity::Random;
use crate::harness::system;
use crate::results::measurement::Measurement;

const CASE: &str = "writer of 16/64 beside one of 64 KiB";
const LARGE_BYTES: usize = 64 << 10;
const SMALL_KEYS: usize = 64 << 10;
const LARGE_KEYS: usize = 512;

/// Work of the other writer.
#[derive(Clone, Copy)]
struct Large {
    partition: usize,
    /// Keys that were not there before, instead of the same [`LARGE_KEYS`] again and again.
    new_keys: bool,
}

/// The ways; the first is what the others stand beside.
const WAYS: [(&str, Option<Large>); 4] = [
    ("alone", None),
    ("in another partition", large(1, false)),
    ("in the same partition, 512 keys", large(0, false)),
    ("in the same partition, new keys", large(0, true)),
];

const fn large(partition: usize, new_keys: bool) -> Option<Large> {
    Some(Large { partition, new_keys })
}

#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    /// Latencies by [`PERCENTILES`].
    latencies_ns: [Vec<f64>; 4],
    large_rates: Vec<f64>,
}

const PERCENTILES: [(&str, f64); 4] =
    [("latency p50", 0.5), ("latency p99", 0.99), ("latency p99.9", 0.999), ("latency, longest", 1.0)];

pub(crate) fn run(options: &Options, cpus: [usize; 2], report: &mut Measurement) -> Result<()> {
    if !options.common.wants(CASE) {
        return Ok(());
    }
    let config = Config { memory_bytes: 1 << 30, access: Access::Crcw, ..config_of::<16, 64>(1, 2) };
    let mut pair = Pair::new(&config, cpus)?;
    pair.cache.populate();
    let mut measured: [Rounds; 4] = Default::default();
    let mut next_key = LARGE_KEYS as u64;
    for round in 0..options.common.rounds() {
        eprint!("\r{CASE} round {}   ", round + 1);
        for ((_, large), rounds) in WAYS.iter().zip(&mut measured) {
            measure(&mut pair, cpus, *large, &mut next_key, options, rounds)?;
        }
    }
    eprintln!();
    for ((way, large), rounds) in WAYS.iter().zip(&measured) {
        let case = format!("{CASE}: {way}");
        let what = (case.as_str(), "small writes", "M/s");
        match large {
            None => report.value(&case, what.1, what.2, &rounds.rates),
            Some(_) => report.beside(what, &rounds.rates, "alone", &measured[0].rates),
        }
        for ((metric, _), latencies) in PERCENTILES.iter().zip(&rounds.latencies_ns) {
            report.value(&case, metric, "ns", latencies);
        }
        if large.is_some() {
            report.value(&case, "large writes", "GB/s", &rounds.large_rates);
        }
    }
    Ok(())
}

fn measure(
    pair: &mut Pair,
    cpus: [usize; 2],
    large: Option<Large>,
    next_key: &mut u64,
    options: &Options,
    rounds: &mut Rounds,
) -> Result<()> {
    let span = Duration::from_millis(if options.common.quick { 200 } else { 500 });
    let keys = keys_of(pair, 0, SMALL_KEYS);
    let large_keys = large.map(|large| keys_of(pair, large.partition, LARGE_KEYS));
    let (ready, over) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let members = if large.is_some() { 2 } else { 1 };
    let [first, second] = &mut pair.workers;
    let (small, large) = std::thread::scope(|scope| {
        let small = scope.spawn(move || {
            let pinned = system::pin(cpus[0]).map_err(|error| error.to_string());
            meet(ready, members);
            let latencies = write_small(first, &keys, span);
            over.store(true, Ordering::Release);
            pinned.and(latencies)
        });
        let large = large.zip(large_keys).map(|(large, keys)| {
            scope.spawn(move || {
                let pinned = system::pin(cpus[1]).map_err(|error| error.to_string());
                meet(ready, members);
                let keys = if large.new_keys { None } else { Some(&keys) };
                pinned.and(write_large(second, keys, large.partition, next_key, over))
            })
        });
        (small.join(), large.map(|large| large.join()))
    });
    let died = "a writer died";
    let (mut latencies, elapsed) = small.map_err(|_| died)??;
    rounds.rates.push(latencies.len() as f64 / elapsed.as_secs_f64() / 1e6);
    latencies.sort_unstable();
    for ((_, share), into) in PERCENTILES.iter().zip(&mut rounds.latencies_ns) {
        let at = ((latencies.len() as f64 * share).ceil() as usize).saturating_sub(1);
        into.push(f64::from(latencies[at]));
    }
    if let Some(rate) = large {
        rounds.large_rates.push(rate.map_err(|_| died)??);
    }
    Ok(())
}

/// The first `count` keys whose partition is the one wanted.
fn keys_of(pair: &Pair, partition: usize, count: usize) -> Vec<[u8; 16]> {
    let keys = (0..u32::MAX).map(bytes::<16>);
    let wanted = keys.filter(|key| pair.cache.partition_of(pair.cache.hash(key)) == partition);
    wanted.take(count).collect()
}

/// One write after the other, for a while: how long each took.
fn write_small(
    worker: &mut Worker,
    keys: &[[u8; 16]],
    span: Duration,
) -> std::result::Result<(Vec<u32>, Duration), String> {
    let value = [7; 64];
    let mut random = Random::new(9);
    let mut latencies = Vec::with_capacity(1 << 23);
    let start = Instant::now();
    let mut before = start;
    while before.duration_since(start) < span {
        let key = &keys[random.below(keys.len() as u64) as usize];
        let outcome = worker.set(key, &value, Expiry::NEVER, 0);
        let after = Instant::now();
        if outcome != Outcome::Stored {
            return Err(format!("a small write: {outcome:?}"));
        }
        latencies.push(after.duration_since(before).as_nanos().min(u128::from(u32::MAX)) as u32);
        before = after;
    }
    Ok((latencies, start.elapsed()))
}

/// Large values until the other has ended: gigabytes per second. Without keys, under new ones.
fn write_large(
    worker: &mut Worker,
    keys: Option<&Vec<[u8; 16]>>,
    partition: usize,
    next_key: &mut u64,
    over: &AtomicBool,
) -> std::result::Result<f64, String> {
    let value = vec![9; LARGE_BYTES];
    let (start, mut written) = (Instant::now(), 0);
    while !over.load(Ordering::Acquire) {
        let outcome = match keys {
            Some(keys) => worker.set(&keys[written % keys.len()], &value, Expiry::NEVER, 0),
            None => {
                let key = new_key(worker, partition, next_key);
                worker.set(&key, &value, Expiry::NEVER, 0)
            }
        };
        if outcome != Outcome::Stored {
            return Err(format!("a large write: {outcome:?}"));
        }
        written += 1;
    }
    Ok((written * LARGE_BYTES) as f64 / start.elapsed().as_secs_f64() / 1e9)
}

/// A key of 24 bytes, so none of the others.
fn new_key(worker: &Worker, partition: usize, next_key: &mut u64) -> [u8; 24] {
    loop {
        let mut key = [0x33; 24];
        key[..8].copy_from_slice(&next_key.to_le_bytes());
        *next_key += 1;
        if worker.cache().partition_of(worker.cache().hash(&key)) == partition {
            return key;
        }
    }
}
