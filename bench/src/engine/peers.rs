//! The peers: a hash table and a cache of other crates.

use std::hash::{BuildHasher, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::calls::{LookAside, SharedLookAside, one_by_one};
use super::contenders::{Contender, Done, SEED, SET, bytes, first_word};

/// The hash of ours, for the others: XXH3 over the whole key in one call. The hasher that comes
/// with the hash's crate builds a state of half a kilobyte for every key, whose stores keep
/// lookups from overlapping: hashbrown would be measured at a fraction of its speed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneShotXxh3;

/// One key's hash.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl BuildHasher for OneShotXxh3 {
    type Hasher = KeyHasher;

    #[inline]
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(0)
    }
}

impl Hasher for KeyHasher {
    #[inline]
    fn write(&mut self, key: &[u8]) {
        self.0 = xxh3_64_with_seed(key, SEED);
    }

    /// The length of an array, which is the same for all keys.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// hashbrown: a hash table without eviction, keys and values in place.
pub(crate) struct Hashbrown<const K: usize, const V: usize> {
    map: hashbrown::HashMap<[u8; K], [u8; V], OneShotXxh3>,
}

impl<const K: usize, const V: usize> Hashbrown<K, V> {
    pub fn new(items: u64) -> Self {
        Self { map: hashbrown::HashMap::with_capacity_and_hasher(items as usize, OneShotXxh3) }
    }

    /// Returns the value of a key.
    #[inline]
    pub fn value(&self, key: &[u8; K]) -> Option<&[u8; V]> {
        self.map.get(key)
    }

    /// Removes a key.
    #[inline]
    pub fn remove(&mut self, key: &[u8; K]) {
        self.map.remove(key);
    }

    /// Stores a value.
    #[inline]
    pub fn put(&mut self, key: [u8; K], value: [u8; V]) {
        self.map.insert(key, value);
    }
}

impl<const K: usize, const V: usize> Contender for Hashbrown<K, V> {
    fn name(&self) -> &'static str {
        "hashbrown 0.17"
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        let mut done = Done::default();
        let mut value = [0; V];
        for operation in operations {
            let key: [u8; K] = bytes(*operation);
            if operation & SET != 0 {
                self.map.insert(key, bytes(*operation));
            } else {
                let found = self.map.get(&key).map(|found| {
                    value = *found;
                    first_word(std::hint::black_box(&value))
                });
                done.count(found, first_word(&key));
            }
        }
        done
    }
}

/// Runs a list on a cache that returns copies of its values.
#[inline(always)]
fn run_shared<const K: usize, const V: usize>(
    operations: &[u32],
    get: impl Fn(&[u8; K]) -> Option<[u8; V]>,
    insert: impl Fn([u8; K], [u8; V]),
) -> Done {
    let mut done = Done::default();
    for operation in operations {
        let key = bytes(*operation);
        if operation & SET != 0 {
            insert(key, bytes(*operation));
        } else {
            let found = get(&key).map(|value| first_word(std::hint::black_box(&value)));
            done.count(found, first_word(&key));
        }
    }
    done
}

/// quick_cache: a concurrent cache with eviction (S3-FIFO).
pub(crate) struct QuickCache<const K: usize, const V: usize> {
    cache: quick_cache::sync::Cache<[u8; K], [u8; V], quick_cache::UnitWeighter, OneShotXxh3>,
}

impl<const K: usize, const V: usize> QuickCache<K, V> {
    pub fn new(items: u64) -> Self {
        Self::of_room(items + items / 8)
    }

    /// Makes a cache of so many items.
    pub fn of_room(items: u64) -> Self {
        let room = items as usize;
        let cache = quick_cache::sync::Cache::with(
            room,
            room as u64,
            quick_cache::UnitWeighter,
            OneShotXxh3,
            Default::default(),
        );
        Self { cache }
    }
}

impl<const K: usize, const V: usize> Contender for QuickCache<K, V> {
    fn name(&self) -> &'static str {
        "quick_cache 0.7"
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        let cache = &self.cache;
        run_shared(operations, |key| cache.get(key), |key, value| cache.insert(key, value))
    }
}

/// moka: a concurrent cache with eviction (TinyLFU).
pub(crate) struct Moka<const K: usize, const V: usize> {
    cache: moka::sync::Cache<[u8; K], [u8; V], OneShotXxh3>,
}

impl<const K: usize, const V: usize> Moka<K, V> {
    /// Makes a cache of so many items.
    pub fn new(items: u64) -> Self {
        Self { cache: moka::sync::Cache::builder().max_capacity(items).build_with_hasher(OneShotXxh3) }
    }
}

impl<const K: usize, const V: usize> Contender for Moka<K, V> {
    fn name(&self) -> &'static str {
        "moka 0.12"
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        let cache = &self.cache;
        run_shared(operations, |key| cache.get(key), |key, value| cache.insert(key, value))
    }
}

/// foyer: a concurrent cache with eviction (TinyLFU).
pub(crate) struct Foyer<const K: usize, const V: usize> {
    cache: foyer_memory::Cache<[u8; K], [u8; V], OneShotXxh3>,
}

impl<const K: usize, const V: usize> Foyer<K, V> {
    /// Makes a cache of so many items.
    pub fn new(items: u64) -> Self {
        let builder = foyer_memory::CacheBuilder::new(items as usize);
        Self { cache: builder.with_hash_builder(OneShotXxh3).build() }
    }

    fn value(&self, key: &[u8; K]) -> Option<[u8; V]> {
        self.cache.get(key).map(|entry| *entry.value())
    }

    fn put(&self, key: [u8; K], value: [u8; V]) {
        self.cache.insert(key, value);
    }
}

impl<const K: usize, const V: usize> Contender for Foyer<K, V> {
    fn name(&self) -> &'static str {
        "foyer 0.22"
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        run_shared(operations, |key| self.value(key), |key, value| self.put(key, value))
    }
}

impl<const K: usize, const V: usize> LookAside for Foyer<K, V> {
    fn look_aside(&mut self, items: &[u32]) -> Done {
        self.ask(items)
    }
}

impl<const K: usize, const V: usize> SharedLookAside for Foyer<K, V> {
    fn ask(&self, items: &[u32]) -> Done {
        one_by_one(items, |key| self.value(key), |key, value| self.put(key, value))
    }
}

impl<const K: usize, const V: usize> LookAside for Moka<K, V> {
    fn look_aside(&mut self, items: &[u32]) -> Done {
        self.ask(items)
    }
}

impl<const K: usize, const V: usize> SharedLookAside for Moka<K, V> {
    fn ask(&self, items: &[u32]) -> Done {
        one_by_one(items, |key| self.cache.get(key), |key, value| self.cache.insert(key, value))
    }
}

impl<const K: usize, const V: usize> LookAside for QuickCache<K, V> {
    fn look_aside(&mut self, items: &[u32]) -> Done {
        self.ask(items)
    }
}

impl<const K: usize, const V: usize> SharedLookAside for QuickCache<K, V> {
    fn ask(&self, items: &[u32]) -> Done {
        one_by_one(items, |key| self.cache.get(key), |key, value| self.cache.insert(key, value))
    }
}
