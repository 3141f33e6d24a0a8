//! Pages of a gap go back when nobody can touch them any more.

use std::sync::Arc;

use crate::partition::limit::Gap;
use crate::{Access, Cache, Config};

const MIB: usize = 1 << 20;

fn cache() -> Arc<Cache> {
    let config = Config {
        memory_bytes: 32 * MIB,
        memory_bytes_max: Some(32 * MIB),
        value_bytes_max: 4096,
        partition_bytes_max: 32 * MIB,
        workers: 2,
        access: Access::Crcw,
        ..Config::default()
    };
    let cache = Arc::new(Cache::new(&config).unwrap());
    assert_eq!(cache.partitions.len(), 2);
    cache
}

/// Two limits that are set at once leave that of one of them, in every partition.
#[test]
fn limits_that_are_set_at_once_do_not_mix() {
    let cache = cache();
    let set = |limits: [usize; 2]| {
        for round in 0..5000 {
            cache.set_memory_limit(limits[round % 2] * MIB).unwrap();
        }
    };
    for _ in 0..5 {
        std::thread::scope(|scope| {
            scope.spawn(|| set([8, 24]));
            scope.spawn(|| set([16, 32]));
        });
        let of_one = cache.memory_limit_bytes() as u64 / 8 / 2;
        assert!(cache.partitions.iter().all(|partition| partition.limit.words() == of_one));
    }
}

/// Returns the bytes of the main gap whose pages have gone back, of both partitions.
fn given_bytes(cache: &Cache) -> u64 {
    cache.partitions.iter().map(|partition| partition.given_bytes(Gap::Main)).sum()
}

/// A worker that read beside a lower limit was in danger of touching pages that had gone back.
#[test]
fn pages_go_back_after_each_worker_has_left_its_batch() {
    let cache = cache();
    let (mut one, other) = (cache.worker(0).unwrap(), cache.worker(1).unwrap());
    let batch = other.enter();
    cache.set_memory_limit(8 * MIB).unwrap();
    (0..100).for_each(|_| one.maintain(1000));
    assert_eq!(given_bytes(&cache), 0);
    drop(batch);
    (0..100).for_each(|_| one.maintain(1000));
    assert!(given_bytes(&cache) > 8 * MIB as u64, "{}", given_bytes(&cache));
}

/// A walk, a copy or a collapse keeps the pages that it may touch.
#[test]
fn pages_go_back_after_they_were_pinned() {
    let cache = cache();
    let (mut one, _other) = (cache.worker(0).unwrap(), cache.worker(1).unwrap());
    let pins: Vec<_> = cache.partitions.iter().map(|partition| partition.pages.pin()).collect();
    cache.set_memory_limit(8 * MIB).unwrap();
    (0..100).for_each(|_| one.maintain(1000));
    assert_eq!(given_bytes(&cache), 0);
    drop(pins);
    (0..100).for_each(|_| one.maintain(1000));
    assert!(given_bytes(&cache) > 8 * MIB as u64, "{}", given_bytes(&cache));
}

/// Pages that leave a hole are present, and a hole that comes again waits anew.
#[test]
fn a_hole_that_comes_again_waits_for_batches_again() {
    let cache = cache();
    let (mut one, other) = (cache.worker(0).unwrap(), cache.worker(1).unwrap());
    for _ in 0..3 {
        cache.set_memory_limit(8 * MIB).unwrap();
        (0..100).for_each(|_| one.maintain(1000));
        assert!(given_bytes(&cache) > 8 * MIB as u64);
        cache.set_memory_limit(32 * MIB).unwrap();
        (0..100).for_each(|_| one.maintain(1000));
        assert_eq!(given_bytes(&cache), 0);
        let batch = other.enter();
        cache.set_memory_limit(8 * MIB).unwrap();
        (0..100).for_each(|_| one.maintain(1000));
        assert_eq!(given_bytes(&cache), 0);
        drop(batch);
    }
}
