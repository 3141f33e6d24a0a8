//! Counters of the engine, summed over partitions.

use micanite_memory::sync::Ordering;

use crate::partition::Partition;
use crate::region::Field;

/// Statistics of [`crate::Cache::stats`]. Counters only grow; levels describe the present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Level: items in the index, including expired ones that were not noticed yet.
    pub items_live: u64,
    /// Level: bytes of those items in the log, headers and padding included.
    pub item_bytes_live: u64,
    /// Counter: items ever inserted in a new place, without moves to the tail.
    pub items_inserted: u64,
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
    /// Level: invalidated namespaces of which not all items have been removed, in the partition with most.
    pub namespaces_invalid: u64,
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
        self.items_inserted + self.items_overwritten
    }

    /// Adds the statistics of a partition.
    pub(crate) fn add(&mut self, p: &Partition) {
        self.items_live += p.get(Field::ItemsLive);
        self.item_bytes_live += p.get(Field::UnitsLive) * 8;
        self.items_inserted += p.get(Field::ItemsInserted);
        self.items_overwritten += p.get(Field::ItemsOverwritten);
        self.evicted_log += p.get(Field::EvictedLog);
        self.evicted_bucket += p.get(Field::EvictedBucket);
        self.expired += p.get(Field::Expired);
        self.evicted_unfetched += p.get(Field::EvictedUnfetched);
        self.expired_unfetched += p.get(Field::ExpiredUnfetched);
        self.data_bytes += p.data_units() * 8;
        self.reinserted += p.get(Field::Reinserted);
        self.promoted += p.get(Field::Promoted);
        self.ghosts_met += p.get(Field::GhostsMet);
        self.read_retries += p.read_retries.load(Ordering::Relaxed);
        self.buckets_scanned += p.get(Field::BucketsScanned);
        self.dangling_cleared += p.get(Field::DanglingCleared);
        self.buckets += p.buckets();
        self.buckets_split += p.get(Field::BucketsSplit);
        self.spare_buckets += p.layout.spares(p.buckets());
        self.spare_buckets_used += p.get(Field::SparesUsed);
        self.index_bytes += p.index_units() * 8;
        self.early_bytes += p.get(Field::UnitsLeftEarly) * 8;
        self.out_of_memory += p.get(Field::OutOfMemory);
        self.compacted_bytes += p.compaction.moved_units() * 8;
        if p.get(Field::Namespaces) != 0 {
            self.namespaces_invalid = self.namespaces_invalid.max(p.invalid_namespaces());
        }
        let lag = p.get(Field::ExpiryLag).max(p.get(Field::ExpiryLagLast));
        self.expiry_lag_s = self.expiry_lag_s.max(lag);
    }
}
