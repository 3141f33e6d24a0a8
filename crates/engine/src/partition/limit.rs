//! The limit of the memory that a partition uses, which may be less than its region, and may change.
//!
//! ```text
//! header | heap state | small log | gap | main log, or heap | gap <- index |
//! ```
//! The gaps hold nothing, and their pages go back to the system. The index stays where it is, and so do the
//! beginnings of the logs and of the heap: another limit changes only where the space of items ends. The
//! owner follows a new limit bit by bit ([`crate::writer::Writer::follow_limit`]).

use micanite_memory::PAGE_BYTES;
use micanite_memory::sync::AtomicU64;
use micanite_memory::sync::Ordering::Relaxed;

use crate::limits::{
    BLOCK_UNITS_SLACK_SHARE, BUCKET_WORDS, INDEX_MARGIN_BYTES, RETURN_BYTES_MAX, RETURN_BYTES_MIN,
};
use crate::log::{LAP_SHARE, LogKind};
use crate::partition::{Partition, PartitionLayout, Semantics};
use crate::region::{Field, LogField};

/// One of the two gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// At the end of the small log's space.
    Small = 0,
    /// Between the data space and the index.
    Main = 1,
}

/// Units that a limit leaves unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    /// At the end of the small log's space.
    pub small: u64,
    /// Between the data space and the index.
    pub main: u64,
}

/// The limit of a partition, and how far its owner has followed it.
#[derive(Debug)]
pub(crate) struct Limit {
    /// Words that the partition is to use.
    words: AtomicU64,
    /// The most main buckets beside so many words.
    buckets_max: AtomicU64,
    /// The most units that the items of a store may take while its space shrinks; `u64::MAX`: all.
    pub(crate) heap_units_max: AtomicU64,
    /// One while a log is longer than it is to be.
    pub(crate) shortens: AtomicU64,
    /// One after the logs have got more space, until their laps go on into it.
    pub(crate) unrolls: AtomicU64,
    /// One while the index waits for the main log to leave the end of its space.
    pub(crate) index_waits: AtomicU64,
    /// Evictions from full buckets until the last split; `u64::MAX`: not known.
    pub(crate) evicted_bucket: AtomicU64,
    /// Sum of both tails until which a cache whose index found no space does not look for it again.
    pub(crate) growth_retry: AtomicU64,
}

impl Limit {
    pub fn of(layout: &PartitionLayout) -> Self {
        Self {
            words: AtomicU64::new(layout.limit_words),
            buckets_max: AtomicU64::new(layout.within(layout.limit_words).buckets_max()),
            heap_units_max: AtomicU64::new(u64::MAX),
            shortens: AtomicU64::new(0),
            unrolls: AtomicU64::new(0),
            index_waits: AtomicU64::new(0),
            evicted_bucket: AtomicU64::new(u64::MAX),
            growth_retry: AtomicU64::new(0),
        }
    }

    /// Returns the words that the partition is to use.
    pub fn words(&self) -> u64 {
        self.words.load(Relaxed)
    }

    /// Returns the most main buckets.
    #[inline]
    pub fn buckets_max(&self) -> u64 {
        self.buckets_max.load(Relaxed)
    }

    /// Takes units from those of a store whose space shrinks: the index has them.
    pub(crate) fn lower_heap_units_max(&self, units: u64) {
        let most = self.heap_units_max.load(Relaxed);
        if most != u64::MAX {
            self.heap_units_max.store(most.saturating_sub(units), Relaxed);
        }
    }

    /// Returns whether a log is longer than it is to be.
    pub fn shortens(&self) -> bool {
        self.shortens.load(Relaxed) != 0
    }
}

impl PartitionLayout {
    /// Returns the layout that has the sizes of this one within so many words. Its positions mean nothing.
    pub fn within(&self, words: u64) -> Self {
        let less = self.region_words - words;
        let data_units_min = self.data_units_min.saturating_sub(less / 2);
        Self { region_words: words, limit_words: words, data_units_min, ..*self }
    }

