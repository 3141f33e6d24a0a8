//! Growth of the index with its items (linear hashing, Litwin, VLDB 1980): each step splits one
//! bucket, and takes the new bucket's line from the upper end of the data space.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::Buckets;
use crate::limits::{
    BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, COMPACT_INDEX_UNITS, COMPACT_ITEM_UNITS, GROWTH_UNITS,
    INDEX_LOAD_SIXTEENTHS,
};
use crate::log::{LAP_SHARE, LogKind};
use crate::region::{Field, LogField, copy_budget};
use crate::writer::Writer;

/// Items of a bucket, times 16, above which the index grows whatever its spare buckets are.
pub(crate) const LOAD_ITEMS_SIXTEENTHS: u64 = BUCKET_ENTRIES as u64 * INDEX_LOAD_SIXTEENTHS;
/// Spare buckets are scarce when there is less than one free for this many main buckets. Chains of
/// a cache keep theirs after the items have left, until the next visit; those of a store do not.
const SPARES_LEFT_CACHE: u64 = 12;
const SPARES_LEFT_STORE: u64 = 100;
/// Buckets that an insertion splits at once when it finds no spare one.
const SPLITS_MAX: usize = 16;
/// Share of the items that full buckets evict before the index waits no longer for the end of a lap. As many
/// leave when a log gives up its end, and the others leave in another order.
const EVICTED_SHARE: u64 = LAP_SHARE;
/// The most splits of one insertion into a cache with room, and their share of the buckets.
const STRIDE_MAX: u64 = 16;
const STRIDE_SHARE: u64 = 128;
/// Units that the logs of a cache append at most, after its index has found no space, before it looks again;
/// and their share of the data space.
const RETRY_UNITS_MAX: u64 = 1024;
const RETRY_SHARE: u64 = 256;
/// Splits between the stages of prefetching.
const AHEAD: u64 = 8;
/// Words of an item, behind the first, in which a short key ends.
const KEY_WORDS: usize = 2;

