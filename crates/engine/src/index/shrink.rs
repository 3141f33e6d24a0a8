//! The index of a store gives lines back when there are few items for it: its last bucket is merged
//! into the one that it was split from, and the line becomes space for items.
//!
//! The line is overwritten then, so nobody may read the bucket meanwhile. Workers are kept out of
//! the partition ([`crate::access::RouteWord::exclude`]). Walks and copies, which any thread makes,
//! note a number before they read a bucket and believe what they read if it is the same afterwards;
//! then they begin anew with the partition, as items move to buckets that were visited already.
//! Memory that a program in the kernel reads keeps its lines: nobody could keep that program out.

use micanite_memory::sync::Ordering::{Acquire, Relaxed, Release};
use micanite_memory::sync::fence;

use crate::cache::Cache;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::growth::LOAD_ITEMS_SIXTEENTHS;
use crate::index::hash::Buckets;
use crate::limits::{
    BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX, INDEX_SPARSE_SHARE, SHRINK_BUCKETS_MAX,
};
use crate::partition::{Field, Partition};
use crate::writer::Writer;

impl Partition {
    /// Whether a store holds few items for its index.
    fn has_sparse_index(&self) -> bool {
        let buckets = self.buckets();
        let items = self.get(Field::ItemsLive);
        let few = items * 16 * INDEX_SPARSE_SHARE < buckets * LOAD_ITEMS_SIXTEENTHS;
        self.is_store() && few && buckets > self.layout.buckets
    }

    /// A number that is another one after lines of the index were given back, and odd meanwhile.
    #[inline]
    pub fn shrinks(&self) -> u64 {
        self.shrinks.load(Acquire)
    }

    /// Whether everything that was read of a bucket since both numbers were noted belongs together.
    #[inline]
    pub fn bucket_is_still(&self, bucket: Bucket<'_>, version: u64, shrinks: u64) -> bool {
        bucket.version_is_still(version) && self.shrinks.load(Relaxed) == shrinks
    }
}

impl Cache {
    /// Gives lines of a sparse index back: a bounded number, with nobody else in the partition. Not
    /// from within a batch; `idle` is called while it waits.
    pub(crate) fn shrink_index(&self, partition: usize, now_s: u32, mut idle: impl FnMut()) {
        let of = &self.partitions[partition];
        if !of.has_sparse_index() || self.config().maps.is_some() {
            return;
        }
        let _changing = self.changing.wait(&mut idle);
        let shrink = || of.writer(now_s).shrink_index();
        of.route.exclude(&self.epochs, idle, shrink);
    }
}

impl Writer<'_> {
    /// Merges buckets while there are many for the items. For a caller that keeps all others out.
    pub fn shrink_index(&self) {
        let p = self.partition;
        let shrinks = p.shrinks.load(Relaxed);
        p.shrinks.store(shrinks + 1, Relaxed);
        fence(Release);
        let before = p.buckets();
        while p.has_sparse_index() && before - p.buckets() < SHRINK_BUCKETS_MAX {
            if !self.merge_last() {
                break;
            }
        }
        p.shrinks.store(shrinks + 2, Release);
    }

    /// Merges the last bucket into the one that it was split from. False if they make no chain
    /// together, or spare buckets are wanting.
    pub fn merge_last(&self) -> bool {
        let p = self.partition;
        let count = p.buckets();
        let Some(from) = p.all_buckets().last_split_from() else {
            return false;
        };
        let (source, last) = (p.main_bucket(from), p.main_bucket(count - 1));
        let spares = p.layout.spares(count);
        let given_back = spares - p.layout.spares(count - 1);
        let Some(wanted) = self.spares_to_merge(source, last) else {
            return false;
        };
        // One more, for what has to move out of the line that is given back.
        if p.get(Field::SparesUsed) + wanted + 2 * given_back > spares
            || given_back == 1 && !self.vacate_spare(spares - 1)
        {
            return false;
        }
        let mut unused = last.next_spare();
        source.write(|| self.merge(source, last));
        while let Some(number) = unused {
            unused = p.spare_bucket(number).next_spare();
            p.free_spare(number);
            p.subtract(Field::SparesUsed, 1);
        }
        fence(Release);
        let data_end = p.layout.data_end(count - 1);
        p.set(Field::DataEnd, data_end);
        p.heap().raise_end(data_end as usize);
        p.add(Field::Moves, 1);
        true
    }

    /// Spare buckets that the chain of one bucket needs to take the entries of another; `None` if
    /// it would be too long, or have too many entries of one tag.
    fn spares_to_merge(&self, source: Bucket<'_>, last: Bucket<'_>) -> Option<u64> {
        let p = self.partition;
        let entries = |main| p.chain(main).flat_map(Bucket::entries).map(Entry);
        let filled = |main| entries(main).filter(|entry| !entry.is_empty());
        for moved in filled(last) {
            let of_tag = |entry: &Entry| entry.has_tag(moved.tag());
            let together = filled(source).chain(filled(last)).filter(of_tag).count();
            if together > CHAIN_TAG_ITEMS_MAX {
                return None;
            }
        }
        let buckets = (filled(source).count() + filled(last).count()).div_ceil(BUCKET_ENTRIES);
        let more = buckets.saturating_sub(p.chain(source).count());
        (buckets <= CHAIN_BUCKETS_MAX).then_some(more as u64)
    }

    /// Copies all entries of the last bucket into the chain of the one it was split from, which has
    /// room for them, and lets the index end before it.
    fn merge(&self, source: Bucket<'_>, last: Bucket<'_>) {
        let p = self.partition;
        // In this order: a process that is killed between them leaves entries twice.
        for entry in p.chain(last).flat_map(Bucket::entries) {
            if entry != 0
                && let Some(word) = self.free_slot(source)
            {
                p.word(word).store(entry, Release);
            }
        }
        // A round of the sweep may have passed the bucket that the items are in now.
        p.set(Field::ScanBucket, 0);
        fence(Release);
        let buckets = Buckets::of(p.layout.buckets, p.buckets() - 1);
        p.set(Field::Buckets, buckets.pack());
    }

    /// Takes a spare bucket out of use: from the list of free ones, or by moving what it holds to
    /// another one. False if it is in no chain that its items lead to.
    fn vacate_spare(&self, number: u64) -> bool {
        let p = self.partition;
        if p.unlink_free_spare(number) {
            return true;
        }
        let spare = p.spare_bucket(number);
        let mut places = spare.entries().into_iter().map(Entry);
        let Some(place) = places.find_map(|entry| self.place_of_item(entry)) else {
            return false;
        };
        let main = p.bucket(self.hash_at(place.position));
        let mut chain = p.chain(main);
        let Some(before) = chain.find(|bucket| bucket.next_spare() == Some(number)) else {
            return false;
        };
        let Some(other) = p.take_spare() else {
            return false;
        };
        let target = p.spare_bucket(other);
        for (slot, entry) in spare.entries().into_iter().enumerate() {
            p.word(target.slot_word(slot)).store(entry, Relaxed);
        }
        target.set_next_spare(spare.next_spare());
        main.write(|| before.set_next_spare(Some(other)));
        p.subtract(Field::SparesUsed, 1);
        p.add(Field::Moves, 1);
        true
    }
}
