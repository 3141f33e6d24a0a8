//! Namespaces, and the full store.

use crate::limits::NAMESPACES_MAX;
use crate::tests::support::*;
use crate::*;

fn geometry(semantics: Semantics) -> Setup {
    Setup { buckets: 256, data_units: 4096, semantics, workers: 2, ..Setup::default() }
}

#[test]
fn a_namespace_ends_at_once_and_later_items_stay() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let cache = geometry(semantics).cache();
        let client = &mut Client::new(&cache, 0);
        for key in ["a:1", "a:2", "b:1", "a", "ab:1"] {
            assert_eq!(client.set(key.as_bytes(), b"old"), Outcome::Stored);
        }
        client.worker.invalidate_namespace(b"a", 1000).unwrap();
        assert_eq!(client.get(b"a:1"), None);
        assert_eq!(client.outcome(b"a:2", Operation::Delete), Outcome::NotFound);
        for key in ["b:1", "a", "ab:1"] {
            assert_eq!(client.get(key.as_bytes()).unwrap(), b"old", "{key}");
        }
        client.set(b"a:1", b"new");
        client.worker.invalidate_namespace(b"b", 1000).unwrap();
        assert_eq!(client.get(b"a:1").unwrap(), b"new");
        client.worker.invalidate_namespace(b"a", 1000).unwrap();
        assert_eq!(client.get(b"a:1"), None);
        assert_eq!(client.get(b"b:1"), None);
    }
}

#[test]
fn items_of_an_invalid_namespace_are_removed_without_requests() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let cache = geometry(semantics).cache();
        let client = &mut Client::new(&cache, 0);
        for number in 0..50 {
            client.set(format!("n:{number}").as_bytes(), b"value");
        }
        assert_eq!(cache.stats().items_live, 50);
        client.worker.invalidate_namespace(b"n", 1000).unwrap();
        for _ in 0..4 {
            client.worker.maintain(1000);
        }
        assert_eq!(cache.stats().items_live, 0, "{semantics:?}");
    }
}

#[test]
fn namespaces_beyond_the_table_are_refused_until_the_sweep_has_been_there() {
    let cache = geometry(Semantics::Store).cache();
    let client = &mut Client::new(&cache, 0);
    client.set(b"n0:key", b"value");
    let mut refused = 0;
    for number in 0..NAMESPACES_MAX + 10 {
        let name = format!("n{number}");
        refused += usize::from(client.worker.invalidate_namespace(name.as_bytes(), 1000).is_err());
    }
    assert_eq!(refused, 10);
    assert_eq!(client.get(b"n0:key"), None);
    client.set(b"n0:key", b"again");
    for _ in 0..4 {
        client.worker.maintain(1000);
    }
    assert!(client.worker.invalidate_namespace(b"another", 1000).is_ok());
    assert_eq!(client.get(b"n0:key").unwrap(), b"again");
}

#[test]
fn a_full_store_refuses_and_keeps_the_old_value() {
    let cache = geometry(Semantics::Store).cache();
    let client = &mut Client::new(&cache, 0);
    let mut stored = 0u32;
    while client.set(&stored.to_le_bytes(), &[stored as u8; 90]) == Outcome::Stored {
        stored += 1;
    }
    assert!(stored > 200, "{stored}");
    assert_eq!(client.set(&7u32.to_le_bytes(), &[1; 400]), Outcome::OutOfMemory);
    for number in 0..stored {
        assert_eq!(client.get(&number.to_le_bytes()).unwrap(), [number as u8; 90]);
    }
    // An expired item frees space at once, without a request for it.
    let touch = Operation::GetAndTouch { expiry: Expiry(1001), cas: false };
    client.outcome(&9u32.to_le_bytes(), Operation::Delete);
    client.outcome(&10u32.to_le_bytes(), Operation::Delete);
    assert_eq!(client.set(b"more", &[3; 60]), Outcome::Stored);
    assert_eq!(client.ask(b"more", touch).outcome, Some(Outcome::Hit));
    client.now_s = 1001;
    assert_eq!(client.set(b"last", &[4; 60]), Outcome::Stored);
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
    assert!(stats.spare_buckets_used <= stats.spare_buckets);
}