impl Writer<'_> {
    /// Splits buckets if the index is full enough, or spare buckets become scarce, and there is
    /// space for other lines. Once the logs are full such space is rare, so some is kept in
    /// reserve.
    #[inline]
    pub fn grow_if_full(&self) {
        if self.is_due_to_grow() {
            self.grow_or_clean();
        }
    }

    /// Grows the index, or cleans it. Splits move entries alone: hints stay facts.
    #[cold]
    pub fn grow_beside_hints(&self) {
        let p = self.partition;
        let evicted = p.get(Field::EvictedBucket);
        let cleans = self.has_sparse_index();
        self.grow_or_clean();
        if cleans {
            self.keeps_hints.set(false);
        }
        debug_assert_eq!(p.get(Field::EvictedBucket), evicted, "a split evicts nothing");
    }

    /// Returns whether buckets are to be split. A cache that had no space lately waits until its logs have
    /// moved.
    #[inline]
    pub fn is_due_to_grow(&self) -> bool {
        let p = self.partition;
        let full = p.get(Field::ItemsLive) * 16 > p.buckets() * LOAD_ITEMS_SIXTEENTHS;
        (full || self.is_short_of_spares()) && p.tails() >= p.limit.growth_retry.load(Relaxed)
    }

    /// Splits some buckets, or frees spare ones where the items are few for the index.
    #[cold]
    fn grow_or_clean(&self) {
        if !self.partition.is_store() && self.has_sparse_index() {
            self.sweep_at_cost();
            return;
        }
        if self.partition.is_store() {
            // Near the end of a turn it takes only free space, or waits.
            let compacts = copy_budget::allows(COMPACT_INDEX_UNITS as usize * 8);
            self.grow(if compacts { COMPACT_INDEX_UNITS } else { 0 });
        } else {
            self.grow_in_stride();
        }
    }

    /// Splits some buckets of a cache: the lines of the next ones are near, and the insertions that follow
    /// need none.
    fn grow_in_stride(&self) {
        let p = self.partition;
        for _ in 0..(p.buckets() / STRIDE_SHARE).clamp(1, STRIDE_MAX) {
            let buckets = p.buckets();
            self.grow(0);
            if p.buckets() == buckets {
                let wait_units = (p.data_units() / RETRY_SHARE).min(RETRY_UNITS_MAX);
                p.limit.growth_retry.store(p.tails() + wait_units, Relaxed);
                return;
            }
        }
    }

    /// Returns whether spare buckets are scarce.
    #[inline]
    fn is_short_of_spares(&self) -> bool {
        let p = self.partition;
        let buckets = p.buckets();
        let left = p.layout.spares(buckets).saturating_sub(p.get(Field::SparesUsed));
        left * self.spares_left_share() < buckets
    }

    /// Returns for how many main buckets a spare one has to be free.
    #[inline]
    pub(super) fn spares_left_share(&self) -> u64 {
        if self.partition.is_store() { SPARES_LEFT_STORE } else { SPARES_LEFT_CACHE }
    }

    /// Splits buckets if a new entry in this one would need a spare bucket and none is free: splits
    /// add spare buckets, and free those in use. Afterwards the key may belong to another bucket.
    #[inline]
    pub fn grow_if_short_of_spares(&self, bucket: Bucket<'_>) {
        if self.partition.get(Field::SpareFree) == 0 {
            self.grow_for_spares(bucket);
        }
    }

    #[cold]
    fn grow_for_spares(&self, bucket: Bucket<'_>) {
        let p = self.partition;
        // A chain of the longest length takes no spare bucket.
        let is_long = p.chain(bucket).count() == CHAIN_BUCKETS_MAX;
        if is_long || !self.is_full(bucket) {
            return;
        }
        let mut compact_units = COMPACT_ITEM_UNITS;
        for _ in 0..SPLITS_MAX {
            let buckets = p.buckets();
            self.grow(std::mem::take(&mut compact_units));
            if p.get(Field::SpareFree) != 0 || p.buckets() == buckets {
                return;
            }
        }
    }

    /// Returns whether all entries of a chain lead to items.
    pub fn is_full(&self, bucket: Bucket<'_>) -> bool {
        let p = self.partition;
        let mut entries = p.chain(bucket).flat_map(Bucket::entries);
        entries.all(|entry| p.place(Entry(entry)).is_some())
    }

    /// Splits a bucket. Items of a store may lie where its line is to be: up to `compact_units` may
    /// move.
    #[cold]
    pub fn grow(&self, compact_units: u64) {
        let p = self.partition;
        let buckets = p.all_buckets();
        let number = buckets.count();
        if number >= p.limit.buckets_max() || !p.may_add_bucket(number) {
            return;
        }
        if !self.lower_data_end(p.data_end(number + 1), compact_units) {
            return self.note_shortage();
        }
        p.limit.evicted_bucket.store(p.get(Field::EvictedBucket), Relaxed);
        self.prefetch_split(buckets);
        self.split(buckets);
    }

    /// Lowers the end of the data space.
    fn lower_data_end(&self, data_end: u64, compact_units: u64) -> bool {
        let p = self.partition;
        let now = p.get(Field::DataEnd);
        if now <= data_end {
            return true;
        }
        let made = if p.is_store() {
            // A store that is about to shrink lacks the units that the index takes.
            if self.is_over_limit(now - data_end) {
                return false;
            }
            let heap = p.heap();
            heap.lower_end(data_end as usize)
                || self.compact_for_index(heap.end() as u64 - data_end, compact_units)
                    && heap.lower_end(data_end as usize)
        } else {
            p.log(LogKind::Main).lower_end(data_end)
        };
        if made {
            p.set(Field::DataEnd, data_end);
            p.limit.lower_heap_units_max(now - data_end);
        }
        made
    }

    /// Has the main log make room if full buckets have evicted items since the last split: its laps may be
    /// long, or come to an end no more, because the items do not reach it.
    fn note_shortage(&self) {
        let limit = &self.partition.limit;
        let evicted = self.partition.get(Field::EvictedBucket);
        let before = limit.evicted_bucket.load(Relaxed).min(evicted);
        limit.evicted_bucket.store(before, Relaxed);
        if !self.partition.is_store()
            && evicted - before > self.partition.get(Field::ItemsLive) / EVICTED_SHARE
        {
            limit.index_waits.store(1, Relaxed);
        }
    }

    /// Lets the main log leave the end of its space, into which the index is to grow, as for a lower limit of
    /// the memory: it evicts its oldest items, and moves others to its beginning. Each call does a bounded
    /// part. Items may move, and entries.
    #[cold]
    pub fn make_room_for_index(&self) {
        let p = self.partition;
        let log = p.log(LogKind::Main);
        let first = log.get(LogField::First);
        let units = log.get(LogField::Limit).min(p.data_end(p.buckets() + 1) - first);
        let mut left_units = GROWTH_UNITS;
        if self.shorten_log(LogKind::Main, units, first + units, &mut left_units) {
            p.limit.index_waits.store(0, Relaxed);
        }
    }

    /// Prefetches what the splits after this one will need: main buckets first, the spare bucket behind each
    /// when it is there, then the keys of both, if the entries alone do not tell where they belong. A bucket
    /// that is due to be split has twice the items of one that was, so most have a spare one.
    fn prefetch_split(&self, buckets: Buckets) {
        let p = self.partition;
        let from = buckets.split_from();
        let ahead = |splits: u64| p.main_bucket((from + splits * AHEAD).min(p.buckets() - 1));
        ahead(3).prefetch();
        if let Some(spare) = p.next_bucket(ahead(2)) {
            spare.prefetch();
        }
        if Entry(0).is_split_off(buckets.grown(), p.offset_mask).is_some() {
            return;
        }
        for bucket in p.chain(ahead(1)).take(2) {
            for place in bucket.entries().into_iter().filter_map(|entry| p.place(Entry(entry))) {
                p.region.prefetch(place.position);
                p.region.prefetch(place.position + KEY_WORDS);
            }
        }
    }
}
