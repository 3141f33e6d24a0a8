//! Overwriting when a store whose memory outlives the process is full.

use crate::region::Field;
use crate::tests::support::*;
use crate::*;

fn kept_store(workers: usize) -> Setup {
    Setup {
        semantics: Semantics::Store,
        maps: true,
        value_bytes_max: 3000,
        data_units: 8 * 512,
        buckets: 256,
        workers,
        ..Setup::default()
    }
}

/// Stores items of a length until there is no room for another one, and one that takes the rest.
fn fill(client: &mut Client, value_bytes: usize) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut value_bytes = value_bytes;
    loop {
        let key = format!("key-{:03}", keys.len()).into_bytes();
        if client.set(&key, &vec![b'1'; value_bytes]) == Outcome::Stored {
            keys.push(key);
        } else if value_bytes > 0 {
            value_bytes = value_bytes.saturating_sub(8);
        } else {
            return keys;
        }
    }
}

fn check(cache: &Cache, client: &mut Client, expected: &[(Vec<u8>, Vec<u8>)]) {
    for (key, value) in expected {
        assert_eq!(client.get(key).as_ref(), Some(value));
    }
    let partition = &cache.partitions[0];
    partition.heap().check();
    assert_eq!(cache.stats().items_live, expected.len() as u64);
    assert_eq!(cache.items_in_index(), expected.len() as u64);
}

/// Proves that a value that is not longer takes the place of the old one, by every operation that
/// can write one, with one worker and with several.
#[test]
fn a_full_store_takes_values_that_are_not_longer() {
    for (workers, value_bytes) in [(1, 40), (1, 1500), (2, 40), (2, 1500)] {
        let cache = kept_store(workers).cache();
        let mut client = Client::new(&cache, 0);
        let keys = fill(&mut client, value_bytes);
        let stats = cache.stats();
        assert!(stats.item_bytes_live * 10 >= stats.data_bytes * 8, "{stats:?}");
        let refused = stats.out_of_memory;
        let old = vec![b'1'; value_bytes];
        let mut expected: Vec<_> = keys.iter().map(|key| (key.clone(), old.clone())).collect();
        for (key, value) in &mut expected {
            *value = client.get(key).unwrap();
        }
        for (number, (key, value)) in expected.iter_mut().enumerate().take(16) {
            let equal = vec![b'2'; value.len()];
            let outcome = match number {
                0 | 4 => client.set(key, &equal),
                1 | 5 => client.outcome(key, store(Condition::Present, &equal, 0, 0)),
                2 | 6 => {
                    let cas = client.ask(key, Operation::Get { cas: true }).cas;
                    client.outcome(key, store(Condition::Unchanged(cas), &equal, 0, 0))
                }
                _ => {
                    let meta = MetaStore { value: &equal, cas: true, ..MetaStore::default() };
                    client.outcome(key, Operation::MetaStore(meta))
                }
            };
            assert_eq!(outcome, Outcome::Stored, "{number}");
            *value = equal;
        }
        check(&cache, &mut client, &expected);
        assert_eq!(cache.stats().out_of_memory, refused);
        // Longer ones are refused, and the old items stay.
        for (key, value) in &expected {
            let longer = vec![b'3'; value.len() + 64];
            assert_eq!(client.set(key, &longer), Outcome::OutOfMemory);
            let append = Operation::Append { value: &[b'3'; 64] };
            assert_eq!(client.outcome(key, append), Outcome::OutOfMemory);
        }
        check(&cache, &mut client, &expected);
        // Shorter ones free space at once.
        let (key, value) = &mut expected[0];
        *value = b"2".to_vec();
        assert_eq!(client.set(key, value), Outcome::Stored);
        check(&cache, &mut client, &expected);
    }
}

