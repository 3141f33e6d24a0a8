//! Shrinking of an index that holds few items for its size. It merges the last bucket into
//! the one that it was split from, and the line becomes space for items.
//!
//! The line is overwritten then, so no thread may read the bucket meanwhile. Workers are kept out
//! of the partition ([`crate::access::RouteWord::exclude`]), but only once a merge is known to be
//! possible. Any thread may walk or copy, so walks and copies keep the index from shrinking while
//! they are in the partition ([`Walkers`](crate::index::walkers::Walkers)). Memory that a program
//! in the kernel or another process reads keeps its lines: those cannot be kept out.

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::Buckets;
use crate::limits::{
    BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX, INDEX_SPARSE_SHARE, SHRINK_BUCKETS_MAX,
    UNSWEPT_SHARE,
};
use crate::log::LogKind;
use crate::partition::limit::Gap;
use crate::region::{Field, LogField, copy_budget};
use crate::writer::Writer;
use crate::writer::index::growth::LOAD_ITEMS_SIXTEENTHS;

/// A merge that is possible.
struct Merge<'a> {
    source: Bucket<'a>,
    last: Bucket<'a>,
    /// The spare bucket whose line is freed as well.
    spare: Option<u64>,
    /// Least number of spare buckets that are free afterwards.
    spares_left: u64,
}

/// A reason for which there is no merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoMerge {
    /// The index is not sparse, follows another limit, or has buckets whose entries do not fit one chain.
    NotNow,
    /// Spare buckets are missing, or one that has to go is in use and no item leads to it.
    NoSpare,
}

/// The chain of a spare bucket, and the bucket before it.
struct Link<'a> {
    main: Bucket<'a>,
    before: Bucket<'a>,
}

