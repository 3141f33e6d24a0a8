//! Time that requests take, by worker and partition: the other input of balancing.
//!
//! ```text
//!  one round in each tick of the coarse clock -> the clock is read after each request
//!     -> time and number by partition; the rest of a round of datagrams -> all datagrams alike
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

use crate::shared::clock::{cpu_time_ns, monotonic_ns};
use crate::telemetry::table::Counter;

/// A request takes at most so long, and so long for each byte of a value, if nothing interrupts its
/// thread.
const REQUEST_NS_MAX: u64 = 20_000;
const BYTE_NS_MAX: u64 = 4;
/// Receiving and parsing what a round brings takes at most so long, if nothing interrupts the thread.
const RECEIVE_NS_MAX: u64 = 1_000_000;

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
    /// Requests of timed rounds of datagrams.
    datagram_requests: Counter,
    rest_ns: Counter,
    first_batch: FirstBatch,
}

/// Begin of the first batch of a timed round. CPU time does not pass while other threads run, but its clock
/// takes a system call. So a round that brings no request does not read it.
#[derive(Debug, Default)]
struct FirstBatch {
    has_begun: AtomicBool,
    cpu_ns: Counter,
    monotonic_ns: Counter,
}

#[derive(Debug, Default)]
struct OfPartition {
    requests: Counter,
    ns: Counter,
}

/// Begin of a timed round.
#[derive(Clone, Copy, Debug)]
pub struct TimedRound {
    /// Time of the monotonic clock.
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
    /// All requests of timed rounds of datagrams.
    pub datagram_requests: u64,
    /// Nanoseconds of timed rounds of datagrams beside those of timed requests.
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
            datagram_requests: self.datagram_requests.wrapping_sub(before.datagram_requests),
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
            datagram_requests: Counter::default(),
            rest_ns: Counter::default(),
            first_batch: FirstBatch::default(),
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
        // The rest of other rounds is not asked for.
        let is_native = kind == RoundKind::Native;
        let began_ns = if is_native { monotonic_ns() } else { 0 };
        of.first_batch.has_begun.store(!is_native, Ordering::Relaxed);
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
            let served_ns = cpu_time_ns().saturating_sub(of.first_batch.cpu_ns.get());
            let received_ns = of.first_batch.monotonic_ns.get().saturating_sub(round.began_ns);
            let received_ns = if received_ns <= RECEIVE_NS_MAX { received_ns } else { 0 };
            of.rest_ns.add((received_ns + served_ns).saturating_sub(of.ns.get() - ns));
            of.datagram_requests.add(of.requests.get() - requests);
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
            datagram_requests: of.datagram_requests.get(),
            rest_ns: of.rest_ns.get(),
        };
        self.workers.iter().map(of_worker).collect()
    }
}

impl FirstBatch {
    /// A batch of a timed round begins.
    fn begin(&self) {
        if !self.has_begun.load(Ordering::Relaxed) {
            self.has_begun.store(true, Ordering::Relaxed);
            self.cpu_ns.set(cpu_time_ns());
            self.monotonic_ns.set(monotonic_ns());
        }
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
        let of = &costs.workers[worker];
        of.first_batch.begin();
        Self { of, worker, cache, last: Instant::now() }
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
        let of = &costs.workers[0];
        for (kind, has_rest) in [(RoundKind::Other, false), (RoundKind::Native, true)] {
            let round = costs.begin(0, kind, || 7);
            of.first_batch.begin();
            of.requests.add(3);
            // Other work that is not the engine's.
            let began_ns = cpu_time_ns();
            while cpu_time_ns() == began_ns {}
            costs.end(0, kind, round);
            let samples = &costs.now()[0];
            assert_eq!((samples.rest_ns > 0, samples.datagram_requests > 0), (has_rest, has_rest));
        }
        assert_eq!(costs.now()[0].datagram_requests, 3);
    }

    /// The clock of the CPU takes a system call, which a worker that polls would make in each round.
    #[test]
    fn rounds_without_requests_do_not_read_the_clock_of_the_cpu() {
        let costs = Costs::new(1, 1);
        costs.set_wanted(true);
        let read_ns = || costs.workers[0].first_batch.cpu_ns.get();
        for kind in [RoundKind::Native, RoundKind::Other] {
            let round = costs.begin(0, kind, || 7);
            costs.end(0, kind, round);
            assert_eq!(read_ns(), 0);
        }
        let round = costs.begin(0, RoundKind::Native, || 7);
        costs.workers[0].first_batch.begin();
        let first_ns = read_ns();
        costs.workers[0].first_batch.begin();
        costs.end(0, RoundKind::Native, round);
        assert!(first_ns > 0 && read_ns() == first_ns);
    }

    /// The thread was interrupted while it received: the time of others is no cost.
    #[test]
    fn time_of_other_threads_is_no_rest() {
        let costs = Costs::new(1, 1);
        costs.set_wanted(true);
        let round = costs
            .begin(0, RoundKind::Native, || 7)
            .map(|round| TimedRound { began_ns: round.began_ns - 1_000_000_000, ..round });
        costs.workers[0].first_batch.begin();
        costs.workers[0].requests.add(1);
        costs.end(0, RoundKind::Native, round);
        assert!(costs.now()[0].rest_ns < 1_000_000_000);
    }
}
