//! Invalidation of a namespace: all keys that begin with a name and the delimiter, at once and in
//! constant time. A record keeps the present tails (in a store: the last stamp) under the name.
//! Lookups no longer find what was written before; heads and the sweep free its space as they reach
//! it.

use micanite_memory::sync::{Ordering, fence};
use micanite_wire::hash::KeyHash;

use crate::limits::NAMESPACES_MAX;
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::{Partition, Place};
use crate::region::fields::{NAMESPACE_TABLE, NAMESPACE_WORDS};
use crate::region::{Field, LogField, Word};

/// Hash word of a record that is being replaced.
pub(crate) const IN_CHANGE: u64 = 2;

/// Rounds of the sweep after which nothing of a namespace is left.
const SWEEP_ROUNDS: u64 = 2;

/// The error that no record is free: all invalid namespaces are still being removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyNamespaces;

impl std::fmt::Display for TooManyNamespaces {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{NAMESPACES_MAX} namespaces are being removed already, try again later")
    }
}

impl std::error::Error for TooManyNamespaces {}

/// Time at which a namespace was invalidated: the tails, or in a store the stamp (as `small`).
#[derive(Clone, Copy)]
struct Mark {
    small: u64,
    main: u64,
}

impl Partition {
    /// Returns whether an item was written before its namespace was invalidated or, in a store,
    /// before the last flush. (Offsets alone tell of a flush in a cache.)
    #[inline]
    pub fn is_invalid(&self, key: &[u8], place: &Place, header: Header) -> bool {
        if self.is_flushed_from_store(place.position, header) {
            return true;
        }
        self.get(Field::Namespaces) != 0 && self.is_in_invalid_namespace(key, place, header)
    }

    /// Returns whether an item is older than the last flush of a store.
    #[inline]
    pub fn is_flushed_from_store(&self, position: usize, header: Header) -> bool {
        if !self.is_store() {
            return false;
        }
        let flushed = self.get(Field::FlushStamp);
        flushed != 0 && self.stamp(position, header) <= flushed
    }

    /// Returns the stamp of the last write to an item of a store.
    #[inline]
    pub fn stamp(&self, position: usize, header: Header) -> u64 {
        self.word(position + header.key_word() - 1).load(Ordering::Relaxed)
    }

    #[cold]
    fn is_in_invalid_namespace(&self, key: &[u8], place: &Place, header: Header) -> bool {
        let Some(delimiter) = self.layout.namespace_delimiter else {
            return false;
        };
        let Some(name_bytes) = key.iter().position(|byte| *byte == delimiter) else {
            return false;
        };
        let Some(mark) = self.mark(self.name_hash(&key[..name_bytes])) else {
            return false;
        };
        if self.is_store() {
            self.stamp(place.position, header) <= mark.small
        } else {
            match place.log {
                LogKind::Small => place.offset < mark.small,
                LogKind::Main => place.offset < mark.main,
            }
        }
    }

    /// Returns whether a record of an invalid namespace exists.
    pub fn has_invalid_namespaces(&self) -> bool {
        let name = |record| self.record_word(record, 0).load(Ordering::Relaxed);
        (0..NAMESPACES_MAX).any(|record| !matches!(name(record), 0 | IN_CHANGE))
    }

    /// Returns how many records are of namespaces whose items have not all been removed.
    pub fn invalid_namespaces(&self) -> u64 {
        (0..NAMESPACES_MAX).filter(|record| !self.is_free_record(*record)).count() as u64
    }

    /// Returns whether a record is empty, or nothing can be left of the items that it invalidates.
    pub(crate) fn is_free_record(&self, record: usize) -> bool {
        let word = |word| self.record_word(record, word).load(Ordering::Relaxed);
        if word(0) == 0 {
            return true;
        }
        let swept = self.get(Field::SweepRounds) >= word(3) + SWEEP_ROUNDS;
        let head = |which| self.log(which).get(LogField::Head);
        let passed = || head(LogKind::Small) >= word(1) && head(LogKind::Main) >= word(2);
        swept || !self.is_store() && passed()
    }

    pub(crate) fn name_hash(&self, name: &[u8]) -> u64 {
        KeyHash::of(name, self.layout.seed).0 | 1
    }

    pub(crate) fn record_word(&self, record: usize, word: usize) -> Word<'_> {
        self.word(NAMESPACE_TABLE + record * NAMESPACE_WORDS + word)
    }

    /// Iterates over the records in the order in which a name is looked up.
    pub(crate) fn probe(hash: u64) -> impl Iterator<Item = usize> {
        let first = (hash >> 1) as usize % NAMESPACES_MAX;
        (0..NAMESPACES_MAX).map(move |step| (first + step) % NAMESPACES_MAX)
    }

    fn mark(&self, hash: u64) -> Option<Mark> {
        for record in Self::probe(hash) {
            let word = |word| self.record_word(record, word).load(Ordering::Relaxed);
            let named = self.record_word(record, 0).load(Ordering::Acquire);
            if named == 0 {
                return None;
            }
            let mark = Mark { small: word(1), main: word(2) };
            fence(Ordering::Acquire);
            if named == hash && word(0) == hash {
                return Some(mark);
            }
        }
        None
    }
}
