//! The index of a store shrinks beside walks, after a flush, and as far as it can.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::nearly_empty::{Filled, setup};
use crate::limits::{BUCKET_ENTRIES, INDEX_LOAD_SIXTEENTHS, INDEX_SPARSE_SHARE, SWEEP_BUCKETS};
use crate::region::Field;
use crate::tests::support::*;
use crate::*;

/// Proves that an index that shrinks and grows again loses nothing; that it waits for a walk, which
/// then shows each item once, however long it takes; and that an abandoned walk delays nothing.
#[test]
fn an_index_shrinks_only_after_walks_have_ended() {
    let mut store = Filled::new(&setup());
    let mut random = Random(5);
    for _ in 0..3 {
        store.take(8);
        let most = store.cache.stats().buckets;
        store.thin(&mut random, 2);
        let (mut walk, mut seen) = (Walk::default(), Keys::default());
        let third = most as usize / 3;
        let mut given_up = Walk::default();
        let step = store.cache.walk(&mut given_up, 1, 1000, &mut seen);
        assert_eq!(step, Walked::Buckets);
        seen.kept.clear();
        for _ in 0..2 {
            let step = store.cache.walk(&mut walk, third, 1000, &mut seen);
            assert_eq!(step, Walked::Buckets);
            store.upkeep();
        }
        let step = store.cache.walk(&mut walk, usize::MAX, 1000, &mut seen);
        assert_eq!(step, Walked::End);
        seen.kept.sort();
        assert!(seen.kept.iter().eq(store.held.keys()));
        store.upkeep();
        assert_eq!(store.cache.stats().buckets, most);
        drop(given_up);
        store.upkeep();
        let buckets = store.cache.stats().buckets;
        assert!(buckets < most / 4, "{buckets} of {most}");
        store.check();
    }
}

/// Proves that walks on another thread have every item that stays, while the index of a store shrinks
/// and grows beside them.
#[test]
fn walks_beside_an_index_that_shrinks_have_every_item() {
    let mut store = Filled::new(&setup());
    let lasting: Vec<_> = (0..100).map(|n| format!("lasting-{n}").into_bytes()).collect();
    lasting.iter().for_each(|key| assert!(store.set(key, 20)));
    let stop = AtomicBool::new(false);
    let cache = Arc::clone(&store.cache);
    let shrunk = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let mut seen = Keys::default();
                let walked = cache.walk(&mut Walk::default(), usize::MAX, 1000, &mut seen);
                assert_eq!(walked, Walked::End);
                let seen: BTreeSet<_> = seen.kept.iter().collect();
                assert!(lasting.iter().all(|key| seen.contains(key)));
                std::thread::yield_now();
            }
        });
        let mut shrunk = 0;
        while shrunk < 50 {
            for number in 0u64..3000 {
                store.set(&number.to_le_bytes(), 8);
            }
            (0u64..3000).for_each(|number| store.delete(&number.to_le_bytes()));
            let before = store.cache.stats().buckets;
            store.upkeep();
            shrunk += u64::from(store.cache.stats().buckets < before);
        }
        stop.store(true, Ordering::Relaxed);
        shrunk
    });
    assert_eq!(shrunk, 50);
    store.check();
}

/// Proves that no worker is kept out of the partition if the index cannot shrink: the index of a store
/// that began with a few buckets comes to rest at the number that a fresh one has with its first
/// items.
#[test]
fn an_index_that_cannot_shrink_is_left_alone() {
    for buckets in [2, 9, 10, 11, 64] {
        let mut store = Filled::new(&Setup { buckets, ..setup() });
        store.take(8);
        let keys: Vec<_> = store.held.keys().skip(12).cloned().collect();
        keys.iter().for_each(|key| store.delete(key));
        store.upkeep();
        for number in 0..100u64 {
            assert!(store.set(&number.to_le_bytes(), 8));
            store.delete(&number.to_le_bytes());
            assert_eq!(store.cache.stats().buckets, buckets.max(11));
            let p = &store.cache.partitions[0];
            assert!(!p.writer(1000).can_shrink_index());
        }
        store.check();
    }
}

/// Proves that a merge changes nothing if the list of free spare buckets does not match the
/// counters.
#[test]
fn a_merge_that_gets_no_spare_bucket_loses_no_entry() {
    let (mut failed, mut merged) = (0, true);
    let mut store = Filled::new(&setup());
    store.take(8);
    let mut random = Random(3);
    store.thin(&mut random, 2);
    let cache = Arc::clone(&store.cache);
    let p = &cache.partitions[0];
    while merged && p.buckets() > 64 {
        let free = p.get(Field::SpareFree);
        p.set(Field::SpareFree, 0);
        let buckets = p.buckets();
        if !p.writer(1000).merge_last() {
            failed += 1;
            assert_eq!(p.buckets(), buckets);
        }
        p.set(Field::SpareFree, free);
        merged = p.writer(1000).merge_last();
    }
    store.check();
    assert!(failed > 0);
}