impl Writer<'_> {
    /// Returns whether the partition holds few items for its index. The index has at least the buckets of a
    /// fresh one with an item: one without a spare bucket grows.
    pub(super) fn has_sparse_index(&self) -> bool {
        let p = self.partition;
        let buckets = p.buckets();
        let least = p.layout.buckets.max(p.layout.main_per_spare() + 1);
        let items = p.get(Field::ItemsLive);
        let is_sparse = items * 16 * INDEX_SPARSE_SHARE < buckets * LOAD_ITEMS_SIXTEENTHS;
        buckets > least && is_sparse && (!p.is_store() || self.is_swept())
    }

    /// Returns whether a flush has left little of a store to the sweep: flushed items have to leave before
    /// others move together.
    fn is_swept(&self) -> bool {
        let heap = self.partition.heap();
        let used = heap.units() - heap.units_free();
        let unswept = used.saturating_sub(self.partition.get(Field::UnitsLive) as usize);
        unswept * UNSWEPT_SHARE <= heap.units()
    }

    /// Returns whether the index would shrink if no other thread were in the partition.
    pub fn can_shrink_index(&self) -> bool {
        let p = self.partition;
        p.walkers.are_none() && self.next_merge().is_ok()
    }

    /// Merges a bounded number of buckets while there are many for the items. Returns whether it
    /// reached that number. The caller keeps all others out.
    pub fn shrink_index(&self) -> bool {
        let merge = |_| self.next_merge().is_ok_and(|merge| self.merge(&merge));
        (0..SHRINK_BUCKETS_MAX).all(merge)
    }

    /// Returns the next merge, if the index should shrink, and would not grow again at once.
    fn next_merge(&self) -> Result<Merge<'_>, NoMerge> {
        let p = self.partition;
        // Both would move the end of the main log.
        if !self.has_sparse_index() || !p.is_store() && !p.follows_limit() {
            return Err(NoMerge::NotNow);
        }
        let merge = self.plan_merge()?;
        let is_enough = merge.spares_left * self.spares_left_share() >= p.buckets();
        is_enough.then_some(merge).ok_or(NoMerge::NoSpare)
    }

    /// Returns whether a sparse index cannot shrink for want of spare buckets.
    pub(super) fn lacks_spares_to_shrink(&self) -> bool {
        self.next_merge().is_err_and(|reason| reason == NoMerge::NoSpare)
    }

    /// Returns the merge of the last bucket into the one that it was split from. Removes expired and
    /// invalidated items from both chains, and ghosts: a round of the sweep may have visited one and not
    /// the other.
    fn plan_merge(&self) -> Result<Merge<'_>, NoMerge> {
        let p = self.partition;
        let count = p.buckets();
        let from = p.all_buckets().last_split_from().ok_or(NoMerge::NotNow)?;
        let (source, last) = (p.main_bucket(from), p.main_bucket(count - 1));
        for main in [source, last] {
            self.clear_dangling(main, true);
            self.sweep_chain(main);
        }
        let spares = p.layout.spares(count - 1);
        let spare = (spares < p.layout.spares(count)).then_some(spares);
        // A spare bucket in use moves to another one, so one less is free in either case.
        let more = self.spares_to_merge(source, last).ok_or(NoMerge::NotNow)?;
        let spares_left = spares.checked_sub(p.get(Field::SparesUsed) + more).ok_or(NoMerge::NoSpare)?;
        let can_go = |number| p.is_free_spare(number) || self.link_to_spare(number).is_some();
        spare.is_none_or(can_go).then_some(Merge { source, last, spare, spares_left }).ok_or(NoMerge::NoSpare)
    }

    /// Merges the last bucket, if that is possible: for tests.
    #[cfg(all(test, not(miri)))]
    pub fn merge_last(&self) -> bool {
        self.plan_merge().is_ok_and(|merge| self.merge(&merge))
    }

    /// Merges the last bucket. Returns false, and changes nothing, if the list of free spare
    /// buckets does not match the counters, or a file system has no space.
    fn merge(&self, merge: &Merge<'_>) -> bool {
        let p = self.partition;
        let count = p.buckets();
        copy_budget::spend(MERGE_BYTES);
        let data_end = p.data_end(count - 1);
        // A part of the gap comes before the freed lines.
        if !p.commit(p.get(Field::DataEnd) * 8, data_end * 8) {
            return false;
        }
        if merge.spare.is_some_and(|number| !self.vacate_spare(number)) {
            return false;
        }
        let (source, last) = (merge.source, merge.last);
        let mut unused = last.next_spare();
        if !source.write(|| self.copy_entries(source, last)) {
            if let Some(number) = merge.spare {
                p.free_spare(number);
            }
            return false;
        }
        while let Some(number) = unused {
            unused = p.spare_bucket(number).next_spare();
            p.free_spare(number);
            p.subtract(Field::SparesUsed, 1);
        }
        fence(Release);
        p.set(Field::DataEnd, data_end);
        p.shrink_hole(Gap::Main);
        if p.is_store() {
            p.heap().raise_end(data_end as usize);
        } else {
            // A lap that goes on there has passed what was left of the lap before.
            let log = p.log(LogKind::Main);
            log.set(LogField::Limit, data_end - log.get(LogField::First));
            p.limit.index_waits.store(0, Relaxed);
        }
        p.add(Field::Moves, 1);
        true
    }

    /// Returns the spare buckets that the chain of one bucket needs to take the entries of another;
    /// `None` if it would be too long, or have too many entries of one tag.
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

    /// Copies all entries of the last bucket into the chain of the one it was split from, and ends
    /// the index before it. Returns false, and changes nothing, if that chain has no space.
    fn copy_entries(&self, source: Bucket<'_>, last: Bucket<'_>) -> bool {
        let p = self.partition;
        let of_last = || p.chain(last).flat_map(Bucket::entries).filter(|&entry| entry != 0);
        // The copies come first: a process that is killed between the stores leaves entries twice.
        let all_moved = of_last().all(|entry| {
            let slot = self.free_slot(source);
            slot.is_some_and(|word| {
                p.word(word).store(entry, Release);
                true
            })
        });
        if !all_moved {
            for word in self.words_backwards(source) {
                if of_last().any(|entry| entry == p.word(word).load(Relaxed)) {
                    p.word(word).store(0, Release);
                }
            }
            self.close_gaps(source);
            return false;
        }
        // An image with a scan beyond its last bucket would be refused.
        let last = p.buckets() - 2;
        if p.get(Field::ScanBucket) > last {
            p.set(Field::ScanBucket, last);
        }
        fence(Release);
        let buckets = Buckets::of(p.layout.buckets, p.buckets() - 1);
        p.set(Field::Buckets, buckets.pack());
        true
    }

    /// Returns the link to a spare bucket in use. `None` if it is in no chain that its items lead
    /// to.
    fn link_to_spare(&self, number: u64) -> Option<Link<'_>> {
        let p = self.partition;
        let mut places = p.spare_bucket(number).entries().into_iter().map(Entry);
        let place = places.find_map(|entry| p.place_of_item(entry))?;
        let main = p.bucket(p.hash_at(place.position));
        let mut chain = p.chain(main);
        let before = chain.find(|bucket| bucket.next_spare() == Some(number))?;
        Some(Link { main, before })
    }

    /// Takes a spare bucket out of use: from the list of free ones, or by moving its contents to
    /// another one. Returns false if neither is possible.
    fn vacate_spare(&self, number: u64) -> bool {
        let p = self.partition;
        if p.unlink_free_spare(number) {
            return true;
        }
        let Some(Link { main, before }) = self.link_to_spare(number) else {
            return false;
        };
        let Some(other) = p.allocate_spare() else {
            return false;
        };
        let (spare, target) = (p.spare_bucket(number), p.spare_bucket(other));
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

/// Bytes charged to the turn for a merge: two chains lie far apart.
const MERGE_BYTES: usize = 512;
