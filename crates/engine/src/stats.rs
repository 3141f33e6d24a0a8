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
    /// Counter: items moved to the tail because they were requested.
    pub reinserted: u64,
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
