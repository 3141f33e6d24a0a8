//! Listing what is stored, a bucket at a time, while requests run: from any thread.
//!
//! A bucket is read optimistically, like by any other reader, and what was read is believed only if
//! its version is still the same. After [`VISIT_ATTEMPTS_MAX`] attempts the partition is shared for
//! a moment, whoever owns it, and the bucket is visited under the lock. An item that is there from the beginning of a walk to its end is
//! visited at least once: buckets are visited in the order of their numbers, and growth moves items
//! to a bucket that is still to come, so that an item that has just been moved may come again. While
//! a walk is in a partition, the index of that partition does not shrink.

use micanite_memory::sync::Ordering::{Acquire, Relaxed};
use micanite_memory::sync::{fence, spin_loop};

use crate::cache::Cache;
use crate::index::entry::Entry;
use crate::index::walkers::Walking;
use crate::limits::{ITEM_UNITS_MORE, KEY_BYTES_MAX, VISIT_ATTEMPTS_MAX};
use crate::log::item::{State, unpack_meta};
use crate::partition::{Partition, Place};
use crate::request::Expiry;
use crate::worker::Worker;

/// The items of a bucket are visited together, so that they are of one moment, unless the visitor
/// has no room for more than these: whoever has room for as many at first gets on.
pub const PART_ITEMS_MIN: usize = 32;

/// How far a walk has come. Until it is dropped, or has come to its end, the index of the partition
/// that it is in does not shrink.
#[derive(Debug, Default)]
pub struct Walk {
    partition: usize,
    bucket: u64,
    /// Items of the bucket that the visitor has had.
    items_done: usize,
    /// In the partition, if it has begun with it.
    walking: Option<Walking>,
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

impl Worker {
    /// As [`Cache::walk`], on the thread of a worker, outside of a batch.
    pub fn walk(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Walked {
        let idle = || self.serve_mailbox();
        self.cache()
            .walk_idly(walk, buckets_max, now_s, visitor, idle)
    }
}

impl Cache {
    /// Goes on with a walk through everything that is stored, for at most so many buckets. From any
    /// thread that is not a worker: those have [`Worker::walk`].
    pub fn walk(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Walked {
        self.walk_idly(walk, buckets_max, now_s, visitor, || {})
    }

    /// A walk that calls `idle` while it waits.
    fn walk_idly(
        &self,
        walk: &mut Walk,
        buckets_max: usize,
        now_s: u32,
        visitor: &mut impl Visitor,
        idle: impl Fn(),
    ) -> Walked {
        let mut left = buckets_max;
        while let Some(partition) = self.partitions.get(walk.partition) {
            walk.walking
                .get_or_insert_with(|| partition.walkers.enter());
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
            let beside = partition.visit(walk, now_s, visitor);
            let visited = beside.unwrap_or_else(|| {
                self.with_writer(walk.partition, now_s, &idle, |writer| {
                    let read = writer.partition.visit_chain(walk, now_s, visitor);
                    settle(read, walk, visitor)
                })
            });
            match visited {
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

/// Keeps what was read of a bucket, or takes it back if the visitor has no room and has had too
/// little of it. Returns how many items are done, if not all of them.
fn settle(read: Read, walk: &Walk, visitor: &mut impl Visitor) -> Option<usize> {
    match read {
        Read::Full(items) if items < walk.items_done + PART_ITEMS_MIN => {
            visitor.take_back();
            Some(walk.items_done)
        }
        Read::Full(items) => {
            visitor.keep();
            Some(items)
        }
        Read::Done | Read::Torn => {
            visitor.keep();
            None
        }
    }
}

impl Partition {
    /// Visits a bucket beside its writer. Returns how many of its items are done, if not all of
    /// them; `None` if the writer was in the way too often.
    pub(crate) fn visit(
        &self,
        walk: &Walk,
        now_s: u32,
        visitor: &mut impl Visitor,
    ) -> Option<Option<usize>> {
        let bucket = self.main_bucket(walk.bucket);
        for attempt in 0..VISIT_ATTEMPTS_MAX {
            if attempt > 0 {
                self.read_retries.fetch_add(1, Relaxed);
                spin_loop();
            }
            let Some(version) = bucket.version_stable() else {
                continue;
            };
            let read = self.visit_chain(walk, now_s, visitor);
            let still = bucket.version_is_still(version);
            if !matches!(read, Read::Torn) && still {
                return Some(settle(read, walk, visitor));
            }
            visitor.take_back();
        }
        None
    }

    fn visit_chain(&self, walk: &Walk, now_s: u32, visitor: &mut impl Visitor) -> Read {
        let spares = self.layout.spares(self.buckets());
        let mut bucket = self.main_bucket(walk.bucket);
        let mut items = 0;
        let mut key = [0; KEY_BYTES_MAX];
        for _ in 0..=spares {
            let entries = bucket.entries();
            // The tails are looked at after the entries: they are at least as new as any of them.
            fence(Acquire);
            for entry in entries.map(Entry) {
                let Some(place) = self.place(entry) else {
                    continue;
                };
                let Some(item) = self.item_at(&place, &mut key) else {
                    continue;
                };
                let gone = item.expiry.has_passed(now_s)
                    || self.is_invalid(item.key, &place, self.header(place.position));
                fence(Acquire);
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
            || header.units() > self.layout.item_units_max + ITEM_UNITS_MORE
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
