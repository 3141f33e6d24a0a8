//! The engine against a model that never forgets: a wrong value, flag, count or CAS is never right;
//! a store never misses; a cache misses only as often as its counters of evictions allow.
//!
//! Steps come as words (`step.rs`) from a generator, a property test or a fuzzer, so that all of
//! them mean the same. Requests are gathered into batches (`batch.rs`), and their replies are
//! compared in the order in which they took effect (`check.rs`). Now and then an audit requests
//! every key: then the engine holds exactly what the model holds.

mod batch;
mod check;
mod chunks;
mod geometries;
#[cfg(all(test, not(miri)))]
mod long;
mod meta;
#[cfg(all(test, not(miri)))]
mod properties;
#[cfg(test)]
mod regressions;
mod step;

use batch::Workers;
pub(crate) use batch::{Action, OwnedRequest};
pub(crate) use geometries::{CACHE_SHAPES, STORE_SHAPES, cache_geometry, store_geometry};

use super::support::Setup;
use crate::*;

/// CAS values of a key that the model remembers.
const CAS_VALUES_MAX: usize = 8;
/// Longest value that is a number.
const NUMBER_BYTES_MAX: usize = 64;

/// A key of the universe, and the model's item under it.
struct Key {
    name: Vec<u8>,
    hash: KeyHash,
    /// Namespace that it is in.
    namespace: Option<&'static str>,
    item: Option<Item>,
    /// All CAS values that it ever had: none may return for another value.
    given: Vec<u64>,
    /// Entries of its chunks that a client has learnt lately.
    entries: Vec<ChunkEntry>,
}

struct Item {
    value: Vec<u8>,
    flags: u32,
    expiry: Expiry,
    /// True if the last CAS value that was returned is this value's.
    cas_is_known: bool,
    /// True if it was invalidated.
    stale: bool,
    /// True if a client was told to recreate it.
    token_sent: bool,
}

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Requests, without those of audits.
    pub operations: u64,
    /// Writes that a store refused for lack of space.
    pub refused: u64,
    /// Items that a cache had evicted before a request for them.
    pub lost: u64,
    pub hits: u64,
    /// Requests that another worker had to repeat.
    pub elsewhere: u64,
    /// One-sided reads that were accepted.
    pub accepted: u64,
    /// Batches after which a chunk alone had the newest value of an item.
    pub dirty: u64,
}

/// The engine and the model.
pub(crate) struct Model {
    workers: Workers,
    keys: Vec<Key>,
    batch: Vec<OwnedRequest>,
    /// Requests that fill the batch.
    batch_requests: usize,
    is_store: bool,
    has_area: bool,
    /// Key whose chunks are read next.
    next_read: usize,
    value_bytes_max: usize,
    /// A scheduled flush.
    flush_due_s: Option<u32>,
    stamp: u64,
    tally: Tally,
    /// Items found missing since the last audit, and the evictions of the engine by then.
    lost_lately: u64,
    evicted_before: u64,
}

impl Model {
    /// Makes an empty engine, and a universe of keys in namespaces `a`, `b`, `c` and in none.
    pub fn new(geometry: &Setup, keys: usize) -> Self {
        let workers = Workers::new(geometry);
        let key = |number: usize| {
            let namespace = step::NAMESPACES.get(number % 4).copied();
            let mut name = namespace.map_or(String::new(), |name| format!("{name}:"));
            name += &format!("key-{number}{}", "x".repeat(number % 9));
            if number % 31 == 7 {
                name = format!("{name:x<250}");
            }
            let name = name.into_bytes();
            Key {
                hash: workers.cache().hash(&name),
                name,
                namespace,
                item: None,
                given: Vec::new(),
                entries: Vec::new(),
            }
        };
        Self {
            keys: (0..keys).map(key).collect(),
            workers,
            batch: Vec::new(),
            batch_requests: 1,
            has_area: geometry.area.is_some(),
            next_read: 0,
            is_store: geometry.semantics == Semantics::Store,
            value_bytes_max: geometry.value_bytes_max,
            flush_due_s: None,
            stamp: 0,
            tally: Tally::default(),
            lost_lately: 0,
            evicted_before: 0,
        }
    }

