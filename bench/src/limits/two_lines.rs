//! The limit that the engine is measured against: two random lines, the first of which says
//! where the second is.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use micanite_memory::Region;

use super::pipeline::{Found, Lookup, Schedule};
use crate::Result;

const LINE_BYTES: usize = 64;
const LINE_WORDS: usize = 8;
/// Items to a bucket of seven entries that is full to four fifths, times ten.
const ITEMS_PER_BUCKET_TENTHS: usize = 56;
/// The distance of the limit. Longer ones may be faster still (the report shows them): this is a
/// reference that a lookup can be held against, not the most that the memory can do.
pub(crate) const DISTANCE: usize = 32;

/// Memory of the size that `items` need: bucket lines whose words say where an item line is.
///
/// A run does what a GET cannot do without: choose a bucket line, read one word of it, read one
/// word of the item line. No key is hashed or compared, no value copied.
#[derive(Debug)]
pub(crate) struct TwoLines {
    index: Region,
    items: Region,
    index_lines: u64,
    item_lines: u64,
    next: u64,
}

impl TwoLines {
    /// The index for `items` at four fifths of 64-byte buckets, and `items` of `item_bytes`.
    pub fn new(items: usize, item_bytes: usize) -> Result<Self> {
        let index_lines = (items * 10).div_ceil(ITEMS_PER_BUCKET_TENTHS).max(1);
        let item_lines = (items * item_bytes).div_ceil(LINE_BYTES).max(1);
        let lines = Self {
            index: Region::private(index_lines * LINE_BYTES)?,
            items: Region::private(item_lines * LINE_BYTES)?,
            index_lines: index_lines as u64,
            item_lines: item_lines as u64,
            next: 0,
        };
        for word in 0..index_lines * LINE_WORDS {
            let item = lines.item_of(word as u64) * LINE_WORDS as u64;
            lines.index.word(word).store(item, Relaxed);
        }
        for line in 0..item_lines {
            let word = lines.items.word(line * LINE_WORDS);
            word.store(content(line as u64), Relaxed);
        }
        Ok(lines)
    }

    /// Time of `operations` at the limit's distance, checked.
    ///
    /// # Errors
    /// When a word was not what had been written there.
    pub fn run(&mut self, operations: usize) -> Result<Duration> {
        self.run_as(Schedule::Rolling(DISTANCE), operations)
    }

    /// The same in another schedule.
    pub(super) fn run_as(&mut self, schedule: Schedule, operations: usize) -> Result<Duration> {
        let first = self.next;
        self.next += operations as u64;
        let start = Instant::now();
        let found = schedule.run(self, operations, |at| first + at as u64);
        let elapsed = start.elapsed();
        if found != self.expected(first, operations) {
            return Err("two dependent lines: a word was not what had been written".into());
        }
        Ok(elapsed)
    }

    /// Expected result of a run, computed without the memory.
    fn expected(&self, first: u64, operations: usize) -> Found {
        let numbers = first..first + operations as u64;
        Found {
            hits: operations as u64,
            sum: numbers
                .fold(0, |sum: u64, number| sum.wrapping_add(content(self.item_of(self.index_word(number))))),
        }
    }

    /// The word of the index that an operation reads.
    #[inline]
    fn index_word(&self, number: u64) -> u64 {
        let random = mix(number);
        below(random, self.index_lines) * LINE_WORDS as u64 + random % LINE_WORDS as u64
    }

    /// The item line that a word of the index names.
    fn item_of(&self, index_word: u64) -> u64 {
        below(mix(index_word ^ 0x5bd1_e995_0000_0000), self.item_lines)
    }
}

impl Lookup for TwoLines {
    type Slot = u64;

    #[inline]
    fn start(&self, number: u64) -> u64 {
        let word = self.index_word(number);
        self.index.prefetch(word as usize);
        word
    }

    #[inline]
    fn middle(&self, slot: &mut u64) {
        *slot = self.index.word(*slot as usize).load(Relaxed);
        self.items.prefetch(*slot as usize);
    }

    #[inline]
    fn finish(&self, slot: &u64, _out: &mut [u8]) -> Option<u64> {
        Some(self.items.word(*slot as usize).load(Relaxed))
    }
}

/// Word that is written to a line: neither zero nor the same anywhere near.
pub(super) fn content(line: u64) -> u64 {
    (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A number without pattern from a counter (the finalizer of SplitMix64).
#[inline]
pub(super) fn mix(counter: u64) -> u64 {
    let mut x = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A random word scaled to `0..n`.
#[inline]
pub(super) fn below(random: u64, n: u64) -> u64 {
    ((u128::from(random) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schedule_reads_what_was_written() {
        let mut lines = TwoLines::new(1000, 24).unwrap();
        for schedule in [Schedule::Batch(8), Schedule::Rolling(16), Schedule::Staggered(8)] {
            lines.run_as(schedule, 5000).unwrap();
        }
    }

    #[test]
    fn a_changed_word_is_noticed() {
        let mut lines = TwoLines::new(1000, 24).unwrap();
        for line in 0..lines.item_lines as usize {
            lines.items.word(line * LINE_WORDS).fetch_add(1, Relaxed);
        }
        assert!(lines.run(5000).is_err());
    }
}
