//! The prototype with a bucket and an item: two lines to a lookup.
//!
//! A bucket is a version word and entries; the version word's upper half names a spare bucket
//! that holds what did not fit.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::fence;

use micanite_memory::{Region, WORD_BYTES};
use micanite_wire::hash::KeyHash;

use super::item::{Items, KEY_BYTES, Placement, key_of, value_of};
use super::pipeline::Lookup;
use super::tag_match::{OFFSET_BITS, TagMatch};
use super::two_lines::below;
use crate::Result;

const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const SPARE_SHIFT: u32 = 32;
pub(super) const SEED: u64 = 0x6d69_6361;

/// Buckets of `WORDS` words, `ENTRIES` of them entries, and the items.
#[derive(Debug)]
pub(super) struct Table<const WORDS: usize, const ENTRIES: usize> {
    index: Region,
    items: Items,
    buckets: u64,
    spare_next: usize,
    key_bytes: usize,
    item_count: usize,
    chained_items: usize,
}

impl<const WORDS: usize, const ENTRIES: usize> Table<WORDS, ENTRIES> {
    const LAYOUT: () = assert!(WORDS == ENTRIES + 1 && WORDS.is_multiple_of(8));

    /// A table with the items `0..items`, its buckets full to `load` on average.
    pub fn filled(items: usize, load: f64, placement: Placement) -> Result<Self> {
        const { Self::LAYOUT };
        let buckets = (items as f64 / ENTRIES as f64 / load).ceil().max(2.0) as usize;
        let spares = buckets / 3 + 16;
        let mut table = Self {
            index: Region::private((buckets + spares) * WORDS * WORD_BYTES)?,
            items: Items::new(items, placement)?,
            buckets: buckets as u64,
            spare_next: buckets,
            key_bytes: KEY_BYTES,
            item_count: items,
            chained_items: 0,
        };
        // Bucket lines are prefetched far ahead: filling is otherwise all waiting.
        const AHEAD: u64 = 32;
        for number in 0..items as u64 {
            table.index.prefetch(table.bucket(hash_of(&key_of(number + AHEAD))));
            table.insert(number);
        }
        Ok(table)
    }

    /// Memory for an item: its share of all buckets in use, and itself.
    pub fn bytes_per_item(&self) -> f64 {
        let index_bytes = self.spare_next * WORDS * WORD_BYTES;
        index_bytes as f64 / self.item_count as f64 + self.items.bytes_per_item()
    }

    /// The share of items whose entry is in a spare bucket.
    pub fn chained_percent(&self) -> f64 {
        100.0 * self.chained_items as f64 / self.item_count as f64
    }

    fn insert(&mut self, number: u64) {
        let hash = hash_of(&key_of(number));
        let entry = tag_of(hash) << OFFSET_BITS | self.items.append(number) as u64;
        let first = self.bucket(hash);
        let mut bucket = first;
        loop {
            let words = bucket + 1..bucket + WORDS;
            if let Some(at) = words.into_iter().find(|at| self.index.word(*at).load(Relaxed) == 0) {
                self.index.word(at).store(entry, Relaxed);
                self.chained_items += usize::from(bucket != first);
                return;
            }
            let spare = self.index.word(bucket).load(Relaxed) >> SPARE_SHIFT;
            if spare == 0 {
                let link = (self.spare_next as u64) << SPARE_SHIFT;
                self.index.word(bucket).fetch_or(link, Relaxed);
                bucket = self.spare_next * WORDS;
                self.spare_next += 1;
            } else {
                bucket = spare as usize * WORDS;
            }
        }
    }

    /// The first word of the bucket of a hash. Scaled, so that all buckets are equally full.
    #[inline]
    fn bucket(&self, hash: KeyHash) -> usize {
        below(hash.0, self.buckets) as usize * WORDS
    }

    /// The word of the spare bucket behind a bucket, or zero.
    #[inline]
    fn spare(&self, bucket: usize) -> usize {
        (self.index.word(bucket).load(Relaxed) >> SPARE_SHIFT) as usize * WORDS
    }

    /// The rest of a lookup at once, for tags that two keys share.
    #[cold]
    #[inline(never)]
    fn item_slowly(&self, slot: &Slot, key: &[u8]) -> Option<usize> {
        let mut bucket = slot.bucket;
        loop {
            for at in bucket + 1..bucket + WORDS {
                let entry = self.index.word(at).load(Relaxed);
                let word = (entry & OFFSET_MASK) as usize;
                if entry >> OFFSET_BITS == slot.tag && self.items.is(word, key) {
                    return Some(word);
                }
            }
            bucket = self.spare(bucket);
            if bucket == 0 {
                return None;
            }
        }
    }
}

#[inline]
pub(super) fn hash_of(key: &[u8]) -> KeyHash {
    KeyHash::of(key, SEED)
}

/// Never zero, which is an empty entry.
#[inline]
pub(super) fn tag_of(hash: KeyHash) -> u64 {
    (hash.0 & 0xffff).max(1)
}

/// A lookup on its way.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    key: [u8; KEY_BYTES],
    tag: u64,
    bucket: usize,
    /// The item whose tag fits, or zero.
    item: usize,
    /// Tells whether `bucket` is a spare bucket that is still to be looked at.
    pending: bool,
}