    #[cfg(test)]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    pub fn stats(&self) -> Stats {
        self.workers.cache().stats()
    }

    /// Returns a value of letters that no other write has, so that a stale one or that of another
    /// key is noticed; or a number.
    fn value(&mut self, bytes: usize, number: bool) -> Vec<u8> {
        self.stamp += 1;
        if number {
            return (self.stamp % 1000).to_string().into_bytes();
        }
        let mut word = self.stamp;
        let mut value = Vec::with_capacity(bytes + 8);
        while value.len() < bytes {
            word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word >> 29;
            // Sixteen letters from 'a' on, one for each half of a byte.
            let letters = (word & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161;
            value.extend_from_slice(&letters.to_le_bytes());
        }
        value.truncate(bytes);
        value
    }

    /// Requests one thing, with the rest of the batch before it.
    pub fn ask(&mut self, key: usize, action: Action) {
        self.batch.push(OwnedRequest { key, action });
        self.tally.operations += 1;
        if self.batch.len() >= self.batch_requests {
            self.execute();
        }
    }

    /// Executes the batch and compares the replies.
    fn execute(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        let replies = self.workers.execute(&self.keys, &batch);
        self.tally.elsewhere += replies.elsewhere;
        for (at, reply) in replies.in_order {
            self.check(&batch[at], &reply);
        }
        self.read_chunks_after(&batch);
        batch.clear();
        self.batch = batch;
    }

    /// Lets time pass. A flush that is due comes first.
    fn pass_time(&mut self, seconds: u32) {
        self.workers.now_s += seconds;
        let now_s = self.workers.now_s;
        if self.flush_due_s.is_some_and(|due_s| due_s <= now_s) {
            self.flush_due_s = None;
            self.forget(|_| true);
        }
        self.read_all_chunks();
    }

    fn flush(&mut self, in_s: u32) {
        let now_s = self.workers.now_s;
        self.flush_due_s = (in_s > 0).then_some(now_s + in_s);
        self.workers.turn().flush_all(now_s + in_s, now_s);
        if in_s == 0 {
            self.forget(|_| true);
            assert_eq!(self.stats().items_live, 0, "live after a flush");
        }
        self.read_all_chunks();
    }

    /// Continues with the image in a later process. That one does a scheduled flush.
    fn reopen(&mut self, closed: bool) {
        if !closed {
            self.forget_dirty();
        }
        if self.workers.reopen(closed) {
            self.keys.iter_mut().for_each(|key| key.entries.clear());
        }
        self.audit();
    }

    fn invalidate(&mut self, name: &str) {
        let now_s = self.workers.now_s;
        let invalidated = self.workers.turn().invalidate_namespace(name.as_bytes(), now_s);
        if invalidated.is_ok() {
            self.forget(|key| key.namespace == Some(name));
        }
        self.read_all_chunks();
    }

    fn forget(&mut self, which: impl Fn(&Key) -> bool) {
        for key in self.keys.iter_mut().filter(|key| which(key)) {
            key.item = None;
        }
    }

    /// Requests every key. Afterwards the engine's own count of items must be the model's: an
    /// append that is too long finds an item, or removes one that has ended, and changes nothing.
    pub fn audit(&mut self) {
        self.execute();
        self.batch_requests = 16;
        for key in 0..self.keys.len() {
            self.ask(key, Action::Get { cas: false });
        }
        self.execute();
        for key in 0..self.keys.len() {
            let more = vec![b'-'; self.value_bytes_max + 1];
            self.ask(key, Action::Concatenate { before: false, more });
        }
        self.execute();
        self.tally.operations -= 2 * self.keys.len() as u64;
        self.batch_requests = 1;
        let stats = self.stats();
        let known = self.keys.iter().filter(|key| key.item.is_some()).count() as u64;
        let in_index = self.workers.cache().items_in_index();
        assert_eq!(
            (stats.items_live, in_index),
            (known, known),
            "the engine's count of items, those in its index, and the model's"
        );
        self.read_all_chunks();
        self.lost_lately = 0;
        self.evicted_before = stats.evicted_log + stats.evicted_bucket;
    }

    /// Deletes everything: then all counters are zero, and a store is one free region again.
    pub fn clear(&mut self) {
        self.audit();
        for key in 0..self.keys.len() {
            self.ask(key, Action::Delete);
        }
        self.tally.operations -= self.keys.len() as u64;
        self.pass_time(100);
        for _ in 0..8 {
            self.workers.maintain();
            self.workers.swap();
        }
        let stats = self.stats();
        assert_eq!((stats.items_live, stats.item_bytes_live), (0, 0));
        #[cfg(test)]
        if self.is_store {
            for partition in &self.workers.cache().partitions {
                let heap = partition.heap();
                heap.check();
                let units = (heap.units_largest(), heap.units_free());
                assert_eq!(units.0, units.1, "largest free block, free units");
            }
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "model: {:?} at {} s, {} keys, {}",
                self.tally,
                self.workers.now_s,
                self.keys.len(),
                self.workers,
            );
        }
    }
}