    /// Returns what a limit of so many words leaves unused.
    pub fn gaps(&self, words: u64) -> Gaps {
        let all = self.region_words - words;
        let small = match self.semantics {
            Semantics::Cache => self.small_units() - self.within(words).small_units(),
            Semantics::Store => 0,
        };
        Gaps { small, main: all - small }
    }

    /// Returns the whole pages of a gap, as bytes, but for `margin_bytes` before the index, so that it can
    /// grow. A reader in another process may have read gaps of two moments.
    pub fn pages_of(
        &self,
        gap: Gap,
        (gaps, buckets): (Gaps, u64),
        page_bytes: usize,
        margin_bytes: u64,
    ) -> (u64, u64) {
        let (first, end) = match gap {
            // It has no such log.
            Gap::Small if self.semantics == Semantics::Store => return (0, 0),
            Gap::Small => {
                let end = self.data_first() as u64 + self.small_units();
                (end.saturating_sub(gaps.small), end * 8)
            }
            Gap::Main => {
                let end = self.data_end(buckets);
                (end.saturating_sub(gaps.main), (end * 8).saturating_sub(margin_bytes))
            }
        };
        let page = page_bytes as u64;
        let first = (first * 8).next_multiple_of(page);
        (first, (end / page * page).max(first))
    }

    /// Returns the bytes of the gaps that need not be present.
    pub fn holes(&self, gaps: Gaps, buckets: u64, page_bytes: usize) -> [(u64, u64); 2] {
        [Gap::Small, Gap::Main].map(|gap| {
            let (first, end) = self.pages_of(gap, (gaps, buckets), page_bytes, INDEX_MARGIN_BYTES);
            if end - first >= RETURN_BYTES_MIN { (first, end) } else { (first, first) }
        })
    }

    /// Returns whether the largest item has room, however far the index grows.
    pub fn has_room(&self) -> bool {
        let least_units = self.data_units_min.saturating_sub(self.reserve_units);
        self.room_units_min().min(least_units * 9 / 10) >= self.item_units_max
    }

    /// Returns the least words, whole pages, beside an index of so many main buckets and items of a store
    /// that take so many units.
    pub fn limit_words_min(&self, buckets: u64, live_units: u64) -> u64 {
        let fits = |words: u64| {
            let index_words = self.index_lines(buckets) * BUCKET_WORDS as u64;
            let least = self.heap_first() as u64 + index_words + self.item_units_max;
            if words <= least + live_units {
                return false;
            }
            let now = self.within(words);
            now.has_room() && now.buckets_max() >= buckets && now.data_end(now.buckets_max()) > 0
        };
        let page_words = (PAGE_BYTES / 8) as u64;
        let (mut least, mut most) = (0, self.region_words / page_words);
        while least < most {
            let middle = least + (most - least) / 2;
            if fits(middle * page_words) { most = middle } else { least = middle + 1 }
        }
        (least * page_words).min(self.region_words)
    }
}

impl Partition {
    /// Returns the units that the limit leaves unused now.
    pub fn gaps(&self) -> Gaps {
        Gaps { small: self.get(Field::SmallGap), main: self.get(Field::MainGap) }
    }

    /// Returns the end of the data space beside an index of `buckets` main buckets.
    #[inline]
    pub fn data_end(&self, buckets: u64) -> u64 {
        self.layout.data_end(buckets) - self.get(Field::MainGap)
    }

    /// Returns the first word of the index.
    pub fn index_first(&self) -> u64 {
        self.layout.region_words - self.layout.index_lines(self.buckets()) * BUCKET_WORDS as u64
    }

    /// Returns the units behind the data space that are used.
    pub fn index_units(&self) -> u64 {
        self.layout.region_words - self.get(Field::DataEnd) - self.get(Field::MainGap)
    }

    /// Returns the units for items.
    pub fn data_units(&self) -> u64 {
        self.get(Field::DataEnd) - self.layout.heap_first() as u64 - self.get(Field::SmallGap)
    }

    /// Returns whether the owner has followed the limit.
    pub fn follows_limit(&self) -> bool {
        self.gaps() == self.layout.gaps(self.limit.words())
    }

    /// Returns whether the owner has followed the limit, and given the pages of the gaps back.
    pub fn is_settled(&self) -> bool {
        self.follows_limit() && self.limit.unrolls.load(Relaxed) == 0 && self.has_returned_gaps()
    }

