//! The sizes of a partition, the positions of its parts, and its formatting.

use micanite_memory::sync::Ordering;

use crate::heap::{BLOCK_UNITS_MIN, Heap};
use crate::index::hash::{Buckets, IndexHash, LANES, Secret};
use crate::limits::{
    BUCKET_WORDS, IMAGE_HEADER_WORDS, MAIN_PER_SPARE_CACHE, MAIN_PER_SPARE_STORE, OFFSET_BITS,
    PARTITION_BYTES_MAX,
};
use crate::log::{LAP_SHARE, LogKind};
use crate::partition::eviction::Policy;
use crate::partition::{Partition, Semantics};
use crate::region::fields::{Field, LAYOUT_VERSION, LAYOUT_VERSION_WIDE, LogField, MAGIC};

/// 2^32 divided by the main buckets per spare one, rounded up: leads to exact quotients of numbers below 2^30
/// (Granlund and Montgomery, PLDI 1994), by products that a word holds.
const RECIPROCAL_CACHE: u64 = (1 << 32) / MAIN_PER_SPARE_CACHE + 1;
const RECIPROCAL_STORE: u64 = (1 << 32) / MAIN_PER_SPARE_STORE + 1;
const _: () = assert!(RECIPROCAL_CACHE * MAIN_PER_SPARE_CACHE - (1 << 32) <= 1 << 2);
const _: () = assert!(RECIPROCAL_STORE * MAIN_PER_SPARE_STORE - (1 << 32) <= 1 << 2);
const _: () = assert!(PARTITION_BYTES_MAX / (8 * BUCKET_WORDS) < 1 << 30);

/// Least units of a small log: in a log of few items hardly any is requested again before it leaves.
/// The log takes at most 1/`SMALL_SHARE_MAX` of the data space.
const SMALL_UNITS_MIN: u64 = 8192;
const SMALL_SHARE_MAX: u64 = 4;

/// The sizes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionLayout {
    pub number: usize,
    pub partition_bits: u32,
    pub seed: u64,
    pub secret: Secret,
    pub semantics: Semantics,
    pub policy: Policy,
    /// Words of the region, a multiple of a bucket.
    pub region_words: u64,
    /// Words of it that are used at first: [`Partition::limit`].
    pub limit_words: u64,
    /// Initial number of main buckets, two or more.
    pub buckets: u64,
    /// Limit of the data space, whatever the index leaves to it.
    pub data_units_max: u64,
    /// Part of the data space that the index does not grow into, besides the space of the largest
    /// item.
    pub data_units_min: u64,
    /// Units of the largest item.
    pub item_units_max: u64,
    /// Units at the beginning of the data space of a store that outlives its process. Items of a
    /// full store wait there while their old space becomes their new one. 0 in all others.
    pub reserve_units: u64,
    /// Width of the offsets in entries: [`OFFSET_BITS`], except in images of an earlier version, and in
    /// tests.
    pub offset_bits: u32,
    /// Delimiter that ends the namespace of a key.
    pub namespace_delimiter: Option<u8>,
}

/// Layout of the index: leads from a hash to the bucket of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexLayout {
    /// Initial number of main buckets.
    pub buckets: u64,
    reciprocal: u64,
    region_words: u64,
}

impl IndexLayout {
    /// Returns the word of a main bucket: lines are counted from the end of the region.
    #[inline(always)]
    pub fn main_bucket_word(self, number: u64) -> usize {
        self.line(number + self.per_spare(number))
    }

    /// Returns the words of the buckets of several keys. `buckets` are the numbers of main buckets of their
    /// partitions, packed. The compiler makes it one computation for all where the processor has
    /// instructions for that.
    #[inline(always)]
    pub fn words_of_buckets(self, hashes: &[u64; LANES], buckets: &[u64; LANES]) -> [u64; LANES] {
        let mut words = [0; LANES];
        for lane in 0..LANES {
            let number =
                IndexHash::of_word(hashes[lane]).bucket(Buckets::unpack(self.buckets, buckets[lane]));
            words[lane] = self.main_bucket_word(number as u64) as u64;
        }
        words
    }

    #[inline(always)]
    fn per_spare(self, number: u64) -> u64 {
        (number * self.reciprocal) >> 32
    }

