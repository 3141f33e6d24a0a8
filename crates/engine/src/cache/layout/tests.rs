//! Divisions of memories of many sizes.

use std::sync::Arc;

use super::*;
use crate::tests::support::{Client, store};
use crate::*;
use proptest::prelude::*;

fn config(memory_bytes: usize, value_bytes_max: usize, workers: usize) -> Config {
    Config { memory_bytes, value_bytes_max, workers, ..Config::default() }
}

proptest! {
    #[test]
    fn a_layout_stays_within_its_memory(
        memory_bytes in MEMORY_BYTES_MIN..1usize << 40,
        value_shift in 10u32..30,
        hint in prop::option::of(2usize..100_000),
        workers in 1usize..200,
        store in any::<bool>(),
    ) {
        let mut config = config(memory_bytes, 1 << value_shift, workers);
        config.item_bytes_hint = hint;
        config.semantics = if store { Semantics::Store } else { Semantics::Cache };
        if let Ok(layout) = Layout::of(&config) {
            let all = layout.partitions * layout.partition_bytes;
            prop_assert!(all <= memory_bytes);
            prop_assert!(all > memory_bytes * 7 / 8);
            prop_assert!(layout.partitions.is_power_of_two());
            prop_assert!(layout.partition_bytes <= PARTITION_BYTES_MAX);
            let partition = layout.partition(&config, Secret::KNOWN, 0);
            prop_assert!(partition.data_end(partition.buckets) > partition.data_first() as u64);
            prop_assert!(partition.buckets_max() >= partition.buckets);
            prop_assert!(partition.room_units_min() >= partition.item_units_max);
            let least = partition.data_first() as u64 + partition.data_units_min;
            prop_assert!(partition.data_end(partition.buckets_max()) + 16 > least);
        }
    }
}

/// The first index of a hint of tiny items took a part of the least data space.
#[test]
fn a_hint_of_tiny_items_leaves_the_least_data_space() {
    let config = Config { item_bytes_hint: Some(2), ..config(MEMORY_BYTES_MIN, 1 << 10, 1) };
    let partition = Layout::of(&config).unwrap().partition(&config, Secret::KNOWN, 0);
    let least = partition.data_first() as u64 + partition.data_units_min;
    assert!(partition.data_end(partition.buckets_max()) + 16 > least);
}

#[test]
fn a_limit_of_partitions_makes_more_of_them() {
    let limited = |memory_bytes, value_bytes_max| {
        Layout::of(&Config { partition_bytes_max: 512 << 20, ..config(memory_bytes, value_bytes_max, 1) })
    };
    for (memory_gib, partitions) in [(1, 4), (4, 8), (64, 128), (512, 1024)] {
        let layout = limited(memory_gib << 30, 1 << 20).unwrap();
        assert_eq!(layout.partitions, partitions);
        assert!(layout.partition_bytes <= 512 << 20);
        assert_eq!(layout.partitions * layout.partition_bytes, memory_gib << 30);
    }
    let text = |layout: Result<Layout, CreateError>| layout.unwrap_err().to_string();
    assert!(text(limited(600 << 30, 1 << 20)).contains("1024 partitions"));
    assert!(text(limited(4 << 30, 512 << 20)).contains("at most 536870912 bytes"));
    assert!(text(limited(512 << 20, 512 << 20)).contains("more memory"));
}

#[test]
fn a_simulated_cache_has_the_requested_data_space() {
    for bytes in [1 << 10, 8 * 29_227, 300_000, 64 << 20] {
        let mut config = config(bytes, 1 << 20, 4);
        config.simulated = Some(Simulated::Items);
        let layout = Layout::of(&config).unwrap();
        let partition = layout.partition(&config, Secret::KNOWN, 0);
        assert_eq!(layout.partitions, 1);
        let most = partition.buckets_max();
        for buckets in [partition.buckets, most] {
            let units = partition.data_end(buckets) - partition.data_first() as u64;
            assert_eq!(units, bytes as u64 / 64 * 8);
        }
        // Items of two units, and the load at which the index always grows.
        assert!(most as usize * BUCKET_ENTRIES >= bytes / 16);
        config.simulated = Some(Simulated::Memory);
        let layout = Layout::of(&config).unwrap();
        let partition = layout.partition(&config, Secret::KNOWN, 0);
        let index_units = partition.index_lines(partition.buckets) * 8;
        assert_eq!(partition.data_units() + index_units, bytes as u64 / 64 * 8);
        config.semantics = Semantics::Store;
        assert!(Layout::of(&config).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..Default::default() })]

    /// Proves that the largest accepted value fits when the index has grown to its limit.
    #[test]
    fn the_largest_value_fits_when_the_index_has_grown(
        memory_kib in 1024usize..2048,
        hint in prop::option::of(2usize..300),
        eviction in prop::sample::select(&Eviction::ALL[..]),
        store in any::<bool>(),
    ) {
        let of = |value_bytes_max| Config {
            item_bytes_hint: hint,
            eviction,
            semantics: if store { Semantics::Store } else { Semantics::Cache },
            ..config(memory_kib << 10, value_bytes_max, 1)
        };
        let sizes: Vec<_> = (VALUE_BYTES_MAX_MIN..memory_kib << 10).step_by(8).collect();
        let taken = sizes.partition_point(|size| Layout::of(&of(*size)).is_ok());
        prop_assert!(taken * 8 > memory_kib << 8, "values of {taken} units are too few");
        largest_after_growth(&of(sizes[taken - 1]));
    }
}

fn largest_after_growth(config: &Config) {
    let cache = Arc::new(Cache::new(config).unwrap());
    let mut client = Client::new(&cache, 0);
    let partition = &cache.partitions[0];
    let most = partition.layout.buckets_max();
    let mut stored = 0u64;
    // A cache gives its log up lap by lap.
    while partition.buckets() < most && stored < config.memory_bytes as u64 / 4 {
        stored += 1;
        assert_eq!(client.set(&stored.to_le_bytes(), b"12345678"), Outcome::Stored);
        partition.writer(1000).grow(0);
    }
    assert_eq!(partition.buckets(), most);
    for number in 1..=stored {
        client.outcome(&number.to_le_bytes(), Operation::Delete);
    }
    let value = vec![7; config.value_bytes_max];
    let key = [b'k'; KEY_BYTES_MAX];
    let largest = store(Condition::Always, &value, 1, 2000);
    assert_eq!(client.outcome(&key, largest), Outcome::Stored);
    assert_eq!(client.get(&key), Some(value));
}

#[test]
fn small_memories_have_few_partitions() {
    let partitions = |mib: usize, value: usize, workers| {
        Layout::of(&config(mib << 20, value, workers)).unwrap().partitions
    };
    assert_eq!(partitions(64, 1 << 20, 1), 2);
    assert_eq!(partitions(256, 16 << 20, 4), 1);
    assert_eq!(partitions(1024, 1 << 20, 1), 4);
    assert_eq!(partitions(1024, 1 << 20, 4), 16);
}

#[test]
fn memory_that_cannot_hold_its_largest_value_is_refused() {
    let error = Layout::of(&config(64 << 20, 40 << 20, 1)).unwrap_err();
    assert!(error.to_string().contains("too small"), "{error}");
    assert!(Layout::of(&config(1, 1 << 20, 1)).is_err());
    assert!(Layout::of(&config(64 << 20, 1 << 20, 0)).is_err());
}
