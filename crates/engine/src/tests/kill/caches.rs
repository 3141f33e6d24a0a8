//! Operations of a cache: killed at any store, it may miss, but never returns a wrong value, and
//! its counters are right.

use super::operations::{every_operation, keys, set};
use super::*;
use crate::region::Field;

/// Kills every operation, in a cache with room.
#[test]
fn no_operation_of_a_killed_cache_leaves_a_wrong_value() {
    let keys = keys(12);
    for eviction in [Eviction::S3Fifo, Eviction::Lru] {
        let setup = Setup { buckets: 8, data_units: 2048, eviction, ..Setup::default() };
        let mut killed = Killed::new(setup, keys.clone());
        for key in &keys[..11] {
            killed.client.set(key, b"of another key");
        }
        every_operation(&mut killed, &keys[11], 40);
        assert!(killed.seen().len() >= 11, "nothing had to be evicted");
    }
}

/// Kills a cache that evicts, splits buckets and moves requested items, with offsets that
/// repeat.
#[test]
fn a_killed_cache_that_evicts_and_grows_returns_no_wrong_value() {
    let keys = keys(60);
    for (eviction, offset_bits) in
        [(Eviction::S3Fifo, 12), (Eviction::ApproximateLru, 12), (Eviction::S3Fifo, 45)]
    {
        let setup = Setup {
            buckets: 3,
            data_units: 512,
            grows: true,
            offset_bits,
            eviction,
            value_bytes_max: 200,
            ..Setup::default()
        };
        let mut killed = Killed::new(setup, keys.clone());
        for round in 0..150_usize {
            let key = &keys[round * 7 % keys.len()];
            let value = vec![b'a' + (round % 26) as u8; 8 + round * 13 % 90];
            killed.at_each_store("set", |client| client.set(key, &value));
            let hot = &keys[round % 5];
            killed.at_each_store("get", |client| client.get(hot));
            if round % 10 == 9 {
                let key = &keys[round % keys.len()];
                killed.at_each_store("delete", |client| client.outcome(key, Operation::Delete));
                killed.at_each_store("upkeep", |client| client.worker.maintain(1000));
            }
        }
        let stats = killed.cache.stats();
        assert!(stats.evicted_log > 0 && stats.buckets_split > 0);
    }
}

/// Kills a cache whose index returns lines: what stays is found, and what was deleted stays away.
#[test]
fn a_killed_cache_whose_index_shrinks_returns_no_wrong_value() {
    let keys = keys(120);
    for eviction in [Eviction::S3Fifo, Eviction::ApproximateLru] {
        let setup = Setup { buckets: 2, grows: true, data_units: 2048, eviction, ..Setup::default() };
        let mut killed = Killed::new(setup, keys.clone());
        for key in &keys {
            killed.client.set(key, b"12345678");
        }
        for key in &keys[10..] {
            killed.client.outcome(key, Operation::Delete);
        }
        let cache = Arc::clone(&killed.cache);
        let p = &cache.partitions[0];
        let most = p.buckets();
        p.set(Field::ScanBucket, most - 1);
        killed.at_each_store("shrink", |_| p.writer(1000).shrink_index());
        assert!(p.buckets() < most / 2, "{} of {most} buckets", p.buckets());
        assert_eq!(killed.seen().len(), 10);
        for key in &keys[10..] {
            killed.at_each_store("set", |client| client.set(key, b"12345678"));
        }
        assert!(p.buckets() > most / 2, "{} of {most} buckets", p.buckets());
    }
}

/// Kills the upkeep of a cache whose small items have left by the log: chains lead to nothing, some of it
/// ghosts, and give their spare buckets back before buckets are merged.
#[test]
fn a_killed_cache_that_frees_chains_of_nothing_returns_no_wrong_value() {
    let keys = keys(400);
    for eviction in [Eviction::S3Fifo, Eviction::ApproximateLru] {
        let setup = Setup {
            buckets: 2,
            grows: true,
            data_units: 2048,
            eviction,
            value_bytes_max: 2000,
            ..Setup::default()
        };
        let mut killed = Killed::new(setup, keys.clone());
        for key in &keys {
            killed.client.set(key, b"12345678");
        }
        let most = killed.cache.stats().buckets;
        for key in keys[..24].iter().cycle().take(240) {
            killed.client.set(key, &[b'x'; 300]);
            killed.client.get(key);
        }
        for _ in 0..10 {
            killed.at_each_store("upkeep", |client| client.worker.maintain(1000));
        }
        let stats = killed.cache.stats();
        assert!(stats.evicted_log > 300 && stats.buckets < most * 3 / 4, "of {most}: {stats:?}");
        for key in &keys[24..100] {
            killed.at_each_store("set", |client| client.set(key, b"12345678"));
        }
    }
}

/// Kills a cache whose chains are full, which evicts the oldest of them.
#[test]
fn a_killed_cache_with_full_chains_returns_no_wrong_value() {
    let keys = keys(60);
    let setup = Setup { buckets: 2, data_units: 4096, ..Setup::default() };
    let mut killed = Killed::new(setup, keys.clone());
    for key in &keys {
        killed.at_each_store("set", |client| client.set(key, b"value"));
    }
    assert!(killed.cache.stats().evicted_bucket > 0);
}

