//! The index grows, and the limit of the memory changes: the space of items ends where the gap before the
//! index begins, and no request pays for a lap.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::limits::MEMORY_BYTES_MIN;
use crate::log::LogKind;
use crate::region::{Field, LogField};
use crate::*;

const NOW_S: u32 = 1_000;

fn store(worker: &mut Worker, number: u64, bytes: usize) {
    let outcome = worker.set(&number.to_le_bytes(), &vec![0; bytes], Expiry::NEVER, NOW_S);
    assert_eq!(outcome, Outcome::Stored);
}

fn partition(cache: &Cache) -> &crate::partition::Partition {
    let [partition] = &cache.partitions[..] else { panic!("{} partitions", cache.partitions.len()) };
    partition
}

/// The data space ends before the gap, and main within the data space.
fn check_ends(cache: &Cache, when: &str) {
    let p = partition(cache);
    let (end, main) = (p.get(Field::DataEnd), p.log(LogKind::Main));
    assert!(end <= p.data_end(p.buckets()), "{when}: the data space ends in the gap");
    assert!(main.get(LogField::Limit) <= end - main.get(LogField::First), "{when}: main ends in the gap");
}

/// The new end of main was that before the index had grown for items that came from the small log.
#[test]
fn an_index_that_grows_while_the_memory_shrinks_leaves_the_gap_alone() {
    let mut grown = 0;
    for seed in 1..30 {
        let config = Config {
            memory_bytes: 4 * MEMORY_BYTES_MIN,
            memory_bytes_max: Some(8 * MEMORY_BYTES_MIN),
            value_bytes_max: 1024,
            seed,
            ..Config::default()
        };
        let cache = Arc::new(Cache::new(&config).unwrap());
        let mut worker = cache.worker(0).unwrap();
        // The index waits, as it does once it has found no space.
        partition(&cache).limit.growth_retry.store(u64::MAX, Relaxed);
        for number in 0..5_000 + 500 * seed {
            store(&mut worker, number, 1);
            (0..2).for_each(|_| worker.get_with(&number.to_le_bytes(), NOW_S, |_, _| ()).unwrap().unwrap());
        }
        partition(&cache).limit.growth_retry.store(0, Relaxed);
        cache.set_memory_limit(4 * MEMORY_BYTES_MIN / 4 * 3).unwrap();
        let before = partition(&cache).buckets();
        for round in 0..20 {
            worker.maintain(NOW_S);
            check_ends(&cache, &format!("seed {seed}, round {round}"));
        }
        grown += u64::from(partition(&cache).buckets() > before);
    }
    assert!(grown > 0, "the index never grew in upkeep");
}

/// The last thirty-second of a lap was evicted in one request: up to 17,008 items here.
#[test]
fn the_end_of_a_lap_that_the_index_cuts_is_evicted_bit_by_bit() {
    for (first_bytes, second_bytes) in [(1_000, 300), (400, 24)] {
        let config = Config {
            memory_bytes: 30 << 20,
            value_bytes_max: 4096,
            eviction: Eviction::Fifo,
            ..Config::default()
        };
        let cache = Arc::new(Cache::new(&config).unwrap());
        let mut worker = cache.worker(0).unwrap();
        let count = (2 * config.memory_bytes / first_bytes) as u64;
        (0..count).for_each(|number| store(&mut worker, number, first_bytes));
        let evicted = |cache: &Cache| partition(cache).get(Field::EvictedLog);
        let (mut most, buckets) = (0, partition(&cache).buckets());
        for number in count..count + (2 * config.memory_bytes / second_bytes) as u64 {
            let before = evicted(&cache);
            store(&mut worker, number, second_bytes);
            most = most.max(evicted(&cache) - before);
            if number % 64 == 0 {
                worker.begin_turn();
            }
        }
        assert!(partition(&cache).buckets() > buckets, "the index never grew");
        let evicting = format!("an insertion of {second_bytes} bytes behind values of {first_bytes}");
        assert!(most <= 600, "{evicting} evicted {most} items");
    }
}
