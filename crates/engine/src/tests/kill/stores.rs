//! Operations of a store.

use super::operations::{every_operation, keys, set};
use super::*;
use crate::region::Field;

fn setup() -> Setup {
    Setup { semantics: Semantics::Store, maps: true, buckets: 16, data_units: 1024, ..Setup::default() }
}

/// Proves that a store killed before any store of any operation has each item as before or as
/// afterwards.
#[test]
fn every_operation_of_a_killed_store_is_atomic() {
    let keys = keys(12);
    let mut killed = Killed::new(setup(), keys.clone());
    for key in &keys[..11] {
        killed.client.set(key, b"of another key");
    }
    every_operation(&mut killed, &keys[11], 40);
    every_operation(&mut killed, &keys[11], 300);
    assert!(killed.stores > 1000, "{}", killed.stores);
}

/// Proves that of a store of several workers, which copy long values outside of the lock.
#[test]
fn every_operation_of_a_killed_shared_store_is_atomic() {
    let keys = keys(4);
    let setup = Setup { workers: 2, value_bytes_max: 4000, data_units: 4096, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    for key in &keys[..3] {
        killed.client.set(key, b"of another key");
    }
    every_operation(&mut killed, &keys[3], 40);
    every_operation(&mut killed, &keys[3], 1100);
}

/// Proves that a kill at any moment leaves the old value or the new one in a store with no room
/// left, where the new value waits in the reserve.
#[test]
fn an_overwrite_in_a_killed_full_store_is_atomic() {
    let keys = keys(64);
    let mut killed = Killed::new(setup(), keys.clone());
    let filler = vec![b'1'; 120];
    let mut stored = keys.len();
    for (number, key) in keys.iter().enumerate() {
        if killed.client.outcome(key, set(&filler, 5000)) != Outcome::Stored {
            stored = stored.min(number);
            killed.client.set(key, b"");
        }
    }
    assert!(stored < keys.len(), "the store is full");
    let key = &keys[3];
    let mut run = |name: &str, operation: Operation<'_>, expected: Outcome| {
        let outcome = killed.at_each_store(name, |client| client.outcome(key, operation));
        assert_eq!(outcome, expected, "{name}");
    };
    run("equal", set(&[b'2'; 120], 6000), Outcome::Stored);
    run("longer", set(&[b'3'; 160], 6000), Outcome::OutOfMemory);
    run("append", Operation::Append { value: &[b'3'; 40] }, Outcome::OutOfMemory);
    run("touch", Operation::Touch { expiry: Expiry(7000) }, Outcome::Touched);
    let mut number = [b' '; 64];
    number[..2].copy_from_slice(b"99");
    run("a number", set(&number, 0), Outcome::Stored);
    run("incr", Operation::Increment { delta: 1 }, Outcome::Number(100));
    run("shorter", set(b"4", 0), Outcome::Stored);
}

/// Proves that an expiry, a flush and the invalidation of a namespace end whole.
#[test]
fn expiries_and_flushes_of_a_killed_store_are_atomic() {
    let mut keys = keys(20);
    keys.extend((0..10).map(|number| format!("name:{number}").into_bytes()));
    let mut killed = Killed::new(setup(), keys.clone());
    for (number, key) in keys.iter().enumerate() {
        let expiry_s = if number % 3 == 0 { 1500 } else { 0 };
        killed.client.outcome(key, set(b"something", expiry_s));
    }
    let now_s = killed.client.now_s;
    killed.at_each_store("namespace", |client| {
        client.worker.invalidate_namespace(b"name", now_s).unwrap();
    });
    killed.at_each_store("namespace again", |client| {
        client.worker.invalidate_namespace(b"name", now_s).unwrap();
    });
    killed.client.now_s = 2000;
    killed.at_each_store("get of what has expired", |client| client.get(&keys[0]));
    killed.at_each_store("upkeep", |client| client.worker.maintain(2000));
    killed.at_each_store("flush", |client| client.worker.flush_all(2000, 2000));
    killed.at_each_store("upkeep after it", |client| client.worker.maintain(2000));
    killed.at_each_store("set after it", |client| client.set(&keys[1], b"new"));
    assert_eq!(killed.seen().len(), 1);
}