/// Kills expiries, flushes and invalidations of a namespace.
#[test]
fn expiries_and_flushes_of_a_killed_cache_leave_no_wrong_value() {
    let mut keys = keys(20);
    keys.extend((0..10).map(|number| format!("name:{number}").into_bytes()));
    let mut killed = Killed::new(Setup::default(), keys.clone());
    for (number, key) in keys.iter().enumerate() {
        let expiry_s = if number % 3 == 0 { 1500 } else { 0 };
        killed.client.outcome(key, set(b"something", expiry_s));
    }
    killed.at_each_store("namespace", |client| {
        client.worker.invalidate_namespace(b"name", 1000).unwrap();
    });
    killed.client.now_s = 2000;
    killed.at_each_store("get of what has expired", |client| client.get(&keys[0]));
    killed.at_each_store("upkeep", |client| client.worker.maintain(2000));
    killed.at_each_store("flush", |client| client.worker.flush_all(2000, 2000));
    killed.at_each_store("set after it", |client| client.set(&keys[1], b"new"));
    assert_eq!(killed.seen().len(), 1);
}

/// Proves that recovery counts anew what upkeep relies on. With the counters that a kill had left,
/// upkeep copied the log around forever, and the index grew as if there were 2^64 items.
#[test]
fn recovery_recounts_what_upkeep_relies_on() {
    let setup = Setup { data_units: 4096, ..Setup::default() };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    for key in keys(60) {
        client.outcome(&key, set(&[1; 100], 0));
        client.outcome(&key, set(&[2; 180], 0));
    }
    for key in &keys(60)[..20] {
        client.outcome(key, Operation::Delete);
    }
    let image = image::copy(&cache.partitions[0]);
    let recounted = [
        (Field::ItemsLive, u64::MAX),
        (Field::UnitsLive, u64::MAX),
        (Field::UnitsLeftEarly, u64::MAX),
        (Field::UnitsLeftEarlyInMain, u64::MAX),
        (Field::SparesUsed, u64::MAX),
        (Field::SpareFree, 0),
        (Field::DataEnd, 0),
    ];
    recounted.iter().for_each(|(field, wrong)| image.set(*field, *wrong));
    image.recover().unwrap();
    for (field, _) in recounted {
        assert_eq!(image.get(field), cache.partitions[0].get(field), "{field:?}");
    }
    let (_, cache) = image::observe(&setup, image, &[], 1000);
    let reinserted = cache.stats().reinserted;
    let mut client = Client::new(&cache, 0);
    for _ in 0..10 {
        client.worker.maintain(1000);
    }
    assert_eq!(cache.stats().reinserted, reinserted, "nothing had to be cleaned");
    assert_eq!(cache.stats().buckets_split, 0);
}

/// Proves that a namespace whose invalidation was recorded, but not switched on before the kill, is
/// invalid at once, and not only after the next invalidation.
#[test]
fn a_recorded_invalidation_takes_effect_at_the_recovery() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let setup = Setup { semantics, maps: true, ..Setup::default() };
        let keys = [b"a:key".to_vec(), b"b:key".to_vec()];
        let mut killed = Killed::new(setup, keys.to_vec());
        for key in &keys {
            killed.client.set(key, b"value");
        }
        let client = &mut killed.client;
        client.worker.invalidate_namespace(b"a", 1000).unwrap();
        let image = image::copy(&killed.cache.partitions[0]);
        image.set(Field::Namespaces, 0);
        image.set(Field::Expiring, 0);
        image.recover().unwrap();
        let (seen, cache) = image::observe(&setup, image, &keys, 1000);
        assert!(seen.keys().eq([&keys[1]]), "{seen:?}");
        assert_eq!(cache.partitions[0].get(Field::Expiring), 1);
    }
}

/// Proves that no entry of a recovered cache leads to an item that was being written: a reader
/// would wait for it.
#[test]
fn no_item_of_a_recovered_cache_is_busy() {
    let keys = keys(10);
    let mut killed = Killed::new(Setup::default(), keys.clone());
    for key in &keys {
        killed.client.set(key, &[7; 64]);
    }
    let partition = &killed.cache.partitions[0];
    let hash = killed.cache.hash(&keys[3]);
    let image = image::copy(partition);
    let hash = partition.index_hash(hash);
    let found = image.writer(1000).lookup(hash, &keys[3]).unwrap();
    image.writer(1000).set_header(found.place.position, found.header.with_busy());
    image.recover().unwrap();
    image::check_accounts(&image);
    let items: usize = (0..image.buckets())
        .map(|number| image.main_bucket(number).entries())
        .map(|entries| entries.iter().filter(|entry| **entry != 0).count())
        .sum();
    assert_eq!(items, keys.len() - 1);
    let (seen, _) = image::observe(&killed.setup, image, &keys, 1000);
    assert_eq!(seen.len(), keys.len() - 1);
}
