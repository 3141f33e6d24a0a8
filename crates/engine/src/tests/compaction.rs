//! Compaction of a store beside its requests: nothing is lost by it, and it ends.

use super::room::Filled;
use super::support::*;
use crate::partition::Field;
use crate::*;

/// Stores values so large that the next one of `value_bytes` finds neither space nor enough that is
/// scattered, until two looks for it have ended: an expired item in the far half of the index.
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

/// Stores an item that expires, in a bucket that the first call of the sweep does not come to.
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
    let operation = super::support::store(Condition::Always, &value, 0, 1500);
    assert_eq!(store.client.outcome(&key, operation), Outcome::Stored);
}

/// A long value whose look for space moves the item that it replaces leaves all other items.
#[test]
fn a_long_value_that_needs_two_looks_for_space_loses_no_other_item() {
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
        // The next look comes to the item that has expired.
        assert!(store.set(b"found", 3000));
        store.client.now_s = 1000;
        store.check();
    }
}
