//! Counters of the engine, summed over partitions.

use micanite_memory::sync::Ordering;

use crate::partition::{Field, Partition};

/// Statistics of [`crate::Cache::stats`]. Counters only grow; levels describe the present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Level: items in the index, including expired ones that were not noticed yet.
    pub items_live: u64,
    /// Level: bytes of those items in the log, headers and padding included.
    pub item_bytes_live: u64,
    /// Counter: items ever inserted in a new place, without moves to the tail.
    pub items_appended: u64,
    /// Counter: values written over old ones in place, without an insertion.
    pub items_overwritten: u64,
    /// Counter: live items evicted at the head of a log.
    pub evicted_log: u64,
    /// Counter: live items evicted because their chain was full.
    pub evicted_bucket: u64,
    /// Counter: items removed because their expiry had passed.
    pub expired: u64,
    /// Counter: evicted items that were not requested since they were stored.
    pub evicted_unfetched: u64,
    /// Counter: expired items that were not requested since they were stored.
    pub expired_unfetched: u64,
    /// Counter: items moved to the tail because they were requested.
    pub reinserted: u64,
    /// Counter: items moved from the small log to main.
    pub promoted: u64,
    /// Counter: new items that found their ghost.
    pub ghosts_met: u64,
    /// Counter: writes refused because there was no space.
    pub out_of_memory: u64,
    /// Counter: bytes of items that a store has moved to make space.
    pub compacted_bytes: u64,
    /// Level: main buckets of the index.
    pub buckets: u64,
    /// Counter: buckets that were split as the index grew.
    pub buckets_split: u64,
    /// Level: spare buckets.
    pub spare_buckets: u64,
    /// Level: spare buckets that continue a main one.
    pub spare_buckets_used: u64,
    /// Level: bytes of the index, out of the memory of the cache.
    pub index_bytes: u64,
    /// Level: bytes of the memory for items, out of the memory of the cache.
    pub data_bytes: u64,
    /// Level: bytes that deleted and expired items still hold.
    pub early_bytes: u64,
    /// Level: the longest time, in seconds, that an item remained after its expiry, as seen by the
    /// sweep in its last round.
    pub expiry_lag_s: u64,
    /// Counter: optimistic reads that had to be repeated.
    pub read_retries: u64,
    /// Counter: buckets visited by the incremental scan.
    pub buckets_scanned: u64,
    /// Counter: dangling entries cleared by the incremental scan.
    pub dangling_cleared: u64,
}

impl Stats {
    /// Returns the number of items ever stored, in a new place or in the old one.
    pub fn items_stored(&self) -> u64 {
        self.items_appended + self.items_overwritten
    }
}

impl Partition {
    /// Adds this partition's statistics to `total`.
    pub fn add_stats(&self, total: &mut Stats) {
        total.items_live += self.get(Field::ItemsLive);
        total.item_bytes_live += self.get(Field::UnitsLive) * 8;
        total.items_appended += self.get(Field::ItemsAppended);
        total.items_overwritten += self.get(Field::ItemsOverwritten);
        total.evicted_log += self.get(Field::EvictedLog);
        total.evicted_bucket += self.get(Field::EvictedBucket);
        total.expired += self.get(Field::Expired);
        total.evicted_unfetched += self.get(Field::EvictedUnfetched);
        total.expired_unfetched += self.get(Field::ExpiredUnfetched);
        total.data_bytes += (self.get(Field::DataEnd) - self.layout.heap_first() as u64) * 8;
        total.reinserted += self.get(Field::Reinserted);
        total.promoted += self.get(Field::Promoted);
        total.ghosts_met += self.get(Field::GhostsMet);
        total.read_retries += self.read_retries.load(Ordering::Relaxed);
        total.buckets_scanned += self.get(Field::BucketsScanned);
        total.dangling_cleared += self.get(Field::DanglingCleared);
        total.buckets += self.buckets();
        total.buckets_split += self.get(Field::BucketsSplit);
        total.spare_buckets += self.layout.spares(self.buckets());
        total.spare_buckets_used += self.get(Field::SparesUsed);
        total.index_bytes += (self.layout.region_words - self.get(Field::DataEnd)) * 8;
        total.early_bytes += self.get(Field::UnitsLeftEarly) * 8;
        total.out_of_memory += self.get(Field::OutOfMemory);
        total.compacted_bytes += self.compaction.moved_units() * 8;
        let lag = self.get(Field::ExpiryLag).max(self.get(Field::ExpiryLagLast));
        total.expiry_lag_s = total.expiry_lag_s.max(lag);
    }
}