/// Proves that numbers, empty appends, expiries and states that an item has space for are written
/// in a full store.
#[test]
fn a_full_store_executes_increments_and_touches() {
    let cache = kept_store(1).cache();
    let mut client = Client::new(&cache, 0);
    let expiring = store(Condition::Always, b"41", 0, 2000);
    assert_eq!(client.outcome(b"number", expiring), Outcome::Stored);
    let keys = fill(&mut client, 40);
    let increment = Operation::Increment { delta: 1 };
    assert_eq!(client.outcome(b"number", increment), Outcome::Number(42));
    let decrement = Operation::Decrement { delta: 40 };
    assert_eq!(client.outcome(b"number", decrement), Outcome::Number(2));
    let append = Operation::Append { value: b"" };
    assert_eq!(client.outcome(b"number", append), Outcome::Stored);
    let expiry = Expiry(3000);
    let touch = Operation::Touch { expiry };
    assert_eq!(client.outcome(b"number", touch), Outcome::Touched);
    assert_eq!(client.get(b"number").as_deref(), Some(&b"2 "[..]));
    assert_eq!(cache.stats().items_live, keys.len() as u64 + 1);
    client.now_s = 2500;
    assert!(client.get(b"number").is_some());
    cache.partitions[0].heap().check();
}

/// Proves that a full store refuses to overwrite an item that does not fit the reserve, and that
/// its old value stays.
#[test]
fn an_item_longer_than_the_reserve_is_refused_in_a_full_store() {
    let cache = kept_store(1).cache();
    let layout = cache.partitions[0].layout;
    let longest = layout.reserve_units as usize * 8 - 4 * 8;
    assert!(longest < 3000, "the reserve is a part of the partition");
    let mut client = Client::new(&cache, 0);
    assert_eq!(client.set(b"longest", &vec![1; longest]), Outcome::Stored);
    assert_eq!(client.set(b"longer", &vec![1; longest + 64]), Outcome::Stored);
    fill(&mut client, 40);
    assert_eq!(client.set(b"longest", &vec![2; longest]), Outcome::Stored);
    let refused = client.set(b"longer", &vec![2; longest + 64]);
    assert_eq!(refused, Outcome::OutOfMemory);
    assert_eq!(client.get(b"longer"), Some(vec![1; longest + 64]));
    assert_eq!(client.get(b"longest"), Some(vec![2; longest]));
    // A delete frees space for it.
    assert_eq!(client.outcome(b"longest", Operation::Delete), Outcome::Deleted);
    assert_eq!(client.set(b"longer", &vec![2; longest]), Outcome::Stored);
}

/// Proves that no word of an old value is written while the index leads to it.
#[test]
fn a_kept_store_never_overwrites_in_place() {
    let cache = kept_store(1).cache();
    let mut client = Client::new(&cache, 0);
    assert_eq!(client.set(b"key", b"old"), Outcome::Stored);
    assert_eq!(client.set(b"key", b"new"), Outcome::Stored);
    let increments = store(Condition::Always, b"1", 0, 0);
    assert_eq!(client.outcome(b"number", increments), Outcome::Stored);
    client.outcome(b"number", Operation::Increment { delta: 1 });
    let partition = &cache.partitions[0];
    assert_eq!(partition.get(Field::ItemsOverwritten), 0);
    assert_eq!(partition.get(Field::ItemsInserted), 4);
}

#[test]
fn main_buckets_hold_most_items_of_a_full_store_and_a_tenth_of_spare_ones_suffices() {
    let geometry = Setup {
        buckets: 64,
        data_units: 1 << 20,
        grows: true,
        semantics: Semantics::Store,
        ..Setup::default()
    };
    let cache = geometry.cache();
    let client = &mut Client::new(&cache, 0);
    let mut number = 0u64;
    while client.set(&number.to_le_bytes(), &[1; 16]) == Outcome::Stored {
        number += 1;
    }
    let stats = cache.stats();
    let space = stats.item_bytes_live as f64 / (geometry.data_units * 8) as f64;
    let (main, chained) = cache.entries_in_main_and_spare();
    let in_main = main as f64 / (main + chained) as f64;
    let lines = (main + 2 * chained) as f64 / (main + chained) as f64;
    println!("{space:.3} of the space, {in_main:.3} in main buckets, {lines:.3} lines, {stats:?}");
    assert!(in_main >= 0.93 && lines <= 1.1, "{in_main} {lines}");
    assert!(space >= 0.7, "{space}");
    assert!(stats.spare_buckets_used <= stats.spare_buckets);
}
