//! Namespaces.

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