/// Proves that an index shrinks as far as its items allow, whatever is chained meanwhile.
#[test]
fn an_index_shrinks_until_it_is_not_sparse() {
    let mut store = Filled::new(&setup());
    store.take(8);
    let mut random = Random(11);
    for share in [3, 5, 10] {
        let keys: Vec<_> = store.held.keys().cloned().collect();
        for key in &keys {
            if random.below(share) != 0 {
                store.delete(key);
            }
        }
        store.upkeep();
        let stats = store.cache.stats();
        let per_bucket = BUCKET_ENTRIES as u64 * INDEX_LOAD_SIXTEENTHS / 16;
        let most = INDEX_SPARSE_SHARE * (stats.items_live + per_bucket) / per_bucket;
        assert!(stats.buckets <= most.max(64), "{stats:?}");
        store.check();
    }
}

/// Proves that workers find everything while the index of a store shrinks and grows beside them.
#[test]
fn workers_beside_an_index_that_shrinks_find_everything() {
    let setup = Setup { workers: 2, ..setup() };
    let mut store = Filled::new(&setup);
    let mut reader = Client::new(&store.cache, 1);
    let lasting: Vec<_> = (0..50).map(|n| format!("lasting-{n}").into_bytes()).collect();
    lasting.iter().for_each(|key| assert!(store.set(key, 20)));
    let stop = AtomicBool::new(false);
    let shrunk = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for key in &lasting {
                    assert!(reader.get(key).is_some(), "{}", key.escape_ascii());
                }
            }
        });
        let mut shrunk = 0;
        for _ in 0..6 {
            for number in 0u64..8000 {
                store.set(&number.to_le_bytes(), 8);
            }
            let most = store.cache.stats().buckets;
            (0u64..8000).for_each(|number| store.delete(&number.to_le_bytes()));
            store.upkeep();
            shrunk += u64::from(store.cache.stats().buckets < most / 2);
        }
        stop.store(true, Ordering::Relaxed);
        shrunk
    });
    assert_eq!(shrunk, 6);
    store.check();
}

/// Proves that upkeep frees the space of a flushed store in a round of the sweep, and the lines of
/// its index soon after.
#[test]
fn a_flushed_store_gets_its_space_back_in_a_round_of_the_sweep() {
    let setup = Setup { data_units: 1 << 19, ..setup() };
    let mut store = Filled::new(&setup);
    let taken = store.take(8);
    store.held.clear();
    store.client.worker.flush_all(1000, 1000);
    let cache = Arc::clone(&store.cache);
    let p = &cache.partitions[0];
    let buckets = p.buckets();
    for _ in 0..=buckets.div_ceil(SWEEP_BUCKETS as u64) {
        store.client.worker.maintain(1000);
    }
    assert_eq!(p.heap().units_free(), p.heap().units());
    for _ in 0..=buckets.div_ceil(1024) {
        store.client.worker.maintain(1000);
    }
    assert_eq!(p.buckets(), 64);
    assert_eq!(store.take(8), taken);
    store.check();
}

/// Proves that a flushed store takes everything that a fresh one takes, whatever upkeep has done:
/// an item that finds its chain full of flushed ones takes the place of one.
#[test]
fn a_flushed_store_takes_as_much_as_a_fresh_one() {
    for steps in [0, 5, 20] {
        let mut store = Filled::new(&setup());
        let taken = store.take(8);
        store.held.clear();
        store.client.worker.flush_all(1000, 1000);
        for _ in 0..steps {
            store.client.worker.maintain(1000);
        }
        for number in 0..taken * 9 / 10 {
            assert!(store.set(&number.to_be_bytes(), 8), "{number} after {steps}");
        }
        store.upkeep();
        store.upkeep();
        store.check();
    }
}

/// Proves that a round of the sweep beside merges visits everything: after two rounds nothing of a
/// namespace is left, and its record is reused.
#[test]
fn a_sweep_beside_merges_visits_every_item() {
    let mut store = Filled::new(&setup());
    let mut random = Random(17);
    store.take(8);
    store.thin(&mut random, 2);
    let cache = Arc::clone(&store.cache);
    let p = &cache.partitions[0];
    let mut rounds_with_merges = 0;
    for _ in 0..20 {
        let mut merged = 0;
        for number in 0..50 {
            let key = format!("space:{number}").into_bytes();
            assert!(store.set(&key, 8));
            store.held.remove(&key);
        }
        let flushed = store.client.worker.invalidate_namespace(b"space", 1000);
        flushed.expect("room for a namespace");
        let writer = p.writer(1000);
        let rounds = p.get(Field::SweepRounds);
        while p.get(Field::SweepRounds) < rounds + 2 {
            for _ in 0..random.below(4) {
                merged += u64::from(writer.merge_last());
            }
            writer.sweep_step();
        }
        drop(writer);
        assert_eq!(p.get(Field::ItemsLive), store.held.len() as u64);
        rounds_with_merges += u64::from(merged > 0);
    }
    assert!(rounds_with_merges > 3);
    store.check();
}
