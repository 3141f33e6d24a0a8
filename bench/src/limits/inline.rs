//! The prototype that keeps tiny items inside their bucket: one line to most lookups.
//!
//! The words of a bucket behind its first hold pairs (a key of 8 bytes, a value of up to 8) from
//! the front and ordinary entries from the back. A bucket takes pairs while there is room; then
//! an entry takes one word where a pair would take two, and at last pairs are turned into
//! entries whose items lie outside. So a bucket of 7 words holds 3 pairs, or 7 entries, or what
//! is between, and items of other sizes are entries at once.
//!
//! ```text
//! first word:  version 32 | pairs 4 | value bytes, 4 bits for each of 7 pairs
//! ```

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::fence;

use micanite_memory::{Region, WORD_BYTES};
use micanite_wire::hash::KeyHash;

use super::item::{Items, KEY_BYTES, Placement, VALUE_BYTES, first_word, key_of, value_of};
use super::pipeline::Lookup;
use super::table::{hash_of, tag_of};
use super::tag_match::OFFSET_BITS;
use super::two_lines::below;
use crate::Result;

const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const PAIRS_SHIFT: u32 = 32;
const PAIRS_MASK: u64 = 0xf;
const LENGTHS_SHIFT: u32 = 36;
const LENGTH_BITS: u32 = 4;

/// Buckets of `WORDS` words, `SPACE` of them for pairs and entries, at most `PAIRS` pairs.
#[derive(Debug)]
pub(super) struct InlineTable<const WORDS: usize, const SPACE: usize, const PAIRS: usize> {
    index: Region,
    items: Items,
    buckets: u64,
    key_bytes: usize,
    item_count: usize,
    /// Items that lie outside of their bucket.
    outside: usize,
    /// Items for which there was no room at all.
    lost: usize,
}

impl<const WORDS: usize, const SPACE: usize, const PAIRS: usize> InlineTable<WORDS, SPACE, PAIRS> {
    const LAYOUT: () = {
        assert!(WORDS == SPACE + 1 && PAIRS == SPACE / 2 && WORDS.is_multiple_of(8));
        assert!(LENGTHS_SHIFT + LENGTH_BITS * PAIRS as u32 <= u64::BITS);
    };

    /// A table with the items `0..items`, so many to a bucket on average.
    pub fn filled(items: usize, items_per_bucket: f64) -> Result<Self> {
        const { Self::LAYOUT };
        let buckets = (items as f64 / items_per_bucket).ceil() as usize;
        let mut table = Self {
            index: Region::private(buckets * WORDS * WORD_BYTES)?,
            items: Items::new(items, Placement::Packed)?,
            buckets: buckets as u64,
            key_bytes: KEY_BYTES,
            item_count: items,
            outside: 0,
            lost: 0,
        };
        const AHEAD: u64 = 32;
        for number in 0..items as u64 {
            table.index.prefetch(table.bucket(hash_of(&key_of(number + AHEAD))));
            table.insert(number);
        }
        Ok(table)
    }

    /// Memory for an item: its share of the buckets and of the items outside of them.
    pub fn bytes_per_item(&self) -> f64 {
        let index_bytes = self.buckets as usize * WORDS * WORD_BYTES;
        let item_bytes = self.outside as f64 * self.items.bytes_per_item();
        (index_bytes as f64 + item_bytes) / self.item_count as f64
    }

    /// The share of items that lie outside of their bucket.
    pub fn outside_percent(&self) -> f64 {
        100.0 * self.outside as f64 / self.item_count as f64
    }

    /// The share of items that found no room.
    pub fn lost_percent(&self) -> f64 {
        100.0 * self.lost as f64 / self.item_count as f64
    }

    fn insert(&mut self, number: u64) {
        let hash = hash_of(&key_of(number));
        let bucket = self.bucket(hash);
        let pairs = self.pairs(bucket);
        let entries = (bucket + 1 + 2 * pairs..bucket + WORDS)
            .filter(|at| self.index.word(*at).load(Relaxed) != 0)
            .count();
        let free = SPACE - 2 * pairs - entries;
        match free {
            2.. => self.add_pair(bucket, pairs, number),
            1 => self.add_entry(bucket, entries, number),
            _ if pairs > 0 => {
                let last = self.remove_pair(bucket, pairs);
                self.add_entry(bucket, entries, last);
                self.add_entry(bucket, entries + 1, number);
            }
            _ => self.lost += 1,
        }
    }