    /// Returns the words that are used now, which may be more than the limit.
    pub fn used_words(&self) -> u64 {
        let gaps = self.gaps();
        self.layout.region_words - gaps.small - gaps.main
    }

    /// Returns the least words that a limit can have: the index stays as it is, and so does what a store
    /// holds, with some space to move it. What it uses now is always enough.
    pub fn limit_words_min(&self) -> u64 {
        let live_units = match self.is_store() {
            true => {
                let heap = self.heap();
                let used = heap.units().saturating_sub(heap.units_free()) as u64;
                used + used / BLOCK_UNITS_SLACK_SHARE
            }
            false => 0,
        };
        self.layout.limit_words_min(self.buckets(), live_units).min(self.used_words())
    }

    /// Sets the limit, which the owner then follows. It is at least [`Self::limit_words_min`], and at most
    /// the words of the region.
    pub fn set_limit(&self, words: u64) {
        let buckets_max = self.layout.within(words).buckets_max();
        self.limit.words.store(words, Relaxed);
        self.limit.buckets_max.store(buckets_max, Relaxed);
        let gap = self.layout.gaps(words).main;
        if self.is_store() {
            // Writers grow no further, although the owner may follow later.
            let end = self.layout.data_end(self.buckets()) - gap;
            let lowers = gap > self.get(Field::MainGap);
            let most = if lowers { self.heap_units_until(end) } else { u64::MAX };
            self.limit.heap_units_max.store(most, Relaxed);
        }
    }

    /// Returns the units that the items of a store may take where the data space is to end at this word: some
    /// space is left to move them, as in [`Self::limit_words_min`].
    pub fn heap_units_until(&self, end: u64) -> u64 {
        let units = (end - 1).saturating_sub(self.heap().first() as u64);
        units - units.div_ceil(BLOCK_UNITS_SLACK_SHARE + 1)
    }

    /// Returns the whole pages of a gap, as bytes.
    pub fn pages_of(&self, gap: Gap) -> (u64, u64) {
        self.pages_beside(gap, INDEX_MARGIN_BYTES)
    }

    /// Returns the whole pages of a gap, as bytes, but for so many before the index.
    pub fn pages_beside(&self, gap: Gap, margin_bytes: u64) -> (u64, u64) {
        self.layout.pages_of(gap, (self.gaps(), self.buckets()), self.region.page_bytes(), margin_bytes)
    }

    /// Makes a part of a gap usable that begins at the word `first`, and is to have `wanted` units instead of
    /// `now`: all of it, except in a file, whose pages are made present bit by bit. Returns the units that it
    /// has left; `None` if the file system has no space.
    pub fn shorten_gap(&self, first: u64, now: u64, wanted: u64) -> Option<u64> {
        let units_max = if self.region.is_file() { RETURN_BYTES_MAX / 8 } else { u64::MAX };
        let units = (now - wanted).min(units_max);
        self.commit(first * 8, (first + units) * 8).then_some(now - units)
    }

    /// Lets a store use all of its space, and the laps of logs have their whole length: the limit may be what
    /// it was before a change that was not completed.
    pub fn end_change_of_limit(&self) {
        if self.limit.heap_units_max.load(Relaxed) != u64::MAX {
            self.limit.heap_units_max.store(u64::MAX, Relaxed);
        }
        if self.is_store() {
            return;
        }
        let small_units = self.layout.small_units() - self.get(Field::SmallGap);
        let main = self.log(LogKind::Main);
        let main_units = self.get(Field::DataEnd) - main.get(LogField::First);
        // The main log gives up a part for the index.
        let main_least = (main_units - main_units / LAP_SHARE).saturating_sub(2 * BUCKET_WORDS as u64);
        let logs = [(self.log(LogKind::Small), small_units, small_units), (main, main_units, main_least)];
        for (log, units, least) in logs {
            if log.get(LogField::Limit) < least {
                log.set(LogField::Limit, units);
            }
        }
        if self.limit.shortens() {
            self.limit.shortens.store(0, Relaxed);
        }
    }
}
