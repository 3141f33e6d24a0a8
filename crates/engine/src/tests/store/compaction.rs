//! Compaction of a store beside its requests loses nothing, and ends.

use std::sync::Arc;

use super::nearly_empty::Filled;
use crate::limits::{COMPACT_INDEX_UNITS, COMPACT_ITEM_UNITS, COMPACT_PER_ITEM_UNIT};
use crate::region::Field;
use crate::tests::support::*;
use crate::*;

/// Stores values so large that the next one of `value_bytes` finds neither space nor enough
/// scattered space, until two searches have ended: an expired item lies in the far half of the
/// index.
fn store_with_little_scattered_space(maps: bool) -> Filled {
    let setup = Setup {
        semantics: Semantics::Store,
        maps,
        value_bytes_max: 3400,
        data_units: 40_000,
        buckets: 1024,
        workers: 2,
        ..Setup::default()
    };
    let mut store = Filled::new(&setup);
    assert!(store.set(b"first", 2296));
    assert!(store.set(b"found", 1096));
    for number in 0u64..4000 {
        assert!(store.set(&number.to_le_bytes(), 16));
    }
    store_expiring(&mut store);
    let mut holes = Vec::new();
    for number in 0.. {
        let hole = format!("hole-{number}").into_bytes();
        if !store.set(format!("filler-{number}").as_bytes(), 2900) || !store.set(&hole, 2300) {
            break;
        }
        holes.push(hole);
    }
    store.delete(b"first");
    holes.iter().take(8).for_each(|hole| store.delete(hole));
    store
}

/// Stores an item that expires, in a bucket that the first call of the sweep does not reach.
fn store_expiring(store: &mut Filled) {
    let bucket_of = |key: &[u8]| {
        let hash = store.cache.hash(key);
        let p = store.cache.partition(hash);
        let hash = p.index_hash(hash);
        let is_chained = p.bucket(hash).next_spare().is_some();
        (hash.bucket(p.all_buckets()), is_chained)
    };
    let mut names = (0..).map(|number| format!("expiring-{number}").into_bytes());
    let is_far = |key: &Vec<u8>| matches!(bucket_of(key), (600.., false));
    let key = names.find(is_far).unwrap();
    let value = [3; 3200];
    let operation = crate::tests::support::store(Condition::Always, &value, 0, 1500);
    assert_eq!(store.client.outcome(&key, operation), Outcome::Stored);
}

/// Proves that a long value whose search for space moves the item that it replaces keeps all other
/// items.
#[test]
fn a_long_value_that_needs_two_searches_for_space_loses_no_other_item() {
    for maps in [false, true] {
        let mut store = store_with_little_scattered_space(maps);
        let p = &store.cache.partitions[0];
        p.set(Field::ScanBucket, 0);
        p.heap().set_cursor(Some(p.heap().first()));
        store.client.now_s = 2000;
        let moved = store.cache.stats().compacted_bytes;
        store.set(b"found", 3000);
        assert!(store.cache.stats().compacted_bytes > moved);
        for number in 0u64..40 {
            assert!(store.set(format!("after-{number}").as_bytes(), 16));
        }
        // The next search, in the next second, reaches the expired item.
        store.client.now_s = 2001;
        assert!(store.set(b"found", 3000));
        store.client.now_s = 1000;
        store.check();
    }
}

/// Makes an empty store of long values, whose index grows.
fn growing(data_units: u64) -> Filled {
    Filled::new(&Setup {
        semantics: Semantics::Store,
        buckets: 64,
        data_units,
        grows: true,
        value_bytes_max: 128 << 10,
        ..Setup::default()
    })
}

/// Proves that after a pass without success, a store with more free space takes as many items as one
/// without such a pass.
#[test]
fn a_compaction_without_success_refuses_no_item_once_more_space_is_free() {
    let taken = [false, true].map(|vain| {
        let mut store = growing(1 << 17);
        let filled = store.take(40);
        let delete = |store: &mut Filled, which: fn(u64) -> bool| {
            let numbers = (0..filled).map(u64::to_le_bytes);
            for key in numbers.filter(|key| which(u64::from_le_bytes(*key))) {
                if store.held.contains_key(key.as_slice()) {
                    store.delete(&key);
                }
            }
        };
        delete(&mut store, |number| number % 20 == 7);
        for _ in 0..8 {
            assert!(!vain || !store.set(b"large", 100 << 10));
        }
        delete(&mut store, |number| number % 128 != 3);
        let sets = 0..60u64;
        let taken = sets.filter(|number| store.set(&number.to_be_bytes(), (16 << 10) - 64));
        let taken = taken.count();
        store.check();
        taken
    });
    assert!(taken[0] > 40 && taken[1] + 2 >= taken[0], "{taken:?}");
}

/// Makes a store full of items of 100 bytes, every eighth of them deleted.
fn store_with_scattered_space() -> Filled {
    let setup = Setup {
        semantics: Semantics::Store,
        buckets: 32768,
        data_units: 1 << 20,
        value_bytes_max: 64 << 10,
        ..Setup::default()
    };
    let mut store = Filled::new(&setup);
    for number in (0..store.take(100)).step_by(8) {
        store.delete(&number.to_le_bytes());
    }
    store
}

