//! Time that requests take, by worker and partition: the other input of balancing.
//!
//! ```text
//!  one round in each tick of the coarse clock -> the clock is read after each request
//!     -> time and number by partition; the rest of a round of datagrams -> all requests alike
//! ```
//!
//! A request's time is the engine's, with the reply that it writes. Datagrams follow the owner of their
//! partition, so their other time (receiving, parsing, sending) counts as well; that of a stream stays
//! with the worker of the connection and does not. A worker with little to do has short bursts and
//! batches, in which a request takes longer. That must not look like load: the rest is the same for all
//! workers, and contains the first request of each batch, which waits for the memory. A request that
//! another worker executes is not timed, nor one that took so long that the thread must have been
//! interrupted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use micanite_engine::{Access, Cache, Operation, Request};

use crate::shared::clock::cpu_time_ns;
use crate::telemetry::stats::Counter;

/// A request takes at most so long, and so long for each byte of a value, if nothing interrupts its
/// thread.
const REQUEST_NS_MAX: u64 = 20_000;
const BYTE_NS_MAX: u64 = 4;

/// Rounds as the samples tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundKind {
    /// Datagrams of the native protocol.
    Native,
    /// Everything else.
    Other,
}

/// The samples of all workers.
#[derive(Debug)]
pub struct Costs {
    workers: Box<[OfWorker]>,
    /// Balancing needs samples.
    wanted: AtomicBool,
}

/// The samples of a worker, which that worker alone writes.
#[derive(Debug)]
#[repr(align(128))]
struct OfWorker {
    /// The present round is timed.
    is_timed: AtomicBool,
    /// When a round with requests was timed last, by the coarse clock.
    timed_ms: [Counter; 2],
    partitions: Box<[OfPartition]>,
    requests: Counter,
    ns: Counter,
    rest_ns: Counter,
}

#[derive(Debug, Default)]
struct OfPartition {
    requests: Counter,
    ns: Counter,
}

/// Begin of a timed round.
#[derive(Clone, Copy, Debug)]
pub struct TimedRound {
    /// CPU time of the thread, which does not pass while others run.
    began_ns: u64,
    now_ms: u64,
    /// Requests and their time before the round.
    before: (u64, u64),
}

/// Sums of a worker's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Timed requests and their nanoseconds, by partition.
    pub partitions: Vec<(u64, u64)>,
    /// All requests of timed rounds.
    pub requests: u64,
    /// Nanoseconds of timed rounds beside those.
    pub rest_ns: u64,
}

impl Samples {
    /// Returns what has come since earlier ones of the same worker.
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.partitions.iter().zip(&before.partitions);
        let less = |(now, before): (&(u64, u64), &(u64, u64))| {
            (now.0.wrapping_sub(before.0), now.1.wrapping_sub(before.1))
        };
        Self {
            partitions: pairs.map(less).collect(),
            requests: self.requests.wrapping_sub(before.requests),
            rest_ns: self.rest_ns.wrapping_sub(before.rest_ns),
        }
    }
}

impl Costs {
    /// Nothing was timed yet.
    pub fn new(workers: usize, partitions: usize) -> Self {
        let of_worker = |_| OfWorker {
            is_timed: AtomicBool::new(false),
            timed_ms: Default::default(),
            partitions: (0..partitions).map(|_| OfPartition::default()).collect(),
            requests: Counter::default(),
            ns: Counter::default(),
            rest_ns: Counter::default(),
        };
        Self { workers: (0..workers).map(of_worker).collect(), wanted: AtomicBool::new(false) }
    }

    /// Says whether rounds are to be timed.
    pub fn set_wanted(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
    }

    /// A round of a worker begins. Returns its begin if it is timed.
    #[inline]
    pub fn begin(&self, worker: usize, kind: RoundKind, now_ms: impl FnOnce() -> u64) -> Option<TimedRound> {
        if !self.wanted.load(Ordering::Relaxed) {
            return None;
        }
        let of = &self.workers[worker];
        let now_ms = now_ms();
        if of.timed_ms[kind as usize].get() == now_ms {
            return None;
        }
        of.is_timed.store(true, Ordering::Relaxed);
        let before = (of.requests.get(), of.ns.get());
        // The rest of other rounds is not asked for, and this clock takes a system call.
        let began_ns = if kind == RoundKind::Native { cpu_time_ns() } else { 0 };
        Some(TimedRound { began_ns, now_ms, before })
    }

    /// The round has ended.
    #[inline]
    pub fn end(&self, worker: usize, kind: RoundKind, round: Option<TimedRound>) {
        if let Some(round) = round {
            self.end_timed(&self.workers[worker], kind, round);
        }
    }

