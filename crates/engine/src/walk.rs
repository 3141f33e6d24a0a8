//! Listing what is stored, a bucket at a time, while requests run: from any thread, without a lock.
//!
//! A bucket is read optimistically, like by any other reader, and what was read is believed only if
//! its version is still the same. An item that is there from the beginning of a walk to its end is
//! visited at least once: buckets are visited in the order of their numbers, and growth moves items
//! to a bucket that is still to come, so that an item that has just been moved may come again.

use micanite_memory::sync::Ordering::Relaxed;
use micanite_memory::sync::{fence, spin_loop, yield_now};

use crate::cache::Cache;
use crate::index::entry::Entry;
use crate::limits::KEY_BYTES_MAX;
use crate::log::item::{State, unpack_meta};
use crate::partition::{Partition, Place};
use crate::request::Expiry;

/// The items of a bucket are visited together, so that they are of one moment, unless the visitor
/// has no room for more than these: whoever has room for as many at first gets on.
pub const PART_ITEMS_MIN: usize = 32;

/// How far a walk has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    partition: usize,
    bucket: u64,
    /// Items of the bucket that the visitor has had.
    items_done: usize,
}

/// How a visitor takes an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It goes on.
    Next,
    /// It has no room for the item, which comes first when the walk goes on.
    Full,
}

/// How a step of a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// As many buckets as were asked for have been visited.
    Buckets,
    /// The visitor had no room.
    Full,
    /// There is nothing left.
    End,
}

/// An item, as the walk has found it.
#[derive(Clone, Copy, Debug)]
pub struct ItemInfo<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// The CAS value that was handed out for it; 0 if none was.
    pub cas: u64,
    /// Bytes that it takes of the memory for items, its header and rounding included.
    pub bytes: usize,
    /// Length of its value.
    pub value_bytes: usize,
    /// Whether it was requested since it was stored.
    pub fetched: bool,
    /// The second of its last access; 0 where nobody has asked for that yet.
    pub access_s: u32,
}

/// Takes the items of a walk.
pub trait Visitor {
    /// Takes an item, not for good yet: [`Visitor::take_back`] may follow.
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit;
    /// The items since the last call of [`Visitor::keep`] were not what they seemed.
    fn take_back(&mut self);
    /// The items until now are right.
    fn keep(&mut self);
}

/// How the visit of one bucket ended.
enum Read {
    /// Its words do not belong together.
    Torn,
    Done,
    /// No room, after so many items.
    Full(usize),
}

impl Cache {
    /// Goes on with a walk through everything that is stored, for at most so many buckets.
    pub fn walk(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Walked {
        let mut left = buckets_max;
        while let Some(partition) = self.partitions.get(walk.partition) {
            if walk.bucket >= partition.buckets() {
                *walk = Walk {
                    partition: walk.partition + 1,
                    ..Walk::default()
                };
                continue;
            }
            if left == 0 {
                return Walked::Buckets;
            }
            left -= 1;
            match partition.visit(walk, now_s, visitor) {
                None => {
                    walk.bucket += 1;
                    walk.items_done = 0;
                }
                Some(items_done) => {
                    walk.items_done = items_done;
                    return Walked::Full;
                }
            }
        }
        Walked::End
    }
}

impl Partition {
    /// Visits a bucket. Returns how many of its items are done, if not all of them.
    fn visit(&self, walk: &Walk, now_s: u32, visitor: &mut impl Visitor) -> Option<usize> {
        let bucket = self.main_bucket(walk.bucket);
        let mut attempts = 0;
        loop {
            if let Some(version) = bucket.version_stable() {
                let read = self.visit_chain(walk, now_s, visitor);
                if !matches!(read, Read::Torn) && bucket.version_is_still(version) {
                    return match read {
                        Read::Full(items) if items < walk.items_done + PART_ITEMS_MIN => {
                            visitor.take_back();
                            Some(walk.items_done)
                        }
                        Read::Full(items) => {
                            visitor.keep();
                            Some(items)
                        }
                        _ => {
                            visitor.keep();
                            None
                        }
                    };
                }
                visitor.take_back();
            }
            attempts += 1;
            if attempts % 100 == 0 {
                yield_now();
            }
            spin_loop();
        }
    }

    fn visit_chain(&self, walk: &Walk, now_s: u32, visitor: &mut impl Visitor) -> Read {
        let spares = self.layout.spares(self.buckets());
        let mut bucket = self.main_bucket(walk.bucket);
        let mut items = 0;
        let mut key = [0; KEY_BYTES_MAX];
        for _ in 0..=spares {
            for entry in bucket.entries().map(Entry) {
                let Some(place) = self.place(entry) else {
                    continue;
                };
                let Some(item) = self.item_at(&place, &mut key) else {
                    continue;
                };
                let gone = item.expiry.has_passed(now_s)
                    || self.is_invalid(item.key, &place, self.header(place.position));
                fence(micanite_memory::sync::Ordering::Acquire);
                if gone || !self.is_live(&place) {
                    continue;
                }
                if items >= walk.items_done && visitor.item(&item) == Visit::Full {
                    return Read::Full(items);
                }
                items += 1;
            }
            match bucket.next_spare() {
                Some(spare) if spare < spares => bucket = self.spare_bucket(spare),
                Some(_) => return Read::Torn,
                None => return Read::Done,
            }
        }
        Read::Torn
    }

    /// The item at a place, as far as its words make one.
    pub fn item_at<'k>(
        &self,
        place: &Place,
        key: &'k mut [u8; KEY_BYTES_MAX],
    ) -> Option<ItemInfo<'k>> {
        let words = self.region.words();
        if place.position >= words {
            return None;
        }
        let header = self.header(place.position);
        let value_bytes = header.value_bytes()?;
        let units = header.units() as usize;
        if units > words - place.position
            || header.units() > self.layout.item_units_max + 16
            || header.key_bytes() > KEY_BYTES_MAX
            || header.is_busy()
        {
            return None;
        }
        let word = |number: usize| self.word(place.position + number).load(Relaxed);
        let (expiry_s, flags) = unpack_meta(if header.has_meta() { word(1) } else { 0 });
        let state = if header.has_state() {
            self.state_at(place.position, header)
        } else {
            State::default()
        };
        let cas = if state.cas != 0 {
            state.cas
        } else if header.has_cas() {
            word(header.key_word() - 1)
        } else if header.cas_given() {
            place.offset << 1 | place.log as u64
        } else {
            0
        };
        let key = &mut key[..header.key_bytes()];
        self.region
            .copy_out((place.position + header.key_word()) * 8, key);
        Some(ItemInfo {
            key,
            flags,
            expiry: Expiry(expiry_s),
            cas,
            bytes: units * 8,
            value_bytes,
            fetched: header.is_fetched(),
            access_s: state.access_s,
        })
    }
}
