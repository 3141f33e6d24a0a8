//! Counts and times of one worker.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use hdrhistogram::Histogram;
use micanite_workload::trace::Operation;

use crate::run::clock::LATE_NS;
use crate::run::latencies::latency_histogram;

/// Ends of the requests of one operation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    /// The item was found, or what was asked for was done.
    pub done: u64,
    /// Requests that found nothing, or whose condition was not met.
    pub not_done: u64,
    /// Answered by an error.
    pub refused: u64,
    pub lost: u64,
}

impl Ends {
    /// Answered by no error, by an error, or not at all.
    pub const fn all(&self) -> u64 {
        self.done + self.not_done + self.refused + self.lost
    }
}

impl AddAssign for Ends {
    fn add_assign(&mut self, other: Self) {
        self.done += other.done;
        self.not_done += other.not_done;
        self.refused += other.refused;
        self.lost += other.lost;
    }
}

/// Counts of one worker; [`Self::add`] sums them up.
pub(super) struct Tally {
    /// Ends by [`Operation`], in the order of [`Operation::ALL`].
    pub ends: [Ends; Operation::ALL.len()],
    /// Bytes of keys and values that were found.
    pub hit_bytes: u64,
    /// Bytes of keys and values that were not, where the trace says how many.
    pub missed_bytes: u64,
    /// Missed items that were stored.
    pub filled: u64,
    /// Missed items that a server did not store.
    pub not_filled: u64,
    /// Missed items that are too large to be stored.
    pub too_large: u64,
    /// Datagrams that were sent again.
    pub resent: u64,
    /// Late because earlier requests waited for the server: of its key, or as many as may.
    pub held: u64,
    /// Late otherwise.
    pub late: u64,
    /// Time from when a request was due (as fast as possible: sent) to its reply.
    pub latency_ns: Histogram<u64>,
    /// Time from when a request was due to when it was sent.
    pub lag_ns: Histogram<u64>,
    /// The first error that a server answered with.
    pub refusal: Option<String>,
    /// CPU seconds of each worker.
    pub cpu_s: Vec<f64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            ends: Default::default(),
            hit_bytes: 0,
            missed_bytes: 0,
            filled: 0,
            not_filled: 0,
            too_large: 0,
            resent: 0,
            held: 0,
            late: 0,
            latency_ns: latency_histogram(),
            lag_ns: latency_histogram(),
            refusal: None,
            cpu_s: Vec::new(),
        }
    }
}

impl Tally {
    pub fn ended(&mut self, operation: Operation) -> &mut Ends {
        &mut self.ends[operation as usize]
    }

    pub fn latency(&mut self, ns: u64) {
        self.latency_ns.saturating_record(ns.max(1));
    }

    pub fn sent(&mut self, lag_ns: u64, was_held: bool) {
        self.lag_ns.saturating_record(lag_ns.max(1));
        if lag_ns > LATE_NS {
            self.held += u64::from(was_held);
            self.late += u64::from(!was_held);
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (ends, others) in self.ends.iter_mut().zip(&other.ends) {
            *ends += *others;
        }
        self.hit_bytes += other.hit_bytes;
        self.missed_bytes += other.missed_bytes;
        self.filled += other.filled;
        self.not_filled += other.not_filled;
        self.too_large += other.too_large;
        self.resent += other.resent;
        self.held += other.held;
        self.late += other.late;
        // Histograms of the same bounds add up.
        let _ = self.latency_ns.add(&other.latency_ns);
        let _ = self.lag_ns.add(&other.lag_ns);
        self.cpu_s.extend_from_slice(&other.cpu_s);
        if self.refusal.is_none() {
            self.refusal.clone_from(&other.refusal);
        }
    }
}

/// Counts of all workers so far, for whoever watches.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Requests that have been answered.
    pub answered: AtomicU64,
    /// Reads among them.
    pub reads: AtomicU64,
    pub hits: AtomicU64,
    /// The longest lag since it was last taken.
    pub lag_ns_max: AtomicU64,
}

/// The part of [`Live`] that a worker has not yet added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub answered: u64,
    pub reads: u64,
    pub hits: u64,
    pub lag_ns_max: u64,
}

impl News {
    /// Adds what is new, and begins anew.
    pub fn publish(&mut self, live: &Live) {
        live.answered.fetch_add(self.answered, Ordering::Relaxed);
        live.reads.fetch_add(self.reads, Ordering::Relaxed);
        live.hits.fetch_add(self.hits, Ordering::Relaxed);
        live.lag_ns_max.fetch_max(self.lag_ns_max, Ordering::Relaxed);
        *self = Self::default();
    }
}