    fn end_timed(&self, of: &OfWorker, kind: RoundKind, round: TimedRound) {
        of.is_timed.store(false, Ordering::Relaxed);
        let (requests, ns) = round.before;
        if of.requests.get() == requests {
            return;
        }
        of.timed_ms[kind as usize].set(round.now_ms);
        if kind == RoundKind::Native {
            let round_ns = cpu_time_ns() - round.began_ns;
            of.rest_ns.add(round_ns.saturating_sub(of.ns.get() - ns));
        }
    }

    /// Returns whether the requests of a worker are timed now.
    #[inline]
    pub(crate) fn is_timed(&self, worker: usize) -> bool {
        self.workers[worker].is_timed.load(Ordering::Relaxed)
    }

    /// Samples so far, by worker.
    pub fn now(&self) -> Vec<Samples> {
        let of_partition = |of: &OfPartition| (of.requests.get(), of.ns.get());
        let of_worker = |of: &OfWorker| Samples {
            partitions: of.partitions.iter().map(of_partition).collect(),
            requests: of.requests.get(),
            rest_ns: of.rest_ns.get(),
        };
        self.workers.iter().map(of_worker).collect()
    }
}

/// Times the requests of one batch.
pub(crate) struct Timing<'a> {
    of: &'a OfWorker,
    worker: usize,
    cache: &'a Cache,
    last: Instant,
}

impl<'a> Timing<'a> {
    pub fn new(costs: &'a Costs, worker: usize, cache: &'a Cache) -> Self {
        Self { of: &costs.workers[worker], worker, cache, last: Instant::now() }
    }

    /// Notes that a request of the batch has ended, with the length of the value that it has found.
    pub fn finish(&mut self, index: usize, request: &Request<'_>, found_bytes: usize) {
        let now = Instant::now();
        let ns = now.duration_since(self.last).as_nanos() as u64;
        self.last = now;
        self.of.requests.add(1);
        if index == 0 {
            return;
        }
        let partition = self.cache.partition_of(request.hash);
        let bytes = found_bytes.max(given_bytes(&request.operation)) as u64;
        if ns <= REQUEST_NS_MAX + BYTE_NS_MAX * bytes && self.is_executed_here(partition, &request.operation)
        {
            let of = &self.of.partitions[partition];
            of.requests.add(1);
            of.ns.add(ns);
            self.of.ns.add(ns);
        }
    }

    fn is_executed_here(&self, partition: usize, operation: &Operation<'_>) -> bool {
        let Some(route) = self.cache.route(partition) else {
            return false;
        };
        let reads = matches!(operation, Operation::Get { .. } | Operation::MetaGet(_));
        match route.access {
            _ if route.owner == self.worker => true,
            Access::Erew => false,
            Access::Crew => reads,
            Access::Crcw => true,
        }
    }
}

/// Length of the value that a request brings.
fn given_bytes(operation: &Operation<'_>) -> usize {
    match operation {
        Operation::Store { value, .. }
        | Operation::StoreEntry { value, .. }
        | Operation::Append { value }
        | Operation::Prepend { value } => value.len(),
        Operation::MetaStore(store) => store.value.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_timed_once_in_a_tick_and_only_if_wanted() {
        let costs = Costs::new(2, 4);
        let begin = |kind, now_ms| costs.begin(1, kind, || now_ms);
        assert!(begin(RoundKind::Other, 7).is_none());
        costs.set_wanted(true);
        // A round without requests leaves the tick to the next one.
        let round = begin(RoundKind::Other, 7);
        assert!(round.is_some() && costs.is_timed(1) && !costs.is_timed(0));
        costs.end(1, RoundKind::Other, round);
        assert!(!costs.is_timed(1));
        let round = begin(RoundKind::Other, 7);
        costs.workers[1].requests.add(1);
        costs.end(1, RoundKind::Other, round);
        assert!(begin(RoundKind::Other, 7).is_none());
        assert!(begin(RoundKind::Native, 7).is_some() && begin(RoundKind::Other, 8).is_some());
    }

    #[test]
    fn the_rest_of_a_round_of_datagrams_is_what_no_request_took() {
        let costs = Costs::new(1, 1);
        costs.set_wanted(true);
        for (kind, has_rest) in [(RoundKind::Other, false), (RoundKind::Native, true)] {
            let round = costs.begin(0, kind, || 7);
            costs.workers[0].requests.add(1);
            // Other work that is not the engine's.
            while round.is_some_and(|round| cpu_time_ns() == round.began_ns) {}
            costs.end(0, kind, round);
            assert_eq!(costs.now()[0].rest_ns > 0, has_rest);
        }
    }
}