/// Proves that the index splits buckets, chains spare ones and frees them without losing an item.
#[test]
fn a_store_whose_index_grows_loses_nothing() {
    let keys = keys(90);
    let setup = Setup { buckets: 4, grows: true, data_units: 2048, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    for key in &keys {
        killed.at_each_store("set", |client| client.set(key, b"12345678"));
    }
    assert!(killed.cache.stats().buckets_split > 4);
    assert_eq!(killed.seen().len(), keys.len());
    for key in &keys[..60] {
        killed.at_each_store("delete", |client| client.outcome(key, Operation::Delete));
    }
    assert_eq!(killed.seen().len(), 30);
}

/// Proves that items that move to make space for the index and for others are whole at every
/// moment.
#[test]
fn a_store_whose_items_move_loses_nothing() {
    let keys = keys(80);
    let setup = Setup { buckets: 4, grows: true, data_units: 2048, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    let large = vec![b'1'; 300];
    let stored = |key: &&Vec<u8>| killed.client.set(key, &large) == Outcome::Stored;
    let stored = keys.iter().take_while(stored).count();
    assert!((20..70).contains(&stored), "{stored}");
    // The last ones stay, and two that lie before them.
    for (number, key) in keys[..stored - 2].iter().enumerate() {
        if number != 7 && number != 20 {
            assert_eq!(killed.client.outcome(key, Operation::Delete), Outcome::Deleted);
        }
    }
    for key in &keys[stored..] {
        killed.at_each_store("set", |client| client.set(key, b"12345678"));
    }
    let stats = killed.cache.stats();
    assert!(stats.compacted_bytes > 1000 && stats.buckets_split > 0, "{stats:?}");
    assert_eq!(killed.seen().len(), 4 + keys.len() - stored);
}

/// Proves that an index that returns lines loses nothing, whenever it is killed meanwhile.
#[test]
fn a_store_whose_index_shrinks_loses_nothing() {
    let keys = keys(120);
    let setup = Setup { buckets: 2, grows: true, data_units: 2048, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    for key in &keys {
        assert_eq!(killed.client.set(key, b"12345678"), Outcome::Stored);
    }
    for key in &keys[10..] {
        killed.client.outcome(key, Operation::Delete);
    }
    let most = killed.cache.stats().buckets;
    let cache = Arc::clone(&killed.cache);
    // The sweep has reached the end.
    let partition = &cache.partitions[0];
    partition.set(Field::Expiring, 1);
    partition.set(Field::ScanBucket, partition.buckets() - 1);
    killed.at_each_store("shrink", |_| cache.partitions[0].writer(1000).shrink_index());
    assert!(killed.cache.stats().buckets < most / 2, "of {most} buckets");
    for key in &keys[10..] {
        killed.at_each_store("set", |client| client.set(key, b"12345678"));
    }
    assert_eq!(killed.seen().len(), keys.len());
}

/// Proves that merges of buckets into chains lose nothing, also where the last spare bucket is in use.
#[test]
fn a_store_whose_chains_are_merged_loses_nothing() {
    let keys = keys(300);
    let setup = Setup { buckets: 2, grows: true, data_units: 4096, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    for key in &keys {
        assert_eq!(killed.client.set(key, b"12345678"), Outcome::Stored);
    }
    for key in &keys[160..] {
        killed.client.outcome(key, Operation::Delete);
    }
    let cache = Arc::clone(&killed.cache);
    let p = &cache.partitions[0];
    let (mut chained, mut vacated, mut merged) = (0, 0, true);
    while merged && p.layout.spares(p.buckets()) > 0 {
        let spares = p.layout.spares(p.buckets());
        // The next chain takes the spare bucket that is freed first.
        if p.unlink_free_spare(spares - 1) {
            p.free_spare(spares - 1);
        }
        let is_last = p.layout.spares(p.buckets() - 1) < spares;
        let mut of_chains = (0..p.buckets()).flat_map(|number| p.chain(p.main_bucket(number)).skip(1));
        let in_use =
            is_last && of_chains.any(|spare| spare.first_word == p.spare_bucket(spares - 1).first_word);
        merged = killed.at_each_store("merge", |_| p.writer(1000).merge_last());
        vacated += u32::from(merged && in_use);
        chained += u32::from(merged && cache.stats().spare_buckets_used > 0);
    }
    assert!(vacated > 0 && chained > 0, "{vacated} and {chained}");
    assert_eq!(killed.seen().len(), 160);
}

/// Proves that a change of mode, and a move to another owner, make no store to the image.
#[test]
fn a_route_change_stores_nothing_in_the_image() {
    let keys = keys(4);
    let setup = Setup { workers: 2, ..setup() };
    let mut killed = Killed::new(setup, keys.clone());
    killed.client.set(&keys[0], b"value");
    for access in [Access::Erew, Access::Crew, Access::Crcw] {
        for owner in [0, 1, 0] {
            let cache = Arc::clone(&killed.cache);
            let route = Route { access, owner };
            killed.at_each_store("route", |_| cache.set_route(0, route).unwrap());
        }
    }
    assert_eq!(killed.stores, 0);
    assert_eq!(killed.seen().len(), 1);
}
