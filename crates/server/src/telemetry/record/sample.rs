//! Selection of the keys that are recorded, their numbers, and the worker's part of recording.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};

use micanite_engine::{KeyHash, Outcome, Request};
use micanite_workload::recording::{Operation, Record, Seen};

use super::ring::{Ring, Tag};
use super::{Recorder, request};
use crate::shared::Shared;
use crate::telemetry::table::Counter;
pub(crate) use request::ItemFacts;

/// 2^64 divided by the golden ratio. Every bit of the hash moves the upper bits of the product, while the
/// partition of a key is in the upper bits of the hash itself: a sample has keys of all partitions.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key is recorded if this is at most the recording's limit. So a smaller sample is part of a larger one,
/// and of all workers and all recordings of a cache alike.
#[inline]
pub(super) fn sampling_number(hash: KeyHash) -> u64 {
    hash.0.wrapping_mul(SPREAD)
}

/// State of one worker. Only it writes it, or the thread that executes requests for it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Place {
    pub ring: Ring,
    requests: Counter,
    reads: Counter,
    read_hits: Counter,
    dropped: Counter,
    /// Set while the worker is within a batch that is recorded.
    is_busy: AtomicBool,
}

impl Place {
    pub fn add_to(&self, seen: &mut Seen) {
        seen.requests += self.requests.get();
        seen.reads += self.reads.get();
        seen.read_hits += self.read_hits.get();
        seen.dropped += self.dropped.get();
    }
}

impl Recorder {
    /// The number of a key: it tells neither the key nor the hash that places it.
    pub(super) fn key_number(&self, hash: KeyHash) -> u64 {
        self.secret.hash_one(hash.0)
    }

    /// By which hash the numbers are.
    pub(super) fn hash_id(&self) -> u64 {
        self.secret.hash_one("recording")
    }

    /// Returns whether a worker is still within a batch that it records.
    pub(super) fn is_busy(&self) -> bool {
        let is_busy = |place: &Place| place.is_busy.load(Ordering::Acquire);
        self.places.iter().any(is_busy)
    }
}

/// A batch that is recorded, until it is dropped.
#[derive(Debug)]
pub(crate) struct Recording<'a> {
    recorder: &'a Recorder,
    place: &'a Place,
    hash_max: u64,
    generation: u16,
    now_s: u32,
    /// Since it began; read when it is needed first.
    time_us: Option<u64>,
    seen: Seen,
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.place.requests.add(self.seen.requests);
        self.place.reads.add(self.seen.reads);
        self.place.read_hits.add(self.seen.read_hits);
        self.place.dropped.add(self.seen.dropped);
        self.place.is_busy.store(false, Ordering::Release);
    }
}

impl<'a> Recording<'a> {
    /// Begins a batch of a worker.
    #[inline]
    pub fn new(shared: &'a Shared, worker: usize, now_s: u32) -> Self {
        let recorder = &shared.recorder;
        let place = &recorder.places[worker];
        place.is_busy.store(true, Ordering::Release);
        Self {
            recorder,
            place,
            generation: recorder.generation.load(Ordering::Acquire) as u16,
            hash_max: recorder.hash_max.load(Ordering::Relaxed),
            now_s,
            time_us: None,
            seen: Seen::default(),
        }
    }

    /// A request has ended.
    #[inline]
    pub fn finish(&mut self, request: &Request<'_>, ended: Outcome, facts: ItemFacts) {
        let Some(operation) = request::operation(&request.operation) else {
            return;
        };
        self.seen.requests += 1;
        if operation.reads() {
            self.seen.reads += 1;
            self.seen.read_hits += u64::from(ended == Outcome::Hit);
        }
        if sampling_number(request.hash) <= self.hash_max {
            self.note((request, operation), ended, &facts);
        }
    }

    #[inline(never)]
    fn note(&mut self, (request, operation): (&Request<'_>, Operation), ended: Outcome, facts: &ItemFacts) {
        let now_us = || self.recorder.now_us();
        let time_us = *self.time_us.get_or_insert_with(now_us);
        let value_bytes = request::value_bytes(request, ended, facts);
        let record = Record {
            key_hash: self.recorder.key_number(request.hash),
            time_ms: (time_us / 1000) as u32,
            value_bytes: value_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
            expiry_s: request::expiry_s(request, facts, self.now_s),
            prefix: 0,
            key_bytes: request.key.len() as u8,
            operation,
            outcome: request::outcome(operation, ended),
        };
        let delimiter = self.recorder.delimiter;
        let mut bytes = request.key.iter();
        let prefix_bytes = bytes.position(|byte| *byte == delimiter).unwrap_or(0);
        let prefix = &request.key[..prefix_bytes];
        let tag = Tag { generation: self.generation, time_us };
        if !self.place.ring.push(tag, &record, prefix) {
            self.seen.dropped += 1;
        }
    }
}
