//! The engine behind the interface of all contenders: fill, then run a list of operations.

use std::sync::Arc;

use arrayvec::ArrayVec;
use micanite_engine::{
    BATCH_REQUESTS_MAX, Cache, Condition, Config, Expiry, Operation, Outcome, ReplySink, Request, Semantics,
    ValueMeta, Worker,
};

/// Set in an operation: a SET; clear: a GET. The other bits are the item's number.
pub(crate) const SET: u32 = 1 << 31;

/// Seed of the key hash, for all contenders.
pub(super) const SEED: u64 = 1;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub hits: u64,
    pub misses: u64,
    /// Values that are not their key's: must be zero.
    pub wrong: u64,
}

impl Done {
    /// Adds what another run did.
    pub fn add(&mut self, other: Self) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.wrong += other.wrong;
    }

    /// Fails when a value was wrong, or more than a tenth of what was asked for was missing:
    /// a miss costs something else than a hit.
    pub fn check(&self, name: &str) -> crate::Result<()> {
        let asked = self.hits + self.misses;
        if self.wrong > 0 {
            return Err(format!("{name}: {} wrong values", self.wrong).into());
        }
        if self.misses * 10 > asked {
            return Err(format!("{name}: {} of {asked} missing", self.misses).into());
        }
        Ok(())
    }

    /// Hits among the gets, in percent; `None` when nothing was asked for.
    pub fn hit_percent(&self) -> Option<f64> {
        let asked = self.hits + self.misses;
        (asked > 0).then(|| self.hits as f64 / asked as f64 * 100.0)
    }

    #[inline]
    pub(crate) fn count(&mut self, found: Option<u64>, expected: u64) {
        match found {
            Some(first_word) if first_word == expected => self.hits += 1,
            Some(_) => self.wrong += 1,
            None => self.misses += 1,
        }
    }
}

pub(crate) trait Contender {
    fn name(&self) -> &'static str;
    fn run(&mut self, operations: &[u32]) -> Done;
}

/// Key and value of an item: its number first, then a pattern.
#[inline]
pub(crate) fn bytes<const N: usize>(item: u32) -> [u8; N] {
    let mut bytes = [0x5a; N];
    bytes[..8].copy_from_slice(&u64::from(item & !SET).to_le_bytes());
    bytes
}

#[inline]
pub(crate) fn first_word(value: &[u8]) -> u64 {
    value.first_chunk().map_or(u64::MAX, |word| u64::from_le_bytes(*word))
}

/// The engine, with one worker: the exclusive owner.
pub(crate) struct Micanite<const K: usize, const V: usize> {
    name: &'static str,
    worker: Worker,
    cache: Arc<Cache>,
}

/// Copies values out and checks them.
struct Sink<'a, const V: usize> {
    operations: &'a [u32],
    value: [u8; V],
    done: Done,
}

impl<const V: usize> ReplySink for Sink<'_, V> {
    #[inline]
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.value.get_mut(..meta.value_bytes)
    }

    #[inline]
    fn rollback(&mut self, _: usize) {}

    #[inline]
    fn finish(&mut self, index: usize, outcome: Outcome) {
        let found = match outcome {
            Outcome::Hit => Some(first_word(std::hint::black_box(&self.value))),
            Outcome::Stored => return,
            _ => None,
        };
        self.done.count(found, u64::from(self.operations[index] & !SET));
    }
}

/// Configuration of a cache with room for all items: a full bucket may still cost some.
pub(crate) fn config_of<const K: usize, const V: usize>(items: u64, workers: usize) -> Config {
    let item_bytes = (8 + K + V).next_multiple_of(8);
    Config {
        memory_bytes: items as usize * (item_bytes + 24) * 10 / 9 + (64 << 20),
        workers,
        seed: SEED,
        ..Config::default()
    }
}

impl<const K: usize, const V: usize> Micanite<K, V> {
    pub fn new(config: &Config) -> crate::Result<Self> {
        let cache = Arc::new(Cache::new(config)?);
        let worker = cache.worker(0).ok_or("no worker")?;
        let name = match config.semantics {
            Semantics::Cache => "micanite",
            Semantics::Store => "micanite's store",
        };
        Ok(Self { name, worker, cache })
    }

    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}

impl<const K: usize, const V: usize> Contender for Micanite<K, V> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: &[u32]) -> Done {
        run_worker::<K, V>(&mut self.worker, operations)
    }
}

