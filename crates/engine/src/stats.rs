//! Counters of the engine, summed over partitions.

/// What [`crate::Cache::stats`] tells. Counters only grow; levels say what is there now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Level: items that can be found, those whose expiry has passed but was not noticed included.
    pub items_live: u64,
    /// Level: bytes of those items in the log, headers and padding included.
    pub item_bytes_live: u64,
    /// Counter: items ever appended to a log, moves to the tail not included.
    pub items_appended: u64,
    /// Counter: values written over old ones in place, without an append.
    pub items_overwritten: u64,
    /// Counter: live items that left at the head of a log.
    pub evicted_log: u64,
    /// Counter: live items that left because their bucket was full.
    pub evicted_bucket: u64,
    /// Counter: items removed because their expiry had passed.
    pub expired: u64,
    /// Counter: of the evicted, those that nobody had requested since they were stored.
    pub evicted_unfetched: u64,
    /// Counter: the same of the expired.
    pub expired_unfetched: u64,
    /// Counter: items moved to the tail because they were requested.
    pub reinserted: u64,
    /// Counter: items moved from the small log to main.
    pub promoted: u64,
    /// Counter: new items whose ghost was there.
    pub ghosts_met: u64,
    /// Counter: writes refused because there was no space.
    pub out_of_memory: u64,
    /// Counter: bytes of items that a store has moved to make room.
    pub compacted_bytes: u64,
    /// Level: main buckets of the index.
    pub buckets: u64,
    /// Counter: buckets that were split as the index grew.
    pub buckets_split: u64,
    /// Level: spare buckets that there are.
    pub spare_buckets: u64,
    /// Level: spare buckets that continue a main one.
    pub spare_buckets_used: u64,
    /// Level: bytes of the index, out of the memory of the cache.
    pub index_bytes: u64,
    /// Level: bytes of the memory for items, out of the memory of the cache.
    pub data_bytes: u64,
    /// Level: bytes that deleted and expired items still hold.
    pub early_bytes: u64,
    /// Level: the longest time, in seconds, for which an item was there after its expiry, as the
    /// sweep has seen it in its last round.
    pub expiry_lag_s: u64,
    /// Counter: optimistic reads that had to be repeated.
    pub read_retries: u64,
    /// Counter: buckets visited by the incremental scan.
    pub buckets_scanned: u64,
    /// Counter: dangling entries cleared by the incremental scan.
    pub dangling_cleared: u64,
}

impl Stats {
    /// Counter: items ever stored, wherever they were put.
    pub fn items_stored(&self) -> u64 {
        self.items_appended + self.items_overwritten
    }
}
