//! The incremental scan of the index: clears dangling entries before offsets can repeat
//! (MICA 4.3.2), and entries of items whose expiry has passed.

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::SWEEP_BUCKETS;
use crate::partition::Field;
use crate::writer::Writer;

/// Buckets whose lines and items are loaded ahead, together.
const SWEEP_STEP: usize = 16;

impl Writer<'_> {
    /// Scans as many buckets as the advance of the tail demands, so that every bucket is visited
    /// before an entry in it could look valid again.
    #[inline]
    pub fn scan_as_the_tail_advances(&self) {
        let p = self.partition;
        while p.get(Field::Tail) - p.get(Field::ScanTail) >= p.scan_interval_units {
            p.add(Field::ScanTail, p.scan_interval_units);
            let number = self.next_bucket();
            self.clear_dangling(Bucket::at(&p.index, number));
        }
    }

    /// Visits a bounded number of buckets and removes what has expired.
    pub fn sweep(&self, now_s: u32) {
        let p = self.partition;
        if p.get(Field::Expiring) == 0 {
            return;
        }
        let buckets = (p.layout.buckets as usize).min(SWEEP_BUCKETS);
        for _ in 0..buckets.div_ceil(SWEEP_STEP) {
            let numbers: [usize; SWEEP_STEP] = std::array::from_fn(|_| self.next_bucket());
            let buckets = numbers.map(|number| Bucket::at(&p.index, number));
            buckets.iter().for_each(|bucket| bucket.prefetch());
            buckets
                .iter()
                .for_each(|bucket| self.prefetch_bucket_items(*bucket));
            buckets
                .iter()
                .for_each(|bucket| self.sweep_bucket(*bucket, now_s));
        }
    }

    fn next_bucket(&self) -> usize {
        let p = self.partition;
        let number = p.get(Field::ScanBucket);
        p.set(Field::ScanBucket, (number + 1) % p.layout.buckets);
        p.add(Field::BucketsScanned, 1);
        number as usize
    }

    fn prefetch_bucket_items(&self, bucket: Bucket<'_>) {
        let p = self.partition;
        for entry in bucket.entries().map(Entry) {
            if let Some(offset) = p.offset_live(entry) {
                p.log.prefetch(self.at(offset));
            }
        }
    }

    fn clear_dangling(&self, bucket: Bucket<'_>) {
        let p = self.partition;
        let entries = bucket.entries().map(Entry);
        for (slot, entry) in entries.into_iter().enumerate() {
            if !entry.is_empty() && p.offset_live(entry).is_none() {
                bucket.write(|| bucket.set(slot, Entry::EMPTY));
                p.add(Field::DanglingCleared, 1);
            }
        }
    }

    fn sweep_bucket(&self, bucket: Bucket<'_>, now_s: u32) {
        self.clear_dangling(bucket);
        for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
            if let Some(found) = self.item(slot, entry)
                && found.expiry.has_passed(now_s)
            {
                bucket.write(|| {
                    bucket.set(slot, Entry::EMPTY);
                    self.retire(found.offset);
                });
                self.partition.add(Field::Expired, 1);
            }
        }
    }
}