    #[inline(always)]
    fn line(self, number: u64) -> usize {
        (self.region_words as usize).wrapping_sub((number as usize + 1) * BUCKET_WORDS)
    }
}

impl PartitionLayout {
    /// Returns the first word of the data space.
    #[inline]
    pub fn data_first(&self) -> usize {
        let state_words = match self.semantics {
            Semantics::Cache => 0,
            Semantics::Store => Heap::state_words(self.item_units_max as usize),
        };
        IMAGE_HEADER_WORDS + state_words
    }

    /// Returns the first word of a store's heap: the reserve lies before it.
    #[inline]
    pub fn heap_first(&self) -> usize {
        self.data_first() + self.reserve_units as usize
    }

    /// Returns whether this is a store whose memory outlives the process: whenever the process is
    /// killed, no word of an item in the index may be lost.
    #[inline]
    pub fn is_kept_store(&self) -> bool {
        self.reserve_units != 0
    }

    /// Returns the lines that `buckets` main buckets and their spares take.
    #[inline]
    pub fn index_lines(&self, buckets: u64) -> u64 {
        buckets + self.spares(buckets)
    }

    /// Returns the spare buckets that come with `buckets` main ones: one before every main bucket
    /// whose number is a positive multiple of `main_per_spare()`.
    #[inline]
    pub fn spares(&self, buckets: u64) -> u64 {
        self.per_spare(buckets - 1)
    }

    /// Returns the word of a main bucket: lines are counted from the end of the region.
    #[inline]
    pub fn main_bucket_word(&self, number: u64) -> usize {
        self.index().main_bucket_word(number)
    }

    /// Returns the layout of the index. All partitions of a cache have the same.
    #[inline(always)]
    pub fn index(&self) -> IndexLayout {
        let Self { buckets, region_words, .. } = *self;
        IndexLayout { buckets, reciprocal: self.reciprocal(), region_words }
    }

    /// Returns the number of main buckets for each spare one.
    #[inline]
    pub fn main_per_spare(&self) -> u64 {
        match self.semantics {
            Semantics::Cache => MAIN_PER_SPARE_CACHE,
            Semantics::Store => MAIN_PER_SPARE_STORE,
        }
    }

    /// Computes `number / main_per_spare` without a division: exact below 2^30.
    #[inline]
    fn per_spare(&self, number: u64) -> u64 {
        let of_spare = self.index().per_spare(number);
        debug_assert_eq!(of_spare, number / self.main_per_spare());
        of_spare
    }

    #[inline(always)]
    fn reciprocal(&self) -> u64 {
        match self.semantics {
            Semantics::Cache => RECIPROCAL_CACHE,
            Semantics::Store => RECIPROCAL_STORE,
        }
    }

    /// Returns the word of a spare bucket.
    #[inline]
    pub fn spare_bucket_word(&self, number: u64) -> usize {
        self.line(number * (self.main_per_spare() + 1) + self.main_per_spare())
    }

    #[inline]
    fn line(&self, number: u64) -> usize {
        self.index().line(number)
    }

    /// Returns the end of the data space beside an index of `buckets` main buckets; 0 if the index has no
    /// room, as in a part of the memory that is too small ([`Self::within`]).
    pub fn data_end(&self, buckets: u64) -> u64 {
        let index_words = self.index_lines(buckets) * BUCKET_WORDS as u64;
        let most = self.data_units_max.saturating_add(self.data_first() as u64);
        self.region_words.saturating_sub(index_words).min(most)
    }

    /// Returns the most main buckets that leave the least data space.
    pub fn buckets_max(&self) -> u64 {
        self.buckets_beside(self.data_units_least()).max(self.buckets)
    }

    /// Returns the most main buckets that leave so many units of data space.
    pub fn buckets_beside(&self, data_units: u64) -> u64 {
        let lowest = self.data_first() as u64 + data_units;
        let lines = self.region_words.saturating_sub(lowest) / BUCKET_WORDS as u64;
        lines * self.main_per_spare() / (self.main_per_spare() + 1)
    }

    /// Returns the units of the data space that the index leaves: in a cache also those with which
    /// the main log holds the largest item, if it holds it at first.
    fn data_units_least(&self) -> u64 {
        let main_units = self.item_units_max + self.item_units_max / (LAP_SHARE - 1) + 1;
        let units = self.small_units() + main_units;
        if self.semantics == Semantics::Store || units > self.data_units() {
            return self.data_units_min;
        }
        self.data_units_min.max(units)
    }

