//! The engine itself as a simulated cache: its code, its index, its logs; no model of it.
//!
//! If all memory counts, the cache is the one of a server with one thread. If payload alone counts, one unit
//! of the log (8 bytes, of which an item takes a whole number) stands for one byte of key and value, or for
//! `grain` bytes: an item of 54 bytes takes 54 units, its header and its key among them, and the log has as
//! many units as the capacity has bytes. The index is extra. So sizes are exact to the byte from two bytes on
//! (three with an expiry), and with a grain above one they are rounded up or down by the key's hash, so that
//! they add up.

use std::sync::Arc;

use micanite_engine::limits::{MEMORY_BYTES_MIN, VALUE_BYTES_MAX, VALUE_BYTES_MAX_MIN};
use micanite_engine::{
    Cache as Engine, Config, Eviction, Expiry, Operation, Outcome, ReplySink, Request, Simulated, Stats,
    ValueMeta, Worker,
};

use super::cache::{Cache, Stored};
use super::compact::Object;
use crate::trace::Failure;

/// Bytes of a unit of the log.
const UNIT_BYTES: u64 = 8;
/// Requests between two calls of the engine's upkeep when no second passes.
const UPKEEP_INTERVAL: u32 = 10_000;
/// Rounds of the upkeep in a second, as a server does them, and at most after a long time.
const UPKEEP_ROUNDS: u32 = 10;
const UPKEEP_ROUNDS_MIN: u32 = 2;
const UPKEEP_ROUNDS_MAX: u32 = 1_000;
/// The least memory that the engine simulates.
const BYTES_MIN: u64 = 1 << 10;
/// A server refuses values that are larger than this share of its memory.
const VALUE_SHARE: u64 = 3;

/// Bytes that count against the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Counts everything, as with `-m`.
    Memory,
    /// Counts everything in a sample of the requests, without what does not shrink with it.
    Sample,
    /// Key and value alone, in units of so many bytes.
    Payload {
        /// Bytes that a unit of the log stands for.
        grain: u32,
    },
}

/// The engine as a cache of numbered objects, driven by the clock of a trace.
pub struct EngineCache {
    worker: Worker,
    frame: Frame,
    value: Vec<u8>,
    now_s: u32,
    until_upkeep: u32,
}

impl std::fmt::Debug for EngineCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("EngineCache");
        debug.field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl EngineCache {
    /// A cache of so many bytes, for objects of at most so many (key and value).
    ///
    /// # Errors
    /// When the engine cannot have such a memory, or the machine lacks it.
    pub fn new(
        eviction: Eviction,
        bytes: u64,
        frame: Frame,
        payload_bytes_max: u64,
    ) -> Result<Self, Failure> {
        let (memory_bytes, simulated) = match frame {
            Frame::Memory if bytes >= MEMORY_BYTES_MIN as u64 => (bytes, None),
            Frame::Memory | Frame::Sample => (bytes, Some(Simulated::Memory)),
            Frame::Payload { grain } => {
                let units = bytes / u64::from(grain);
                (units * UNIT_BYTES, Some(Simulated::Items))
            }
        };
        let memory_bytes = memory_bytes.max(BYTES_MIN);
        let largest = match frame {
            Frame::Payload { grain } => payload_bytes_max.div_ceil(u64::from(grain)) * UNIT_BYTES,
            Frame::Memory | Frame::Sample => payload_bytes_max,
        };
        let least = VALUE_BYTES_MAX_MIN as u64;
        let most = (memory_bytes / VALUE_SHARE).clamp(least, VALUE_BYTES_MAX as u64);
        let value_bytes_max = largest.clamp(least, most) as usize;
        let config = Config {
            memory_bytes: memory_bytes as usize,
            value_bytes_max,
            eviction,
            simulated,
            ..Config::default()
        };
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format!("cannot simulate {bytes} bytes: {error}"));
        let engine = Engine::new(&config).map_err(|error| failed(&error))?;
        let worker = Arc::new(engine).worker(0);
        Ok(Self {
            worker: worker.ok_or_else(|| failed(&"the cache has no worker"))?,
            frame,
            value: vec![0; value_bytes_max],
            now_s: 0,
            until_upkeep: UPKEEP_INTERVAL,
        })
    }

    /// The engine's counters.
    pub fn stats(&self) -> Stats {
        self.worker.cache().stats()
    }

    /// Bytes that all items take now, as they count.
    pub fn used_bytes(&self) -> u64 {
        let bytes = self.stats().item_bytes_live;
        match self.frame {
            Frame::Memory | Frame::Sample => bytes,
            Frame::Payload { grain } => bytes / UNIT_BYTES * u64::from(grain),
        }
    }

    /// The time is now this second (2 or later, and never earlier than before).
    pub fn set_now(&mut self, now_s: u32) {
        self.until_upkeep -= 1;
        if now_s == self.now_s && self.until_upkeep > 0 {
            return;
        }
        let seconds = now_s.saturating_sub(self.now_s);
        let rounds = seconds.saturating_mul(UPKEEP_ROUNDS);
        self.keep_up(rounds.clamp(UPKEEP_ROUNDS_MIN, UPKEEP_ROUNDS_MAX), now_s);
        self.now_s = now_s;
        self.until_upkeep = UPKEEP_INTERVAL;
    }

    /// Runs rounds of upkeep, until all buckets have been scanned: a second scan finds nothing more within
    /// the same second.
    fn keep_up(&mut self, rounds: u32, now_s: u32) {
        let before = self.stats().buckets_scanned;
        for round in 1..=rounds {
            self.worker.maintain(now_s);
            let stats = self.stats();
            let scanned = stats.buckets_scanned - before;
            let is_done = scanned == 0 || scanned >= stats.buckets;
            if is_done && round >= UPKEEP_ROUNDS_MIN {
                return;
            }
        }
    }

    /// Returns whether an object is there; it counts as requested.
    pub fn get(&mut self, number: u64, key_bytes: u8) -> bool {
        let key = self.key(number, key_bytes);
        let found = self.worker.get_with(key.bytes(), self.now_s, |_, _| ());
        matches!(found, Ok(Some(())))
    }

    /// Stores an object of so many bytes of key and value, of which `key_bytes` are its key (0 if
    /// nobody knows); it expires at a second, 0 is never. False if it does not fit.
    pub fn set(&mut self, number: u64, key_bytes: u8, payload_bytes: u64, expiry_s: u32) -> bool {
        let key = self.key(number, key_bytes);
        let value_bytes = match self.frame {
            Frame::Memory | Frame::Sample => payload_bytes.saturating_sub(key.bytes().len() as u64),
            Frame::Payload { grain } => {
                let units = in_units(payload_bytes, grain, number);
                units.saturating_sub(2 + u64::from(expiry_s != 0)) * UNIT_BYTES
            }
        };
        let stored = self.value.get(..value_bytes as usize).is_some_and(|value| {
            let outcome = self.worker.set(key.bytes(), value, Expiry(expiry_s), self.now_s);
            outcome == Outcome::Stored
        });
        if !stored {
            // The value before it is obsolete.
            self.worker.delete(key.bytes(), self.now_s);
        }
        stored
    }

    /// Removes an object; whether it was there.
    pub fn delete(&mut self, number: u64, key_bytes: u8) -> bool {
        let key = self.key(number, key_bytes);
        self.worker.delete(key.bytes(), self.now_s) == Outcome::Deleted
    }

    /// Gives an object another expiry; whether it was there.
    pub fn touch(&mut self, number: u64, key_bytes: u8, expiry_s: u32) -> bool {
        let key = self.key(number, key_bytes);
        let key = key.bytes();
        let expiry = Expiry(expiry_s);
        let request =
            Request { hash: self.worker.cache().hash(key), key, operation: Operation::Touch { expiry } };
        let mut last = LastOutcome(None);
        self.worker.execute(&[request], self.now_s, &mut last);
        last.0 == Some(Outcome::Touched)
    }

    /// The key of an object: as long as the trace says if its number fits, 8 bytes if it does not
    /// say.
    fn key(&self, number: u64, key_bytes: u8) -> Key {
        let least = 8 - number.leading_zeros() as usize / 8;
        let bytes = match (self.frame, key_bytes) {
            (Frame::Payload { .. }, _) | (_, 0) => 8,
            (_, bytes) => usize::from(bytes).clamp(least.max(1), KEY_BYTES_MAX),
        };
        let mut key = Key { buffer: [b'.'; KEY_BYTES_MAX], bytes };
        let number = number.to_le_bytes();
        let copied = bytes.min(8);
        key.buffer[..copied].copy_from_slice(&number[..copied]);
        key
    }
}

