//! Caches by policy, of keys that are known by their hashes.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use micanite_engine::limits::VALUE_BYTES_MAX;

use crate::trace::Failure;
use crate::trace::simulate::{Accounting, Cache as _, EngineCache, Exact, Frame, Policy, Stored};
use crate::trace::stats::keys::Identity;

/// Items up to this size are stored, as a server stores them by default.
const ITEM_BYTES_MAX: u64 = 1 << 20;

/// A simulated cache.
pub(super) enum KeyCache {
    Engine(Box<EngineCache>),
    Reference(Reference),
}

/// An exact policy, whose objects are numbered as they come.
pub(super) struct Reference {
    cache: Exact,
    numbers: HashMap<u64, u32, BuildHasherDefault<Identity>>,
}

impl Reference {
    fn number(&mut self, hash: u64) -> u32 {
        let cache = &mut self.cache;
        *self.numbers.entry(hash).or_insert_with(|| cache.add_object())
    }
}

impl KeyCache {
    /// A cache that has so many bytes, where a fraction of the keys is asked for.
    ///
    /// # Errors
    /// When the policy has to know the future, or the engine cannot have such a memory.
    pub fn new(policy: Policy, bytes: u64, fraction: f64) -> Result<Self, Failure> {
        let is_sample = fraction < 1.0;
        let bytes = if is_sample { (bytes as f64 * fraction) as u64 } else { bytes };
        let reference = |renews| {
            let cache = Exact::new(renews, 0, bytes, Accounting::Real);
            Ok(Self::Reference(Reference { cache, numbers: HashMap::default() }))
        };
        match policy {
            Policy::Engine(eviction) => {
                let frame = if is_sample { Frame::Sample } else { Frame::Memory };
                let largest = ITEM_BYTES_MAX.min(VALUE_BYTES_MAX as u64);
                let cache = EngineCache::new(eviction, bytes, frame, largest)?;
                Ok(Self::Engine(Box::new(cache)))
            }
            Policy::Lru => reference(true),
            Policy::Fifo => reference(false),
            Policy::Belady => Err(Failure::usage(
                "--policy belady has to know the future, and stats reads a trace once: use simulate",
            )),
        }
    }

    /// The time is now this second, and never earlier than before.
    pub fn set_now(&mut self, now_s: u32) {
        match self {
            Self::Engine(cache) => cache.set_now(now_s),
            Self::Reference(reference) => reference.cache.turn(0, now_s),
        }
    }

    /// Returns whether a key is there; it counts as requested.
    pub fn get(&mut self, hash: u64, key_bytes: u8) -> bool {
        match self {
            Self::Engine(cache) => cache.get(hash, key_bytes),
            Self::Reference(reference) => {
                let object = reference.number(hash);
                reference.cache.read(object)
            }
        }
    }

    /// Stores so many bytes of key and value; they expire at a second, 0 is never.
    pub fn set(&mut self, hash: u64, key_bytes: u8, payload_bytes: u64, expiry_s: u32) {
        match self {
            Self::Engine(cache) => {
                cache.set(hash, key_bytes, payload_bytes, expiry_s);
            }
            Self::Reference(reference) => {
                let object = reference.number(hash);
                let payload_bytes = u32::try_from(payload_bytes).unwrap_or(u32::MAX);
                if u64::from(payload_bytes) > ITEM_BYTES_MAX {
                    // A server stores no such item, and what was there is obsolete.
                    return reference.cache.delete(object);
                }
                reference.cache.store(Stored { object, payload_bytes, key_bytes, expiry_s });
            }
        }
    }

    pub fn delete(&mut self, hash: u64, key_bytes: u8) {
        match self {
            Self::Engine(cache) => {
                cache.delete(hash, key_bytes);
            }
            Self::Reference(reference) => {
                let object = reference.number(hash);
                reference.cache.delete(object);
            }
        }
    }

    /// Gives a key another expiry if it is there.
    pub fn touch(&mut self, hash: u64, key_bytes: u8, expiry_s: u32) {
        match self {
            Self::Engine(cache) => {
                cache.touch(hash, key_bytes, expiry_s);
            }
            Self::Reference(reference) => {
                let object = reference.number(hash);
                reference.cache.touch(object, expiry_s);
            }
        }
    }
}
