//! Snapshots and walks beside writers end, and are complete. Beside a writer that always interferes
//! they take the lock after their attempts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::{COPY_ATTEMPTS_MAX, VISIT_ATTEMPTS_MAX};
use crate::tests::support::*;
use crate::*;

const NOW_S: u32 = 1000;

/// Returns keys and values of a copy of everything, by key.
fn snapshot(cache: &Cache) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut items = BTreeMap::new();
    for (partition, of) in cache.partitions.iter().enumerate() {
        for number in 0..of.buckets() {
            cache.copy_bucket(partition, number, NOW_S, &mut |item| {
                items.insert(item.key.clone(), item.value.clone());
            });
        }
    }
    items
}

/// Proves that a snapshot of a cache whose process was killed in an overwrite ends.
#[test]
fn a_snapshot_of_a_recovered_cache_ends() {
    let items = within(60, || {
        let setup = Setup { maps: true, ..Setup::default() };
        let cache = setup.cache();
        let mut client = Client::new(&cache, 0);
        assert_eq!(client.set(b"key", b"value"), Outcome::Stored);
        assert_eq!(client.set(b"other", b"stays"), Outcome::Stored);
        drop(client);
        stop_writer_in(&cache, b"key");
        leave_busy(&cache, b"key");
        let maps = cache.config().maps.clone().unwrap();
        drop(cache);
        snapshot(&setup.cache_in(Some(Maps { kept: true, ..maps })))
    });
    assert_eq!(items.len(), 1);
    assert_eq!(items[b"other".as_slice()], b"stays");
}

/// Proves that an item that stays busy is left out of snapshots and walks, which end.
#[test]
fn an_item_that_stays_busy_is_left_out() {
    let (items, shown) = within(60, || {
        let cache = Setup::default().cache();
        let mut client = Client::new(&cache, 0);
        assert_eq!(client.set(b"key", b"value"), Outcome::Stored);
        assert_eq!(client.set(b"other", b"stays"), Outcome::Stored);
        leave_busy(&cache, b"key");
        (snapshot(&cache).len(), walk(&client))
    });
    assert_eq!((items, shown), (1, 1));
}

/// Proves that a snapshot beside a writer that never leaves a bucket takes the lock after its
/// attempts, and copies everything once, in every access mode.
#[test]
fn a_snapshot_beside_a_hot_bucket_is_complete() {
    for access in [Access::Erew, Access::Crew, Access::Crcw] {
        let retries = within(60, move || {
            let setup = Setup { access, ..crew() };
            let cache = setup.cache();
            let mut owner = Client::new(&cache, 0);
            for number in 0..100u32 {
                let key = number.to_le_bytes();
                assert_eq!(owner.set(&key, &vec![7; 500]), Outcome::Stored);
            }
            stop_writer_in(&cache, &7u32.to_le_bytes());
            assert_eq!(snapshot(&cache).len(), 100, "{access:?}");
            cache.stats().read_retries
        });
        assert_eq!(retries, COPY_ATTEMPTS_MAX as u64 - 1);
    }
}

/// Proves that items copied already are not copied again when a neighbour was written meanwhile,
/// and that a key whose entry changes all the time is copied once.
#[test]
fn a_snapshot_copies_item_by_item() {
    let cache = Setup { buckets: 2, ..Setup::default() };
    let cache = cache.cache();
    let mut client = Client::new(&cache, 0);
    let bucket = |key: &[u8]| {
        let hash = cache.hash(key);
        let partition = cache.partition(hash);
        partition.index_hash(hash).bucket(partition.all_buckets()) as u64
    };
    let names = (0..).map(|number: u32| format!("key-{number}").into_bytes());
    let mut keys: Vec<_> = names.filter(|key| bucket(key) == 0).take(4).collect();
    keys.sort();
    for key in &keys {
        assert_eq!(client.set(key, b"value"), Outcome::Stored);
    }
    let mut taken = Vec::new();
    let mut retries = 0;
    cache.copy_bucket(0, 0, NOW_S, &mut |item| {
        taken.push(item.key.clone());
        // The first key moves to another place, because its value becomes longer each time.
        retries += 1;
        let longer = vec![7; 20 * retries];
        assert_eq!(client.set(&keys[0], &longer), Outcome::Stored);
    });
    taken.sort();
    assert_eq!(taken, keys);
    assert!(cache.stats().read_retries >= 3);
}

/// Returns the number of items that a walk shows.
fn walk(client: &Client) -> usize {
    let (mut walk, mut keys) = (Walk::default(), Keys::default());
    assert_eq!(client.worker.walk(&mut walk, 1 << 20, NOW_S, &mut keys), Walked::End);
    keys.kept.len()
}

/// Proves that a walk beside a writer that never leaves a bucket takes the lock after its attempts,
/// in every access mode, on the thread of a worker and on others.
#[test]
fn a_walk_beside_a_hot_bucket_is_complete() {
    for access in [Access::Erew, Access::Crew, Access::Crcw] {
        let retries = within(60, move || {
            let setup = Setup { access, ..crew() };
            let cache = setup.cache();
            let mut owner = Client::new(&cache, 0);
            for number in 0..100u32 {
                assert_eq!(owner.set(&number.to_le_bytes(), b"value"), Outcome::Stored);
            }
            stop_writer_in(&cache, &7u32.to_le_bytes());
            assert_eq!(walk(&owner), 100);
            let (mut walk, mut keys) = (Walk::default(), Keys::default());
            let walked = cache.walk(&mut walk, 1 << 20, NOW_S, &mut keys);
            assert_eq!((walked, keys.kept.len()), (Walked::End, 100), "{access:?}");
            cache.stats().read_retries
        });
        assert_eq!(retries, 2 * (VISIT_ATTEMPTS_MAX as u64 - 1));
    }
}

/// Proves that a snapshot of a store beside a writer of the same buckets has every item that was
/// stored before it began, long values too, although the writer's keys move all the time.
#[test]
fn a_snapshot_beside_writers_misses_nothing_of_a_store() {
    for access in [Access::Erew, Access::Crcw] {
        within(120, move || {
            let setup = Setup { semantics: Semantics::Store, buckets: 8, access, ..crew() };
            let cache = setup.cache();
            let mut owner = Client::new(&cache, 0);
            for number in 0..10u32 {
                let stays = vec![number as u8; 20_000];
                assert_eq!(owner.set(&number.to_le_bytes(), &stays), Outcome::Stored);
                assert_eq!(owner.set(format!("hot-{number}").as_bytes(), b"1"), Outcome::Stored);
            }
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let is_over = &is_over;
                scope.spawn(move || {
                    for step in 0usize.. {
                        let key = format!("hot-{}", step % 10);
                        let value = vec![b'1'; 1 + step % 50];
                        assert_eq!(owner.set(key.as_bytes(), &value), Outcome::Stored);
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
                for _ in 0..20 {
                    let items = snapshot(&cache);
                    assert_eq!(items.len(), 20);
                    for number in 0..10u32 {
                        let stays = &items[number.to_le_bytes().as_slice()];
                        assert_eq!(*stays, vec![number as u8; 20_000]);
                        let hot = &items[format!("hot-{number}").as_bytes()];
                        assert!(hot.iter().all(|byte| *byte == b'1'));
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
        });
    }
}