/// A GET (or a SET in place) with a way to match tags and a number of prefetches per item; zero
/// means none at all, not even of the bucket.
pub(super) struct Access<
    'a,
    const WORDS: usize,
    const ENTRIES: usize,
    M,
    const PREFETCHES: usize,
    const SET: bool,
> {
    table: &'a Table<WORDS, ENTRIES>,
    matching: PhantomData<M>,
}

impl<'a, const W: usize, const E: usize, M, const P: usize, const SET: bool> Access<'a, W, E, M, P, SET> {
    pub fn to(table: &'a Table<W, E>) -> Self {
        Self { table, matching: PhantomData }
    }
}

impl<const W: usize, const E: usize, M: TagMatch, const P: usize, const SET: bool> Lookup
    for Access<'_, W, E, M, P, SET>
{
    type Slot = Slot;

    #[inline]
    fn start(&self, number: u64) -> Slot {
        let key = key_of(number);
        let hash = hash_of(&key[..self.table.key_bytes]);
        let bucket = self.table.bucket(hash);
        if P > 0 {
            self.table.index.prefetch(bucket);
        }
        if P > 0 && W > 8 {
            self.table.index.prefetch(bucket + 8);
        }
        Slot { key, tag: tag_of(hash), bucket, item: 0, pending: false }
    }

    #[inline]
    fn middle(&self, slot: &mut Slot) {
        let table = self.table;
        slot.item = M::find::<E>(&table.index, slot.bucket + 1, slot.tag) as usize;
        slot.pending = false;
        if slot.item == 0 {
            let spare = table.spare(slot.bucket);
            if spare != 0 {
                slot.bucket = spare;
                slot.pending = true;
                if P > 0 {
                    table.index.prefetch(spare);
                }
            }
        } else if P > 0 {
            table.items.prefetch(slot.item);
            if P > 1 {
                table.items.prefetch_end(slot.item);
            }
        }
    }

    #[inline]
    fn is_pending(&self, slot: &Slot) -> bool {
        slot.pending
    }

    #[inline]
    fn finish(&self, slot: &Slot, out: &mut [u8]) -> Option<u64> {
        let table = self.table;
        let key = &slot.key[..table.key_bytes];
        let mut item = slot.item;
        if item == 0 {
            return None;
        }
        if !table.items.is(item, key) {
            item = table.item_slowly(slot, key)?;
        }
        if !SET {
            return table.items.read(item, out);
        }
        // Readers on other cores would see an odd version, and try again.
        let version = table.index.word(slot.bucket);
        let even = version.load(Relaxed);
        version.store(even + 1, Relaxed);
        fence(Release);
        let value = value_of(u64::from_le_bytes(slot.key));
        table.items.write(item, &value.to_le_bytes());
        version.store(even + 2, Release);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::pipeline::Schedule;
    use crate::limits::tag_match::{BitMask, EarlyExit, Gathered, Minimum};

    const ITEMS: u64 = 20_000;

    fn finds_all<const W: usize, const E: usize, M: TagMatch, const SET: bool>(table: &Table<W, E>) {
        let get = Access::<W, E, M, 1, SET>::to(table);
        for schedule in [Schedule::Batch(8), Schedule::Rolling(16), Schedule::Staggered(8)] {
            let found = schedule.run(&get, ITEMS as usize, |at| at as u64);
            assert_eq!(found.hits, ITEMS);
            let sum = (0..ITEMS).fold(0u64, |sum, number| sum.wrapping_add(value_of(number)));
            assert_eq!(found.sum, sum);
        }
    }

    fn finds_no_other<const W: usize, const E: usize>(table: &Table<W, E>) {
        let get = Access::<W, E, Minimum, 1, false>::to(table);
        let found = Schedule::Rolling(8).run(&get, 200_000, |at| ITEMS + at as u64);
        assert_eq!(found.hits, 0);
    }

    #[test]
    fn seven_entries_hold_every_key_and_no_other() {
        for placement in [Placement::Packed, Placement::WithinLine, Placement::OwnLine] {
            let table = Table::<8, 7>::filled(ITEMS as usize, 0.8, placement).unwrap();
            assert!((1.0..15.0).contains(&table.chained_percent()));
            finds_all::<8, 7, EarlyExit, false>(&table);
            finds_all::<8, 7, BitMask, false>(&table);
            finds_all::<8, 7, Gathered, false>(&table);
            finds_no_other(&table);
        }
    }

    #[test]
    fn fifteen_entries_hold_every_key_and_no_other() {
        let table = Table::<16, 15>::filled(ITEMS as usize, 0.8, Placement::Packed).unwrap();
        finds_all::<16, 15, Minimum, false>(&table);
        finds_no_other(&table);
    }

    #[test]
    fn a_set_in_place_keeps_all_items() {
        let table = Table::<8, 7>::filled(ITEMS as usize, 0.8, Placement::Packed).unwrap();
        finds_all::<8, 7, Minimum, true>(&table);
        finds_all::<8, 7, Minimum, false>(&table);
        assert_eq!(table.index.word(0).load(Relaxed) & 1, 0);
    }
}