/// Runs a list through one worker, in the longest batches.
pub(crate) fn run_worker<const K: usize, const V: usize>(worker: &mut Worker, operations: &[u32]) -> Done {
    run_batches::<K, V>(worker, operations, BATCH_REQUESTS_MAX)
}

/// Runs a list through one worker, in batches of up to [`BATCH_REQUESTS_MAX`].
#[inline(always)]
pub(super) fn run_batches<const K: usize, const V: usize>(
    worker: &mut Worker,
    operations: &[u32],
    batch: usize,
) -> Done {
    let mut total = Done::default();
    let mut keys = [[0; K]; BATCH_REQUESTS_MAX];
    let mut values = [[0; V]; BATCH_REQUESTS_MAX];
    for chunk in operations.chunks(batch) {
        for (at, operation) in chunk.iter().enumerate() {
            keys[at] = bytes(*operation);
            if operation & SET != 0 {
                values[at] = bytes(*operation);
            }
        }
        let mut requests = ArrayVec::<Request<'_>, BATCH_REQUESTS_MAX>::new();
        for (at, operation) in chunk.iter().enumerate() {
            let key = keys[at].as_slice();
            let operation = if operation & SET != 0 {
                let (condition, value) = (Condition::Always, values[at].as_slice());
                Operation::Store { condition, value, flags: 0, expiry: Expiry::NEVER }
            } else {
                Operation::Get { cas: false }
            };
            requests.push(Request { hash: worker.cache().hash(key), key, operation });
        }
        let mut sink = Sink { operations: chunk, value: [0; V], done: Done::default() };
        worker.execute(&requests, 0, &mut sink);
        total.add(sink.done);
    }
    total
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use micanite_engine::KeyHash;

    use super::super::peers::{Foyer, Hashbrown, Moka, OneShotXxh3, QuickCache};
    use super::*;

    const ITEMS: u32 = 1 << 12;

    fn gets_find_what_sets_stored(contender: &mut dyn Contender) {
        let (half, all): (Vec<_>, Vec<_>) = ((0..ITEMS / 2).collect(), (0..ITEMS).collect());
        let sets: Vec<_> = half.iter().map(|item| item | SET).collect();
        assert_eq!(contender.run(&sets), Done::default());
        let done = contender.run(&all);
        let name = contender.name();
        assert_eq!((done.wrong, done.hits + done.misses), (0, u64::from(ITEMS)), "{name}");
        // A full bucket of ours may have cost a few.
        let found = u64::from(ITEMS / 2);
        assert!((found * 95 / 100..=found).contains(&done.hits), "{name}: {done:?}");
    }

    #[test]
    fn every_contender_finds_what_it_was_given() {
        let tiny = config_of::<8, 8>(ITEMS.into(), 1);
        let small = config_of::<16, 64>(ITEMS.into(), 1);
        let store = Config { semantics: Semantics::Store, ..tiny.clone() };
        gets_find_what_sets_stored(&mut Micanite::<8, 8>::new(&tiny).unwrap());
        gets_find_what_sets_stored(&mut Micanite::<8, 8>::new(&store).unwrap());
        gets_find_what_sets_stored(&mut Micanite::<16, 64>::new(&small).unwrap());
        gets_find_what_sets_stored(&mut Hashbrown::<16, 64>::new(ITEMS.into()));
        gets_find_what_sets_stored(&mut QuickCache::<16, 64>::new(ITEMS.into()));
        gets_find_what_sets_stored(&mut Moka::<16, 64>::new(ITEMS.into()));
        gets_find_what_sets_stored(&mut Foyer::<16, 64>::new(ITEMS.into()));
    }

    #[test]
    fn all_hash_a_key_alike() {
        let key: [u8; 16] = bytes(77);
        let ours = KeyHash::of(&key, SEED).0;
        assert_eq!(OneShotXxh3.hash_one(key), ours);
    }

    #[test]
    fn wrong_values_and_many_misses_fail() {
        let mut done = Done::default();
        (0..10).for_each(|_| done.count(Some(1), 1));
        done.count(None, 1);
        assert!(done.check("x").is_ok());
        done.count(None, 1);
        assert!(done.check("x").is_err());
        let mut done = Done::default();
        done.count(Some(2), 1);
        assert!(done.check("x").is_err());
    }
}