    fn add_pair(&self, bucket: usize, pairs: usize, number: u64) {
        let at = bucket + 1 + 2 * pairs;
        self.index.word(at).store(u64::from_le_bytes(key_of(number)), Relaxed);
        self.index.word(at + 1).store(value_of(number), Relaxed);
        let length = (VALUE_BYTES as u64) << (LENGTHS_SHIFT + LENGTH_BITS * pairs as u32);
        self.index.word(bucket).fetch_add(length + (1 << PAIRS_SHIFT), Relaxed);
    }

    /// Takes the last pair out and returns the number of its item.
    fn remove_pair(&self, bucket: usize, pairs: usize) -> u64 {
        let last = pairs - 1;
        let at = bucket + 1 + 2 * last;
        let number = self.index.word(at).swap(0, Relaxed);
        self.index.word(at + 1).store(0, Relaxed);
        let length = (VALUE_BYTES as u64) << (LENGTHS_SHIFT + LENGTH_BITS * last as u32);
        self.index.word(bucket).fetch_sub(length + (1 << PAIRS_SHIFT), Relaxed);
        number
    }

    fn add_entry(&mut self, bucket: usize, entries: usize, number: u64) {
        let tag = tag_of(hash_of(&key_of(number)));
        let entry = tag << OFFSET_BITS | self.items.append(number) as u64;
        self.index.word(bucket + SPACE - entries).store(entry, Relaxed);
        self.outside += 1;
    }

    #[inline]
    fn bucket(&self, hash: KeyHash) -> usize {
        below(hash.0, self.buckets) as usize * WORDS
    }

    #[inline]
    fn pairs(&self, bucket: usize) -> usize {
        (self.index.word(bucket).load(Relaxed) >> PAIRS_SHIFT & PAIRS_MASK) as usize
    }

    /// The pair with a key: its word, or zero. No branch depends on where it is.
    #[inline]
    fn pair(&self, bucket: usize, key: &[u8; KEY_BYTES]) -> usize {
        let key = u64::from_le_bytes(*key);
        let mut fits = 0u32;
        for pair in 0..PAIRS {
            let stored = self.index.word(bucket + 1 + 2 * pair).load(Relaxed);
            fits |= u32::from(stored == key) << pair;
        }
        fits &= (1 << self.pairs(bucket)) - 1;
        if fits == 0 { 0 } else { bucket + 1 + 2 * fits.trailing_zeros() as usize }
    }

    /// Items outside with a tag, from the word `from` of the bucket on: entry word and item.
    #[inline]
    fn entry(&self, bucket: usize, from: usize, tag: u64) -> Option<(usize, usize)> {
        (from.max(bucket + 1 + 2 * self.pairs(bucket))..bucket + WORDS).find_map(|at| {
            let entry = self.index.word(at).load(Relaxed);
            (entry >> OFFSET_BITS == tag).then_some((at, (entry & OFFSET_MASK) as usize))
        })
    }

    #[cold]
    #[inline(never)]
    fn item_slowly(&self, slot: &Slot, key: &[u8]) -> Option<usize> {
        let mut from = slot.bucket + 1;
        loop {
            let (at, item) = self.entry(slot.bucket, from, slot.tag)?;
            if self.items.is(item, key) {
                return Some(item);
            }
            from = at + 1;
        }
    }
}

/// A lookup on its way.
#[derive(Clone, Copy, Default)]
pub(super) struct Slot {
    key: [u8; KEY_BYTES],
    tag: u64,
    bucket: usize,
    /// The word of the pair, or zero.
    pair: usize,
    /// The item outside whose tag fits, or zero.
    item: usize,
}

/// A GET, or a SET in place.
pub(super) struct InlineAccess<'a, const W: usize, const S: usize, const P: usize, const SET: bool>(
    pub &'a InlineTable<W, S, P>,
);

