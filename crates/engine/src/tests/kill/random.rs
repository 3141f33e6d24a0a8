//! Random operations, each killed at each of its stores.

use super::operations::{keys, set};
use super::*;

/// Stores by default, of all seeds together.
const OPERATIONS: usize = 300;
/// Operations with one partition, before a new one is made.
const SEED_OPERATIONS: usize = 100;

fn step(killed: &mut Killed, random: &mut Random) {
    let mut next = || (random.next() >> 3) as usize;
    let key = killed.keys[next() % killed.keys.len()].clone();
    let longest = killed.setup.value_bytes_max;
    let value_bytes = match next() % 8 {
        0 => next() % longest,
        _ => next() % 60,
    };
    let value = vec![b'0' + (next() % 10) as u8; value_bytes];
    let expiry_s = killed.client.now_s + 1 + (next() % 8) as u32;
    let now_s = killed.client.now_s;
    let operation = match next() % 24 {
        0..8 => set(&value, if next().is_multiple_of(4) { expiry_s } else { 0 }),
        8 => set(b"41", 0),
        9 | 10 => Operation::Increment { delta: next() as u64 },
        11 => Operation::Append { value: &value[..value.len().min(20)] },
        12 => Operation::Prepend { value: &value[..value.len().min(20)] },
        13 => Operation::Touch { expiry: Expiry(expiry_s) },
        14..18 => Operation::Delete,
        18 => Operation::MetaDelete(MetaDelete {
            invalidate: true,
            expiry: Some(Expiry(expiry_s)),
            ..MetaDelete::default()
        }),
        19 => Operation::MetaGet(MetaGet {
            value: true,
            touch: Some(Expiry(expiry_s)),
            vivify: Some(Expiry(expiry_s)),
            ..MetaGet::default()
        }),
        20 => Operation::MetaStore(MetaStore {
            value: &value,
            new_cas: next() as u64,
            cas: true,
            ..MetaStore::default()
        }),
        21 => Operation::Get { cas: true },
        22 => {
            killed.client.now_s += 2;
            let now_s = killed.client.now_s;
            return killed.at_each_store("upkeep", |client| client.worker.maintain(now_s));
        }
        _ if next().is_multiple_of(8) => {
            return killed.at_each_store("flush", |client| client.worker.flush_all(now_s, now_s));
        }
        _ => {
            return killed.at_each_store("namespace", |client| {
                let _ = client.worker.invalidate_namespace(b"key", now_s);
            });
        }
    };
    let name = format!("{operation:?}");
    killed.at_each_store(&name, |client| client.outcome(&key, operation));
}

fn run(name: &str, geometries: &[Setup]) {
    let operations = operations(OPERATIONS);
    let mut stores = 0;
    for seed in 0..operations.div_ceil(SEED_OPERATIONS).max(geometries.len()) {
        let mut random = Random((seed as u64 + 1) << 20 | 0x9e37);
        let mut keys = keys(30);
        keys.extend((0..10).map(|number| format!("key:{number}").into_bytes()));
        let mut killed = Killed::new(geometries[seed % geometries.len()], keys);
        for _ in 0..SEED_OPERATIONS.min(operations) {
            step(&mut killed, &mut random);
        }
        stores += killed.stores;
    }
    println!("{name}: killed at {stores} stores");
}

/// Proves that a store killed before any store of random operations has each item as before or as
/// afterwards: with room, full, and with an index that grows.
#[test]
fn a_store_is_exact_after_a_kill_at_any_store() {
    let roomy =
        Setup { semantics: Semantics::Store, maps: true, buckets: 16, data_units: 2048, ..Setup::default() };
    let full = Setup { data_units: 300, value_bytes_max: 200, ..roomy };
    let grows = Setup { buckets: 2, grows: true, data_units: 1024, ..roomy };
    run("store", &[roomy, full, grows]);
}

/// Proves that a cache killed before any store of random operations may miss, but never returns a
/// wrong value.
#[test]
fn a_cache_returns_no_wrong_value_after_a_kill_at_any_store() {
    let roomy = Setup { buckets: 16, data_units: 4096, ..Setup::default() };
    let evicts =
        Setup { buckets: 2, grows: true, data_units: 512, offset_bits: 12, value_bytes_max: 200, ..roomy };
    run("cache", &[roomy, evicts]);
}
