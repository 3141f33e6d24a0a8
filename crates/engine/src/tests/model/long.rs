//! Long runs: the same steps from a seeded generator, a million operations unless
//! `MICANITE_MODEL_OPERATIONS` sets another number (`make soak`: a thousand million).

use std::time::{Duration, Instant};

use super::*;
use crate::tests::support::Random;

/// Number of tests in this file, which share the operations.
const RUNS: u64 = (CACHE_SHAPES + STORE_SHAPES) as u64;
/// Operations of one engine.
const ROUND_OPERATIONS: u64 = 50_000;
/// Steps between audits.
const AUDIT_STEPS: u64 = 2000;
const KEYS_MAX: u64 = 200;
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// Returns the number of operations, and whether it is large enough to print progress.
fn operations() -> (u64, bool) {
    let asked = std::env::var("MICANITE_MODEL_OPERATIONS");
    let all: u64 = asked.as_ref().map_or(1_000_000, |text| text.parse().unwrap());
    (all.div_ceil(RUNS), asked.is_ok())
}

/// Prints the round that failed.
struct Round<'a> {
    name: &'a str,
    seed: u64,
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("model: {}, round {}", self.name, self.seed);
        }
    }
}

/// Runs one engine from its start to its end.
fn run_round(geometry: &Setup, seed: u64) -> (Tally, Stats) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut next = || random.next().wrapping_mul(0x2545_f491_4f6c_dd1d);
    let keys = 1 + next() % KEYS_MAX;
    let mut model = Model::new(geometry, keys as usize);
    for step in 1.. {
        model.step(next());
        if step % AUDIT_STEPS == 0 {
            model.audit();
        }
        if model.tally().operations >= ROUND_OPERATIONS {
            break;
        }
    }
    let stats = model.stats();
    model.clear();
    (model.tally(), stats)
}

/// Runs rounds until the operations are done; returns the sums of their tallies.
fn run(name: &str, geometry: impl Fn(usize) -> Setup) -> (Tally, Stats) {
    let (operations, tell) = operations();
    let started = Instant::now();
    let mut reported = started;
    let (mut tallies, mut all) = (Tally::default(), Stats::default());
    for seed in 0.. {
        let round = Round { name, seed };
        let (tally, stats) = run_round(&geometry(seed as usize), seed);
        drop(round);
        tallies.operations += tally.operations;
        tallies.refused += tally.refused;
        tallies.lost += tally.lost;
        tallies.hits += tally.hits;
        tallies.elsewhere += tally.elsewhere;
        tallies.accepted += tally.accepted;
        tallies.dirty += tally.dirty;
        all.evicted_log += stats.evicted_log;
        all.evicted_bucket += stats.evicted_bucket;
        all.buckets_split += stats.buckets_split;
        all.ghosts_met += stats.ghosts_met;
        all.compacted_bytes += stats.compacted_bytes;
        let done = tallies.operations >= operations;
        if tell && (done || reported.elapsed() >= REPORT_EVERY) {
            reported = Instant::now();
            let seconds = started.elapsed().as_secs();
            println!("model: {name}, {seconds} s: {} rounds, {tallies:?}", seed + 1);
        }
        if done {
            break;
        }
    }
    assert!(tallies.hits * 20 > tallies.operations, "{tallies:?}");
    // The first rounds have one worker.
    let several = operations >= 10 * ROUND_OPERATIONS;
    assert!(!several || tallies.elsewhere > 0, "{tallies:?}");
    assert!(!several || tallies.accepted > 0 && tallies.dirty > 0, "{tallies:?}");
    (tallies, all)
}

/// The scan of the index keeps up with insertions whose old item has gone when they have space: an image that
/// ended behind some of them was refused.
#[test]
fn the_scan_keeps_up_with_insertions_that_are_given_up() {
    const ROUND: u64 = 1253;
    run_round(&cache_geometry(2, ROUND as usize), ROUND);
}

#[test]
fn long_run_of_a_cache_with_room() {
    run("cache with room", |drawn| cache_geometry(0, drawn));
}

#[test]
fn long_run_of_a_cache_too_small() {
    let (tally, stats) = run("cache too small", |drawn| cache_geometry(1, drawn));
    assert!(tally.lost > 0 && stats.evicted_log > 0 && stats.evicted_bucket > 0);
    assert!(stats.ghosts_met > 0);
}

#[test]
fn long_run_of_a_cache_with_items_of_half_a_log() {
    let (tally, _) = run("cache with items of half a log", |drawn| cache_geometry(2, drawn));
    assert!(tally.lost > 0);
}

#[test]
fn long_run_of_a_cache_with_offsets_that_repeat() {
    let (tally, _) = run("cache with offsets that repeat", |drawn| cache_geometry(3, drawn));
    assert!(tally.lost > 0);
}

#[test]
fn long_run_of_a_cache_that_grows_its_index() {
    let (_, stats) = run("cache that grows its index", |drawn| cache_geometry(4, drawn));
    assert!(stats.buckets_split > 0);
}

#[test]
fn long_run_of_a_store_with_room() {
    let (tally, _) = run("store with room", |drawn| store_geometry(0, drawn));
    assert_eq!(tally.refused, 0);
}

#[test]
fn long_run_of_a_store_with_too_little_space() {
    let (tally, _) = run("store with too little space", |drawn| store_geometry(1, drawn));
    assert!(tally.refused > 0);
}

#[test]
fn long_run_of_a_store_with_too_few_entries() {
    let (tally, _) = run("store with too few entries", |drawn| store_geometry(2, drawn));
    assert!(tally.refused > 0);
}

#[test]
fn long_run_of_a_store_that_grows_its_index() {
    let (_, stats) = run("store that grows its index", |drawn| store_geometry(3, drawn));
    assert!(stats.buckets_split > 0 && stats.compacted_bytes > 0);
}

/// Proves that a store is right where items of many lengths come and go with too little space, so
/// that they have to move for each other and for the index.
#[test]
fn long_run_of_a_store_whose_items_move() {
    let (tally, stats) = run("store whose items move", |drawn| store_geometry(4, drawn));
    assert!(tally.refused > 0 && stats.buckets_split > 0);
    assert!(stats.compacted_bytes > 100_000, "{stats:?}");
}
