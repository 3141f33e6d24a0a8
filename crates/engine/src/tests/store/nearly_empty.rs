//! A nearly empty store takes as many items as an empty one, wherever its last items lie.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::{COMPACT_INDEX_UNITS, COMPACT_ITEM_UNITS, COMPACT_PER_ITEM_UNIT};
use crate::tests::support::*;
use crate::*;

/// Units of the data space: 1 MiB.
const DATA_UNITS: u64 = 1 << 17;
/// Share of the space that stays after a history: one in this many.
const LIVE_SHARE: u64 = 100;
/// Share of the space that the largest item takes: one in this many.
const ITEM_SHARE: u64 = 64;

pub(super) fn setup() -> Setup {
    Setup {
        semantics: Semantics::Store,
        buckets: 64,
        data_units: DATA_UNITS,
        grows: true,
        value_bytes_max: (DATA_UNITS * 8 / ITEM_SHARE) as usize,
        ..Setup::default()
    }
}

/// A store and its contents.
pub(super) struct Filled {
    pub cache: Arc<Cache>,
    pub client: Client,
    pub held: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Filled {
    pub fn new(setup: &Setup) -> Self {
        let cache = setup.cache();
        Self { client: Client::new(&cache, 0), cache, held: BTreeMap::new() }
    }

    pub fn set(&mut self, key: &[u8], bytes: usize) -> bool {
        let value = vec![key.last().map_or(0, |byte| byte ^ bytes as u8); bytes];
        let stored = self.client.set(key, &value) == Outcome::Stored;
        if stored {
            self.held.insert(key.to_vec(), value);
        }
        stored
    }

    pub fn delete(&mut self, key: &[u8]) {
        assert_eq!(self.client.outcome(key, Operation::Delete), Outcome::Deleted);
        self.held.remove(key);
    }

    /// Returns the position of the item of a key, and its units.
    fn place(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.cache.hash(key);
        let writer = self.cache.partition(hash).writer(1000);
        let found = writer.lookup(writer.partition.hash_of(key), key).unwrap();
        (found.place.position, found.header.units())
    }

    /// Checks that every item is still there, and the heap is sound.
    pub fn check(&mut self) {
        for (key, value) in &self.held {
            assert_eq!(self.client.get(key).as_ref(), Some(value));
        }
        let stats = self.cache.stats();
        assert_eq!(stats.items_live, self.held.len() as u64);
        let units: u64 = self.held.keys().map(|key| self.place(key).1).sum();
        assert_eq!(stats.item_bytes_live, units * 8);
        let heap = self.cache.partitions[0].heap();
        heap.check();
        // No block has been lost.
        assert_eq!(heap.units_free() + units as usize, heap.units());
    }

    /// Does the upkeep that a worker does every 10 to 100 milliseconds.
    pub(super) fn upkeep(&mut self) {
        for _ in 0..8 {
            self.client.worker.maintain(1000);
        }
    }

    /// Returns how many items of one size it takes until the first refusal.
    pub fn take(&mut self, value_bytes: usize) -> u64 {
        let mut taken = 0u64;
        while self.set(&taken.to_le_bytes(), value_bytes) {
            taken += 1;
        }
        taken
    }

    /// Fills it with items of mixed sizes that come and go.
    fn mix(&mut self, random: &mut Random) {
        let sizes = [20, 100, 800, 5000, setup().value_bytes_max / 2];
        let largest = 1 + random.below(sizes.len());
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut refused = 0;
        for number in 0.. {
            let name = format!("mixed-{number}").into_bytes();
            let most = sizes[random.below(largest)];
            if self.set(&name, random.below(most)) {
                names.push(name);
            } else {
                refused += 1;
                for _ in 0..names.len() / 8 {
                    let name = names.swap_remove(random.below(names.len()));
                    self.delete(&name);
                }
            }
            if refused == 4 {
                return;
            }
        }
    }

    /// Deletes all but a hundredth of the space: keeps the last items, those in the middle, a
    /// random sample, or the smallest ones, which lie everywhere.
    pub(super) fn thin(&mut self, random: &mut Random, which: usize) {
        let mut order: Vec<(usize, Vec<u8>)> = Vec::new();
        for key in self.held.keys() {
            let (position, units) = self.place(key);
            let rank = match which {
                0 => usize::MAX - position,
                1 => position.abs_diff(DATA_UNITS as usize / 2),
                2 => random.below(1 << 30),
                _ => (units as usize) << 32 | random.below(1 << 30),
            };
            order.push((rank, key.clone()));
        }
        order.sort();
        let mut left = DATA_UNITS / LIVE_SHARE;
        for (_, key) in order {
            let units = self.place(&key).1;
            if units > left {
                self.delete(&key);
            } else {
                left -= units;
            }
        }
    }
}

/// Runs histories of many kinds and items of many sizes, then some upkeep. After that the index has
/// returned the space that it had taken for many small items.
#[test]
fn a_nearly_empty_store_takes_as_much_as_a_fresh_one() {
    let largest = (DATA_UNITS * 8 / ITEM_SHARE) as usize - 64;
    for value_bytes in [8, 300, 6000, largest] {
        let mut empty = Filled::new(&setup());
        let fresh = empty.take(value_bytes);
        // It is full, and has not stopped for lack of buckets.
        let stats = empty.cache.stats();
        assert!(stats.item_bytes_live * 10 > stats.data_bytes * 9);
        for which in 0..4 {
            let mut random = Random((which + 1) as u64 * 7919 + value_bytes as u64);
            let mut store = Filled::new(&setup());
            store.mix(&mut random);
            store.thin(&mut random, which);
            store.upkeep();
            let taken = store.take(value_bytes);
            assert!(
                taken * 10 >= fresh * 9,
                "values of {value_bytes} bytes, history {which}: {taken} of {fresh}"
            );
            store.check();
        }
    }
}

/// Proves that the index takes the end of the space although one item lies there.
#[test]
fn a_store_whose_last_block_is_taken_still_holds_small_items() {
    let fresh = Filled::new(&setup()).take(8);
    let mut store = Filled::new(&setup());
    let mut bytes = setup().value_bytes_max;
    while bytes > 8 {
        if !store.set(format!("large-{}", store.held.len()).as_bytes(), bytes) {
            bytes /= 2;
        }
    }
    let last = store.held.keys().max_by_key(|key| store.place(key).0);
    let last = last.unwrap().clone();
    let others: Vec<_> = store.held.keys().filter(|key| **key != last).cloned().collect();
    others.iter().for_each(|key| store.delete(key));
    let taken = store.take(8);
    assert!(taken * 10 > fresh * 9, "{taken} of {fresh}");
    store.check();
}

/// Proves that an insertion copies no more than the limits and one item, whatever is in its way.
#[test]
fn an_insertion_moves_a_bounded_number_of_bytes() {
    for which in 0..4 {
        let mut random = Random(which as u64 + 1);
        let mut store = Filled::new(&setup());
        store.mix(&mut random);
        store.thin(&mut random, which);
        let item_units_max = setup().layout().item_units_max;
        let (mut before, mut most) = (store.cache.stats().compacted_bytes, 0);
        for number in 0u64.. {
            let bytes = random.below(setup().value_bytes_max / 4);
            let stored = store.set(&number.to_le_bytes(), bytes);
            let after = store.cache.stats().compacted_bytes;
            let units = bytes as u64 / 8 + 8;
            // Twice the limit of an item, twice that of the index, and one item more.
            let of_item = COMPACT_ITEM_UNITS + 2 * COMPACT_PER_ITEM_UNIT * units;
            let of_index = COMPACT_ITEM_UNITS + 2 * COMPACT_INDEX_UNITS;
            let moved_units = (after - before) / 8;
            assert!(moved_units <= of_item + of_index + item_units_max, "{moved_units}");
            most = most.max(after - before);
            before = after;
            if !stored {
                break;
            }
        }
        assert!(most > 0, "nothing was moved in history {which}");
    }
}