const KEY_BYTES_MAX: usize = micanite_engine::KEY_BYTES_MAX;

struct Key {
    buffer: [u8; KEY_BYTES_MAX],
    bytes: usize,
}

impl Key {
    fn bytes(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

/// Keeps how a request ended.
struct LastOutcome(Option<Outcome>);

impl ReplySink for LastOutcome {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.0 = Some(outcome);
    }
}

/// Units of an object: rounded up in as many cases as it takes for them to add up.
fn in_units(payload_bytes: u64, grain: u32, number: u64) -> u64 {
    let grain = u64::from(grain);
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (payload_bytes + spread % grain) / grain
}

/// A trace's objects in an engine.
pub(crate) struct Objects<'a> {
    pub engine: EngineCache,
    pub objects: &'a [Object],
}

impl Objects<'_> {
    fn key_bytes(&self, object: u32) -> u8 {
        self.objects[object as usize].key_bytes
    }
}

impl Cache for Objects<'_> {
    fn turn(&mut self, _: usize, now_s: u32) {
        self.engine.set_now(now_s);
    }

    fn read(&mut self, object: u32) -> bool {
        self.engine.get(u64::from(object), self.key_bytes(object))
    }

    fn has(&mut self, object: u32) -> bool {
        self.read(object)
    }

    fn store(&mut self, stored: Stored) {
        let (number, bytes) = (u64::from(stored.object), u64::from(stored.payload_bytes));
        self.engine.set(number, stored.key_bytes, bytes, stored.expiry_s);
    }

    fn delete(&mut self, object: u32) {
        let key_bytes = self.key_bytes(object);
        self.engine.delete(u64::from(object), key_bytes);
    }

    fn touch(&mut self, object: u32, expiry_s: u32) {
        let key_bytes = self.key_bytes(object);
        self.engine.touch(u64::from(object), key_bytes, expiry_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traces may be of weeks, with seconds in which nothing happens.
    #[test]
    fn a_pause_costs_one_look_at_everything() {
        let mut engine = EngineCache::new(Eviction::default(), 4 << 20, Frame::Memory, 500).expect("a cache");
        engine.set_now(2);
        for number in 0..10_000 {
            assert!(engine.set(number, 0, 50, 1_000_000));
        }
        let before = engine.stats();
        engine.set_now(1000);
        let scanned = engine.stats().buckets_scanned - before.buckets_scanned;
        assert!(scanned >= before.buckets, "{scanned} of {}", before.buckets);
        assert!(scanned <= 3 * before.buckets, "{scanned} of {}", before.buckets);
    }
}