/// Proves that an insertion visits a bounded number of blocks, however small they are.
#[test]
fn an_insertion_visits_a_bounded_number_of_blocks() {
    let mut store = store_with_scattered_space();
    let visits = |store: &Filled| store.cache.partitions[0].compaction.visits();
    for (number, bytes) in [(0u64, 8 << 10), (1, 60 << 10)].into_iter().cycle().take(16) {
        let before = visits(&store);
        store.set(&number.to_be_bytes(), bytes);
        let visited = visits(&store) - before;
        let units = bytes as u64 / 8 + 8;
        let of_item = COMPACT_ITEM_UNITS + COMPACT_PER_ITEM_UNIT * units;
        let of_index = COMPACT_ITEM_UNITS + 2 * COMPACT_INDEX_UNITS + COMPACT_PER_ITEM_UNIT * units;
        // Copying 256 units takes as long as a visit.
        assert!(visited <= (of_item + of_index) / 256 + 4, "{visited}");
    }
    assert!(visits(&store) > 0);
}

/// Proves that a turn compacts no more than it may move, and what one item may.
#[test]
fn a_turn_counts_compacted_bytes() {
    let mut store = store_with_scattered_space();
    let cache = store.cache.clone();
    let keys: Vec<_> = (0..64).map(|n| format!("k{n}").into_bytes()).collect();
    let value = vec![2; 8 << 10];
    let request = |key| Request {
        hash: cache.hash(key),
        key,
        operation: crate::tests::support::store(Condition::Always, &value, 0, 0),
    };
    let requests: Vec<_> = keys.iter().map(|key| request(key)).collect();
    let p = &cache.partitions[0];
    let (mut at, mut turns) = (0, 0);
    while at < requests.len() {
        let (moved, visits) = (cache.stats().compacted_bytes, p.compaction.visits());
        let worker = &mut store.client.worker;
        worker.begin_turn();
        at += worker.execute(&requests[at..], 1000, &mut Replies::default());
        let moved = cache.stats().compacted_bytes - moved;
        let visited = p.compaction.visits() - visits;
        let units = COMPACT_ITEM_UNITS + COMPACT_PER_ITEM_UNIT * (value.len() as u64 / 8 + 8);
        let most = cache.turn_moved_bytes() + units as usize * 8 + 4096;
        assert!(store.client.worker.moved_bytes() as u64 >= moved + visited * 8 * 256);
        assert!((moved + visited * 8 * 256) as usize <= most, "{moved} {visited}");
        turns += 1;
    }
    assert!(turns > 1, "nothing ended a turn early");
}

/// Proves that a sparse store comes to rest whose large items leave gaps that nothing fits.
#[test]
fn a_sparse_store_stops_compacting_when_that_changes_nothing() {
    let setup = Setup {
        semantics: Semantics::Store,
        maps: true,
        buckets: 4096,
        data_units: 1 << 21,
        value_bytes_max: 1 << 20,
        ..Setup::default()
    };
    let mut store = Filled::new(&setup);
    for number in 0..3 {
        assert!(store.set(format!("gap-{number}").as_bytes(), 900 << 10));
        assert!(store.set(format!("large-{number}").as_bytes(), 1000 << 10));
    }
    for number in 0u64..10_000 {
        assert!(store.set(&number.to_le_bytes(), 16));
    }
    (0..3).for_each(|number| store.delete(format!("gap-{number}").as_bytes()));
    let overwrite = |store: &mut Filled| {
        for number in 0u64..10_000 {
            assert!(store.set(&(number * 7919 % 10_000).to_le_bytes(), 16));
        }
        let p = &store.cache.partitions[0];
        (p.compaction.moved_units(), p.compaction.visits())
    };
    let settled = (0..8).map(|_| overwrite(&mut store)).last();
    let settled = settled.filter(|(moved_units, _)| *moved_units > 0);
    for _ in 0..3 {
        assert_eq!(Some(overwrite(&mut store)), settled);
    }
    // Deleted items make another pass worthwhile.
    (0..2).for_each(|number| store.delete(format!("large-{number}").as_bytes()));
    assert!(Some(overwrite(&mut store)) > settled);
    store.check();
}

/// Proves that an item that needs more than all free space moves nothing, and delays no compaction
/// for others.
#[test]
fn an_item_for_which_too_little_is_free_moves_nothing() {
    let mut store = growing(1 << 17);
    for number in 0..store.take(40) {
        if number % 20 == 7 {
            store.delete(&number.to_le_bytes());
        }
    }
    let p = &Arc::clone(&store.cache).partitions[0];
    assert!(p.heap().units_free() > p.heap().units() / 32);
    assert!(p.heap().units_free() < 128 << 7);
    let visits = p.compaction.visits();
    assert!(!store.set(b"large", 128 << 10));
    assert_eq!(p.compaction.visits(), visits);
    store.check();
}

/// Proves that a store that is half free refuses a long value once: upkeep makes the space
/// meanwhile.
#[test]
fn upkeep_makes_space_for_a_refused_value() {
    let mut store = growing(1 << 19);
    for number in 0..store.take(16) {
        if number % 2 == 0 {
            store.delete(&number.to_le_bytes());
        }
    }
    let mut refused = 0;
    for number in 0..10 {
        let key = format!("long-{number}").into_bytes();
        if !store.set(&key, 100 << 10) {
            refused += 1;
            for _ in 0..120 {
                store.client.worker.maintain(1000);
            }
            assert!(store.set(&key, 100 << 10), "{number}");
        }
    }
    assert!(refused > 0);
    store.check();
}
