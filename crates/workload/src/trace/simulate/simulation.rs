//! A trace through caches: each policy at each size, on all cores, in bounded memory.

use std::cmp::Reverse;

use super::belady::{Belady, next_reads};
use super::cache::{Counts, drive};
use super::compact::Compact;
use super::engine::{EngineCache, Frame, Objects};
use super::exact::Exact;
use super::jobs::{cores, on_all_cores};
use super::policy::{Accounting, Policy};
use super::recommend::room_for_all;
use crate::trace::Failure;

/// Items should have at least so many units of the log on average where payload alone counts.
const UNITS_PER_ITEM_MIN: u64 = 8;
/// The log of an engine where payload alone counts has these bytes per unit, its index included.
const PAYLOAD_FACTOR: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Bytes that count against the capacity.
    pub accounting: Accounting,
    /// The share of requests, at the beginning, that are not counted.
    pub warm_up: f64,
    /// Bytes that all simulated caches may take that are under way at a time.
    pub memory_bytes_max: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { accounting: Accounting::Real, warm_up: 0.0, memory_bytes_max: 512 << 20 }
    }
}

/// A policy at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub policy: Policy,
    /// Capacity, for all of the trace's keys.
    pub bytes: u64,
}

/// Misses of a policy at a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissRatio {
    /// The case that was simulated.
    pub case: Case,
    /// Reads that missed, of all reads.
    pub objects: f64,
    /// Reads that missed, of all reads, weighted by bytes of key and value.
    pub bytes: f64,
    /// Reads and misses that were counted, in the sample if it is one.
    pub counts: Counts,
}

/// A trace that is ready to be simulated.
#[derive(Debug)]
pub struct Simulation<'a> {
    trace: &'a Compact,
    rules: Rules,
    payload_bytes_max: u64,
    /// Bound that no engine needs to pass.
    room_bytes: u64,
    next_reads: Vec<u32>,
}

impl<'a> Simulation<'a> {
    pub fn new(trace: &'a Compact, rules: Rules, policies: &[Policy]) -> Self {
        let needs_next = policies.contains(&Policy::Belady);
        Self {
            trace,
            rules,
            payload_bytes_max: u64::from(trace.payload_bytes_max()),
            room_bytes: room_to_spare(trace),
            next_reads: if needs_next { next_reads(trace) } else { Vec::new() },
        }
    }

    /// Simulates cases, on all cores; `done` is called after each, with how many are done.
    ///
    /// # Errors
    /// When the engine cannot have such a memory.
    pub fn run(&self, cases: &[Case], done: impl Fn(usize) + Sync) -> Result<Vec<MissRatio>, Failure> {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        order.sort_by_key(|number| Reverse(cases[*number].bytes));
        let count = std::sync::atomic::AtomicUsize::new(0);
        let results = on_all_cores(&order, |number| {
            let ratio = self.one(cases[*number]);
            done(count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
            ratio.map(|ratio| (*number, ratio))
        });
        let mut results = results.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        results.sort_by_key(|(number, _)| *number);
        Ok(results.into_iter().map(|(_, ratio)| ratio).collect())
    }

    fn one(&self, case: Case) -> Result<MissRatio, Failure> {
        let trace = self.trace;
        let Rules { accounting, warm_up, .. } = self.rules;
        let capacity = ((case.bytes as f64 * trace.fraction) as u64).max(1);
        let room = (self.room_bytes as f64 * trace.fraction) as u64;
        let exact = |renews| Exact::new(renews, trace.objects(), capacity, accounting);
        let counts = match case.policy {
            Policy::Lru => drive(trace, &mut exact(true), warm_up),
            Policy::Fifo => drive(trace, &mut exact(false), warm_up),
            Policy::Belady => {
                let mut cache = Belady::new(trace, &self.next_reads, capacity, accounting);
                drive(trace, &mut cache, warm_up)
            }
            Policy::Engine(eviction) => {
                // Memory that can never be used is not taken.
                let capacity = capacity.min(room.max(1));
                let frame = self.frame(capacity);
                let most = self.payload_bytes_max;
                let engine = EngineCache::new(eviction, capacity, frame, most)?;
                let objects = &trace.objects;
                drive(trace, &mut Objects { engine, objects }, warm_up)
            }
        };
        Ok(self.ratio(case, counts))
    }

    fn frame(&self, capacity: u64) -> Frame {
        match self.rules.accounting {
            Accounting::Real if self.trace.fraction < 1.0 => Frame::Sample,
            Accounting::Real => Frame::Memory,
            Accounting::Payload => {
                let most = self.rules.memory_bytes_max / cores() as u64;
                let grain = (capacity * PAYLOAD_FACTOR).div_ceil(most);
                Frame::Payload { grain: grain.next_power_of_two() as u32 }
            }
        }
    }

    /// Corrects the reads of a sample. Whether the hottest keys are in
    /// it makes much of the reads, and nothing of the misses, for these keys hit. So misses are
    /// divided by the reads that the sample should have (SHARDS-adj).
    fn ratio(&self, case: Case, counts: Counts) -> MissRatio {
        let trace = self.trace;
        let (mut reads, mut bytes) = (counts.reads as f64, counts.bytes as f64);
        if trace.fraction < 1.0 && trace.reads_kept > 0 {
            reads *= trace.reads_expected() / trace.reads_kept as f64;
            bytes *= trace.read_bytes_expected() / trace.read_bytes_kept.max(1) as f64;
        }
        let ratio = |missed: u64, all: f64| {
            if all > 0.0 { (missed as f64 / all).min(1.0) } else { 0.0 }
        };
        MissRatio {
            case,
            objects: ratio(counts.misses, reads),
            bytes: ratio(counts.bytes_missed, bytes),
            counts,
        }
    }
}

/// A memory that is much more than what a trace asks for: still more does not change anything.
fn room_to_spare(trace: &Compact) -> u64 {
    room_for_all(trace).saturating_mul(4)
}

/// Bytes that a reference needs per object of the trace, at most.
const REFERENCE_BYTES: f64 = 56.0;

/// The share of what is in memory that can be simulated at these sizes within the rules.
pub fn share_that_fits(trace: &Compact, rules: Rules, bytes_max: u64) -> f64 {
    let most = (rules.memory_bytes_max / cores() as u64) as f64;
    let capacity = bytes_max.min(room_to_spare(trace)) as f64 * trace.fraction;
    let needed = match rules.accounting {
        Accounting::Real => capacity,
        Accounting::Payload => {
            let mean = trace.footprint_bytes_kept() / trace.objects().max(1) as u64;
            let grain = 1u64 << (mean / UNITS_PER_ITEM_MIN).max(1).ilog2();
            capacity * PAYLOAD_FACTOR as f64 / grain as f64
        }
    };
    let tables = trace.objects() as f64 * REFERENCE_BYTES;
    (most / needed.max(tables).max(1.0)).min(1.0)
}