    /// Returns the units of the largest item that can be stored, however far the index has grown:
    /// those that the main log still has when a lap has given up its share, or those of the heap of
    /// a store, whose last word is its own, without the words that it leaves to the index.
    pub fn room_units_min(&self) -> u64 {
        let end = self.data_end(self.buckets_max());
        if self.semantics == Semantics::Store {
            return end.saturating_sub(1).saturating_sub((self.heap_first() + BLOCK_UNITS_MIN - 1) as u64);
        }
        let main_units = end.saturating_sub(self.data_first() as u64 + self.small_units());
        main_units - main_units / LAP_SHARE
    }

    /// Returns the initial units of the data space.
    pub fn data_units(&self) -> u64 {
        self.data_end(self.buckets).saturating_sub(self.data_first() as u64)
    }

    /// Returns the version of the layout, which the width of the offsets decides.
    const fn version(&self) -> u64 {
        if self.offset_bits > OFFSET_BITS { LAYOUT_VERSION_WIDE } else { LAYOUT_VERSION }
    }

    /// Returns the words of the header that never change.
    pub fn constants(&self) -> [(Field, u64); 11] {
        let store = u64::from(self.semantics == Semantics::Store) << 63;
        [
            (Field::Magic, MAGIC),
            (Field::LayoutVersion, self.version()),
            (Field::Seed, self.seed),
            (Field::SecretLow, self.secret.words()[0]),
            (Field::SecretHigh, self.secret.words()[1]),
            (Field::PartitionNumber, self.number as u64 | u64::from(self.partition_bits) << 32),
            (Field::RegionWords, self.region_words),
            (Field::SmallUnits, self.small_units()),
            (Field::ItemUnitsMax, self.item_units_max),
            (Field::Shape, u64::from(self.offset_bits) | self.main_per_spare() << 8 | store),
            (Field::BucketsFirst, self.buckets),
        ]
    }

    /// Returns the units of the small log.
    pub fn small_units(&self) -> u64 {
        let units = self.data_units() * self.policy.small_percent / 100;
        if units == 0 {
            return 0;
        }
        units.max(SMALL_UNITS_MIN.min(self.data_units() / SMALL_SHARE_MAX))
    }
}

impl Partition {
    /// Zeroes the parts of a partition that formatting needs zero: the header, the state of the
    /// heap, and the index. The first word comes first, so that there is no image from then on.
    pub(crate) fn clear(&self) {
        let layout = &self.layout;
        let index = layout.data_end(layout.buckets) as usize..layout.region_words as usize;
        for word in (0..layout.data_first()).chain(index) {
            self.word(word).store(0, Ordering::Relaxed);
        }
    }

    /// Writes the header of an empty partition into zeroed memory.
    pub(crate) fn format(&self) {
        let layout = &self.layout;
        let gaps = layout.gaps(layout.limit_words);
        self.set(Field::SmallGap, gaps.small);
        self.set(Field::MainGap, gaps.main);
        let data_end = self.data_end(layout.buckets);
        let constants = layout.constants();
        for (field, value) in constants.into_iter().filter(|(field, _)| *field != Field::Magic) {
            self.set(field, value);
        }
        self.set(Field::Buckets, Buckets::new(layout.buckets).pack());
        self.set(Field::DataEnd, data_end);
        for spare in 0..layout.spares(layout.buckets) {
            self.free_spare(spare);
        }
        let first = layout.data_first() as u64;
        if self.is_store() {
            self.heap().format(layout.heap_first(), data_end as usize);
        } else {
            let small_units = layout.small_units();
            self.log(LogKind::Small).format(first, small_units - gaps.small);
            let main_first = first + small_units;
            self.log(LogKind::Main).format(main_first, data_end - main_first);
        }
        self.note_holes();
        let tails = self.tails();
        self.set(Field::ScanTail, tails);
        self.set(Field::Magic, MAGIC);
    }

    /// Returns the sum of both tails, which paces the scan.
    #[inline]
    pub(crate) fn tails(&self) -> u64 {
        let tail = |which| self.log(which).get(LogField::Tail);
        tail(LogKind::Small).wrapping_add(tail(LogKind::Main))
    }
}
