//! The right to write a partition, and what all writing operations are made of: find an item,
//! append one, overwrite one, retire one.

mod append;
mod find;
mod overwrite;

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_wire::hash::KeyHash;

use crate::index::entry::Entry;
use crate::limits::KEY_BYTES_MAX;
use crate::log::Which;
use crate::log::item::{Header, Shape, unpack_meta};
use crate::partition::{Field, Partition, Place};
use crate::request::{Expiry, Outcome};

pub(crate) use append::{NewItem, Part};

/// The one writer of a partition; gives the lock back when dropped, if it holds it.
pub(crate) struct Writer<'a> {
    pub partition: &'a Partition,
    pub now_s: u32,
    /// Whether other threads write this partition, too, under its lock.
    pub shared: bool,
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.partition.lock.unlock();
        }
    }
}

/// An item that was found, valid until the writer changes something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The word of the region where its entry is.
    pub slot: usize,
    pub place: Place,
    pub header: Header,
    pub flags: u32,
    pub expiry: Expiry,
}

impl Found {
    /// Where the value begins, in bytes of the region.
    #[inline]
    pub fn value_at(&self) -> usize {
        (self.place.position + self.header.key_word()) * 8 + self.header.key_bytes()
    }

    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.header.value_bytes().unwrap_or(0)
    }

    /// What the item needs, with or without the extension for its CAS value.
    pub fn shape(&self, cas: bool) -> Shape {
        Shape {
            key_bytes: self.header.key_bytes(),
            value_bytes: self.value_bytes(),
            meta: self.header.has_meta(),
            cas,
        }
    }
}

/// Why something could not be written; nothing that can be seen has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no space for the item, or its entry.
    Full,
    /// Another thread is still writing an item that is in the way: try again without the lock.
    Busy,
    /// The item that was to be copied has just been evicted.
    Gone,
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::OutOfMemory,
            Refusal::Busy => Self::Busy,
            Refusal::Gone => Self::NotFound,
        }
    }
}

impl<'a> Writer<'a> {
    #[inline]
    pub fn new(partition: &'a Partition, shared: bool, now_s: u32) -> Self {
        Self {
            partition,
            now_s,
            shared,
        }
    }

    /// The item at a place, whatever the index says.
    #[inline]
    pub fn found_at(&self, slot: usize, place: Place) -> Found {
        self.found_of(slot, place, self.partition.header(place.position))
    }

    /// The item at a place, its header known.
    #[inline]
    pub fn found_of(&self, slot: usize, place: Place, header: Header) -> Found {
        let p = self.partition;
        let meta = if header.has_meta() {
            p.word(place.position + 1).load(Relaxed)
        } else {
            0
        };
        let (expiry_s, flags) = unpack_meta(meta);
        Found {
            slot,
            place,
            header,
            flags,
            expiry: Expiry(expiry_s),
        }
    }

    /// The key of the item at a position.
    #[inline]
    pub fn key_at<'b>(&self, position: usize, buffer: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8] {
        let p = self.partition;
        let header = p.header(position);
        let key = &mut buffer[..header.key_bytes().min(KEY_BYTES_MAX)];
        p.region.copy_out((position + header.key_word()) * 8, key);
        key
    }

    /// The hash of the key of the item at a position.
    pub fn hash_at(&self, position: usize) -> KeyHash {
        let mut buffer = [0; KEY_BYTES_MAX];
        KeyHash::of(
            self.key_at(position, &mut buffer),
            self.partition.layout.seed,
        )
    }

    #[inline]
    pub fn entry_of(&self, hash: KeyHash, place: &Place) -> Entry {
        Entry::new(
            hash.tag(),
            place.log as u64,
            place.offset,
            self.partition.offset_mask,
        )
    }

    /// The CAS value of an item.
    #[inline]
    pub fn cas_of(&self, found: &Found) -> u64 {
        if found.header.has_cas() {
            let word = found.place.position + found.header.key_word() - 1;
            self.partition.word(word).load(Relaxed)
        } else {
            found.place.offset << 1 | found.place.log as u64
        }
    }

    /// The CAS value that has to stay when the item moves.
    #[inline]
    pub fn cas_to_keep(&self, found: &Found) -> Option<u64> {
        (found.header.cas_given() || found.header.has_cas()).then(|| self.cas_of(found))
    }

    /// Notes that the CAS value of an item is known outside, so that the next write changes it.
    /// Every write changes the one of a store's item.
    #[inline]
    pub fn give_cas(&self, hash: KeyHash, found: &Found) -> u64 {
        if !found.header.cas_given() && !self.partition.is_store() {
            self.partition.bucket(hash).write(|| {
                let header = self.partition.header(found.place.position);
                self.set_header(found.place.position, header.with_cas_given());
            });
        }
        self.cas_of(found)
    }

    /// Counts a request for an item, if the policy counts and the count is not at its end.
    #[inline]
    pub fn count_request(&self, found: &Found) {
        let frequency = found.header.frequency();
        if frequency < self.partition.layout.policy.frequency_max {
            let header = self.partition.header(found.place.position);
            self.set_header(found.place.position, header.with_frequency(frequency + 1));
        }
    }

    #[inline]
    pub fn set_header(&self, position: usize, header: Header) {
        self.partition.word(position).store(header.0, Release);
    }

    /// Removes an item.
    #[inline]
    pub fn remove(&self, hash: KeyHash, found: &Found) {
        let bucket = self.partition.bucket(hash);
        bucket.write(|| {
            self.clear_slot(bucket, found.slot);
            self.retire(&found.place, true);
        });
    }

    /// Removes an item whose expiry has passed.
    #[cold]
    pub fn expire(&self, hash: KeyHash, found: &Found) {
        self.remove(hash, found);
        self.partition.add(Field::Expired, 1);
    }

    /// Gives the space of an item back, unless the head took it already; `early` if nothing
    /// replaces it.
    #[inline]
    pub fn retire(&self, place: &Place, early: bool) {
        let p = self.partition;
        if !p.is_live(place) {
            return;
        }
        let header = p.header(place.position);
        let counted = !p.is_flushed_from_store(place, header);
        if counted {
            p.add(Field::ItemsLive, 1u64.wrapping_neg());
            p.add(Field::UnitsLive, header.units().wrapping_neg());
        }
        if p.is_store() {
            p.heap().free(place.position);
            return;
        }
        let dead = if early {
            p.add(Field::UnitsLeftEarly, header.units());
            if place.log == Which::Main {
                p.add(Field::UnitsLeftEarlyInMain, header.units());
            }
            header.with_dead().with_left_early()
        } else {
            header.with_dead()
        };
        self.set_header(place.position, dead);
    }

    /// The log that a policy puts an item of some units into.
    #[inline]
    pub fn log_for(&self, units: u64, ghost: bool) -> Which {
        let p = self.partition;
        let small = p.log(Which::Small);
        let small_units = small.get(crate::partition::LogField::Limit);
        if ghost || units * 8 > small_units {
            return Which::Main;
        }
        // Until something is evicted, what does not fit into small goes to main.
        if small.is_filling() && small.lap_units() + units > small_units {
            let main = p.log(Which::Main);
            let room = main.get(crate::partition::LogField::Limit);
            if main.is_filling() && main.lap_units() + units <= room {
                return Which::Main;
            }
        }
        Which::Small
    }

    #[inline]
    pub fn note_expiry(&self, expiry: Expiry) {
        if expiry != Expiry::NEVER && self.partition.get(Field::Expiring) == 0 {
            self.partition.set(Field::Expiring, 1);
        }
    }
}