impl<const W: usize, const S: usize, const P: usize, const SET: bool> InlineAccess<'_, W, S, P, SET> {
    /// The pair's value copied out, or overwritten.
    #[inline]
    fn finish_pair(&self, slot: &Slot, out: &mut [u8]) -> Option<u64> {
        let table = self.0;
        if SET {
            let value = value_of(u64::from_le_bytes(slot.key));
            self.versioned(slot.bucket, || {
                table.index.word(slot.pair + 1).store(value, Relaxed);
            });
            return Some(value);
        }
        let pair = (slot.pair - slot.bucket) as u32 / 2;
        let lengths = table.index.word(slot.bucket).load(Relaxed) >> LENGTHS_SHIFT;
        let bytes = (lengths >> (LENGTH_BITS * pair)) as usize % (1 << LENGTH_BITS);
        let out = out.get_mut(..bytes)?;
        table.index.copy_out((slot.pair + 1) * WORD_BYTES, out);
        first_word(out)
    }

    /// A write that readers on other cores would notice.
    #[inline]
    fn versioned(&self, bucket: usize, write: impl FnOnce()) {
        let version = self.0.index.word(bucket);
        let even = version.load(Relaxed);
        version.store(even + 1, Relaxed);
        fence(Release);
        write();
        let after = even & !0xffff_ffff | (even + 2) & 0xffff_ffff;
        version.store(after, Release);
    }
}

impl<const W: usize, const S: usize, const P: usize, const SET: bool> Lookup
    for InlineAccess<'_, W, S, P, SET>
{
    type Slot = Slot;

    #[inline]
    fn start(&self, number: u64) -> Slot {
        let key = key_of(number);
        let hash = hash_of(&key[..self.0.key_bytes]);
        let bucket = self.0.bucket(hash);
        self.0.index.prefetch(bucket);
        if W > 8 {
            self.0.index.prefetch(bucket + 8);
        }
        Slot { key, tag: tag_of(hash), bucket, pair: 0, item: 0 }
    }

    #[inline]
    fn middle(&self, slot: &mut Slot) {
        if self.0.key_bytes == KEY_BYTES {
            slot.pair = self.0.pair(slot.bucket, &slot.key);
        }
        if slot.pair == 0
            && let Some((_, item)) = self.0.entry(slot.bucket, 0, slot.tag)
        {
            slot.item = item;
            self.0.items.prefetch(item);
            self.0.items.prefetch_end(item);
        }
    }

    #[inline]
    fn finish(&self, slot: &Slot, out: &mut [u8]) -> Option<u64> {
        if slot.pair != 0 {
            return self.finish_pair(slot, out);
        }
        let table = self.0;
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
        let value = value_of(u64::from_le_bytes(slot.key));
        self.versioned(slot.bucket, || table.items.write(item, &value.to_le_bytes()));
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::pipeline::{Found, Schedule};

    const ITEMS: u64 = 20_000;

    fn run<const W: usize, const S: usize, const P: usize, const SET: bool>(
        table: &InlineTable<W, S, P>,
        first: u64,
        count: u64,
    ) -> Found {
        let access = InlineAccess::<W, S, P, SET>(table);
        Schedule::Rolling(8).run(&access, count as usize, |at| first + at as u64)
    }

    fn holds_every_key_and_no_other<const W: usize, const S: usize, const P: usize>(
        items_per_bucket: f64,
        outside_percent: std::ops::Range<f64>,
    ) {
        let table = InlineTable::<W, S, P>::filled(ITEMS as usize, items_per_bucket).unwrap();
        assert!(outside_percent.contains(&table.outside_percent()), "{}", table.outside_percent());
        let sum = (0..ITEMS).fold(0u64, |sum, number| sum.wrapping_add(value_of(number)));
        let all = run::<W, S, P, false>(&table, 0, ITEMS);
        assert_eq!(all.hits + table.lost as u64, ITEMS);
        if table.lost == 0 {
            assert_eq!(all.sum, sum);
        }
        assert_eq!(run::<W, S, P, true>(&table, 0, ITEMS), all);
        assert_eq!(run::<W, S, P, false>(&table, 0, ITEMS), all, "after SET");
        assert_eq!(run::<W, S, P, false>(&table, ITEMS, 200_000).hits, 0);
    }

    #[test]
    fn buckets_of_one_line_hold_every_key_and_no_other() {
        holds_every_key_and_no_other::<8, 7, 3>(0.9, 0.1..10.0);
        holds_every_key_and_no_other::<8, 7, 3>(2.0, 10.0..60.0);
        holds_every_key_and_no_other::<8, 7, 3>(5.0, 60.0..100.0);
    }

    #[test]
    fn buckets_of_two_lines_hold_every_key_and_no_other() {
        holds_every_key_and_no_other::<16, 15, 7>(3.0, 0.01..10.0);
        holds_every_key_and_no_other::<16, 15, 7>(6.0, 5.0..60.0);
    }
}
