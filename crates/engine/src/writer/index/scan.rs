//! The incremental scan of the index. It clears dangling entries before offsets can repeat (MICA
//! 4.3.2), and entries of items that have expired or were invalidated.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::{SWEEP_BUCKET_BYTES, SWEEP_BUCKETS};
use crate::region::{Field, copy_budget};
use crate::writer::{Found, Writer};

/// Buckets whose lines and items are prefetched together.
const SWEEP_STEP: u64 = 16;
/// Steps of one call that frees spare buckets: a quarter of the least turn.
const SPARES_STEPS_MAX: usize = 16;

impl Writer<'_> {
    /// Scans as many buckets as the advance of the tails demands, so that every bucket is visited
    /// before an entry in it could look valid again.
    #[inline]
    pub fn scan_as_the_tail_advances(&self) {
        let p = self.partition;
        while self.is_due_to_scan() {
            p.add(Field::ScanTail, p.scan_interval_units);
            copy_budget::spend(SWEEP_BUCKET_BYTES);
            self.sweep_chain(p.main_bucket(self.next_bucket())); // its rounds count as rounds of the sweep
        }
    }

    /// Returns whether the scan has to visit a bucket.
    #[inline]
    pub fn is_due_to_scan(&self) -> bool {
        let p = self.partition;
        p.tails().wrapping_sub(p.get(Field::ScanTail)) >= p.scan_interval_units
    }

    /// Visits a bounded number of buckets, and removes expired and invalidated items.
    pub fn sweep(&self) {
        let p = self.partition;
        if p.get(Field::Expiring) == 0 {
            return;
        }
        let buckets = p.buckets().min(SWEEP_BUCKETS as u64);
        for _ in 0..buckets.div_ceil(SWEEP_STEP) {
            self.sweep_step();
        }
    }

    /// Frees spare buckets of a cache with a sparse index that cannot shrink, because chains lead to items
    /// that have left. A bounded number.
    pub fn free_spares_of_sparse_index(&self) {
        for _ in 0..SPARES_STEPS_MAX {
            if self.partition.is_store() || !self.lacks_spares_to_shrink() || !self.sweep_at_cost() {
                return;
            }
        }
    }

    /// Visits some buckets, and charges the turn for it. Returns false if that has no more to spend.
    pub(super) fn sweep_at_cost(&self) -> bool {
        let bytes = SWEEP_STEP as usize * SWEEP_BUCKET_BYTES;
        let allows = copy_budget::allows(bytes);
        if allows {
            copy_budget::spend(bytes);
            self.sweep_step();
        }
        allows
    }

    /// Sweeps for an insertion into a store that has no space. The turn is charged for the work,
    /// and limits it. After a sweep that found nothing there is no other before the next second, or the next
    /// flush: upkeep continues meanwhile. Returns whether an item was removed.
    #[cold]
    pub fn sweep_for_space(&self) -> bool {
        let p = self.partition;
        let bytes = SWEEP_BUCKETS.min(p.buckets() as usize) * SWEEP_BUCKET_BYTES;
        let failed_s = p.sweep_failed_s.load(Relaxed);
        if p.get(Field::Expiring) == 0 || failed_s == self.now_s || !copy_budget::allows(bytes) {
            return false;
        }
        copy_budget::spend(bytes);
        let free = p.heap().units_free();
        self.sweep();
        let found = p.heap().units_free() != free;
        if !found {
            p.sweep_failed_s.store(self.now_s, Relaxed);
        }
        found
    }

    /// Visits some buckets, at most to the end of the round. In a cache whose index is sparse, chains lose
    /// what leads to no item, ghosts too.
    pub fn sweep_step(&self) {
        let p = self.partition;
        let drops = !p.is_store() && self.has_sparse_index();
        // The index may have shrunk.
        let first = p.get(Field::ScanBucket).min(p.buckets() - 1);
        let step = SWEEP_STEP.min(p.buckets() - first);
        for number in first..first + step {
            p.main_bucket(number).prefetch();
        }
        for number in first..first + step {
            self.prefetch_bucket_items(p.main_bucket(number));
        }
        for _ in 0..step {
            let main = p.main_bucket(self.next_bucket());
            if drops && main.next_spare().is_some() && self.has_dangling(main) {
                main.write(|| self.drop_dangling(main));
            }
            self.sweep_chain(main);
        }
    }

    fn next_bucket(&self) -> u64 {
        let p = self.partition;
        let number = p.get(Field::ScanBucket);
        p.add(Field::BucketsScanned, 1);
        if number + 1 >= p.buckets() {
            p.set(Field::ScanBucket, 0);
            p.add(Field::SweepRounds, 1);
            p.set(Field::ExpiryLagLast, p.get(Field::ExpiryLag));
            p.set(Field::ExpiryLag, 0);
        } else {
            p.set(Field::ScanBucket, number + 1);
        }
        number.min(p.buckets() - 1)
    }

    fn prefetch_bucket_items(&self, bucket: Bucket<'_>) {
        let p = self.partition;
        for entry in bucket.entries().map(Entry) {
            if let Some(place) = p.place(entry) {
                p.region.prefetch(place.position);
            }
        }
    }

    /// Clears the dangling entries of a chain, those of ghosts only with `ghosts`. The offset of a ghost does
    /// not repeat before the scan comes again: it is at most the data space behind the tail, which is at most
    /// half of the width, and the tails advance by half of the rest at most meanwhile.
    pub(super) fn clear_dangling(&self, main: Bucket<'_>, ghosts: bool) {
        let p = self.partition;
        if p.is_store() {
            return;
        }
        let is_dangling = |entry: Entry| {
            !entry.is_empty() && p.place(entry).is_none() && (ghosts || self.ghost_age(entry).is_none())
        };
        for word in self.words_backwards(main) {
            if is_dangling(Entry(p.word(word).load(Relaxed))) {
                main.write(|| self.clear_slot(main, word));
                p.add(Field::DanglingCleared, 1);
            }
        }
    }

    /// Removes expired and invalidated items from a chain.
    pub fn sweep_chain(&self, main: Bucket<'_>) {
        self.clear_dangling(main, false);
        let p = self.partition;
        let has_ended = |found: &Found| found.expiry.has_passed(self.now_s) || self.is_invalid(found);
        for word in self.words_backwards(main) {
            let entry = Entry(p.word(word).load(Relaxed));
            let Some(place) = p.place_of_item(entry) else {
                continue;
            };
            let found = self.found_at(word, place);
            if !has_ended(&found) || p.is_store() && !p.is_of_entry(main, entry, &place) {
                continue;
            }
            if found.expiry.has_passed(self.now_s) {
                let lag_s = u64::from(self.now_s - found.expiry.0);
                p.set(Field::ExpiryLag, p.get(Field::ExpiryLag).max(lag_s));
                p.add(Field::Expired, 1);
                if !found.header.is_fetched() {
                    p.add(Field::ExpiredUnfetched, 1);
                }
            }
            self.kill_chunk(place.position);
            main.write(|| {
                self.clear_slot(main, word);
                self.retire(&place, true);
            });
        }
    }
}
