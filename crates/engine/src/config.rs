//! What a cache is made of: the caller's wishes, and the sizes derived and checked from them.

use crate::eviction::Eviction;

/// What the caller wants. [`crate::Cache::new`] derives the rest and refuses what cannot be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Items, headers and index together stay within this many bytes.
    pub memory_bytes: usize,
    /// The expected average of key and value bytes of an item; decides how `memory_bytes` is
    /// split between index and log.
    pub item_bytes_hint: usize,
    /// The longest value taken.
    pub value_bytes_max: usize,
    /// How many threads will call [`crate::Worker::execute`]. With one, that thread is the
    /// exclusive owner of every partition and no lock and no version check is needed.
    pub workers: usize,
    /// How items are chosen for eviction.
    pub eviction: Eviction,
    /// Seed of the key hash.
    pub seed: u64,
}

impl Default for Config {
    /// 64 MiB, values up to 1 MiB, items of about 100 bytes, one worker, and a seed of zero,
    /// which is fine where clients are trusted.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            item_bytes_hint: 100,
            value_bytes_max: 1 << 20,
            workers: 1,
            eviction: Eviction::default(),
            seed: 0,
        }
    }
}
