//! Meta operations: the effect of each flag, in caches and stores, in every access mode.

use crate::tests::support::{Replies, Reply, Setup, store};
use crate::*;

/// A client of one key.
struct Client {
    worker: Worker,
    now_s: u32,
}

const KEY: &[u8] = b"key";

/// Runs a test in every mode: items and CAS values differ, replies do not.
fn everywhere(test: impl Fn(&mut Client)) {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for (workers, access) in [(1, Access::Erew), (2, Access::Crcw)] {
            let geometry = Setup { semantics, workers, access, ..Setup::default() };
            test(&mut Client { worker: geometry.cache().worker(0).unwrap(), now_s: 1000 });
        }
    }
}

impl Client {
    fn ask(&mut self, operation: Operation<'_>) -> Reply {
        let mut replies = Replies::default();
        let hash = self.worker.cache().hash(KEY);
        let request = Request { hash, key: KEY, operation };
        assert_eq!(self.worker.execute(&[request], self.now_s, &mut replies), 1);
        replies.0.pop().unwrap()
    }

    fn set(&mut self, value: &[u8]) {
        let stored = self.ask(store(Condition::Always, value, 7, 0));
        assert_eq!(stored.outcome, Some(Outcome::Stored));
    }

    /// Gets without a trace.
    fn look(&mut self) -> Reply {
        self.get(MetaGet { value: true, cas: true, uncounted: true, ..MetaGet::default() })
    }

    fn get(&mut self, get: MetaGet) -> Reply {
        self.ask(Operation::MetaGet(get))
    }

    fn cas(&mut self) -> u64 {
        self.look().item.cas
    }

    fn store(&mut self, store: MetaStore<'_>) -> Reply {
        self.ask(Operation::MetaStore(store))
    }

    fn delete(&mut self, delete: MetaDelete) -> Outcome {
        self.ask(Operation::MetaDelete(delete)).outcome.unwrap()
    }

    fn count(&mut self, by: MetaArithmetic) -> Reply {
        self.ask(Operation::MetaArithmetic(by))
    }
}

fn value_get() -> MetaGet {
    MetaGet { value: true, ..MetaGet::default() }
}

#[test]
fn the_cas_value_of_a_stored_item_is_known_and_changes_with_every_write() {
    everywhere(|client| {
        let mut seen = Vec::new();
        for round in 0..20u8 {
            let reply =
                client.store(MetaStore { value: &[b'0' + round % 9; 3], cas: true, ..MetaStore::default() });
            assert_eq!(reply.outcome, Some(Outcome::Stored));
            assert_eq!(client.cas(), reply.item.cas);
            seen.push(reply.item.cas);
            let reply = client.count(MetaArithmetic { delta: 1, cas: true, ..MetaArithmetic::default() });
            assert_eq!(client.cas(), reply.item.cas);
            seen.push(reply.item.cas);
            let reply = client.store(MetaStore {
                value: b"1",
                mode: StoreMode::Append,
                cas: true,
                ..MetaStore::default()
            });
            assert_eq!((client.cas(), reply.item.value_bytes), (reply.item.cas, 4));
            seen.push(reply.item.cas);
            client.set(b"1");
            assert!(!seen.contains(&client.cas()));
            seen.push(client.cas());
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    });
}

#[test]
fn cas_values_are_compared_by_every_change() {
    everywhere(|client| {
        client.set(b"5");
        let cas = client.cas();
        let (right, wrong) = (Some(cas), Some(cas + 1));
        let set = |compare, mode| MetaStore { value: b"6", compare, mode, ..MetaStore::default() };
        for mode in [StoreMode::Set, StoreMode::Replace, StoreMode::Append, StoreMode::PrependOrSet] {
            assert_eq!(client.store(set(wrong, mode)).outcome, Some(Outcome::Exists));
        }
        assert_eq!(client.store(set(right, StoreMode::Add)).outcome, Some(Outcome::NotStored));
        let by = |compare| MetaArithmetic { delta: 1, compare, ..MetaArithmetic::default() };
        let delete = |compare| MetaDelete { compare, ..MetaDelete::default() };
        assert_eq!(client.count(by(cas + 1)).outcome, Some(Outcome::Exists));
        assert_eq!(client.delete(delete(wrong)), Outcome::Exists);
        assert_eq!(client.cas(), cas);
        assert_eq!(client.store(set(right, StoreMode::Append)).outcome, Some(Outcome::Stored));
        assert_eq!(client.look().value, b"56");
        assert_eq!(client.count(by(cas)).outcome, Some(Outcome::Exists));
        let cas = client.cas();
        assert_eq!(client.count(by(cas)).outcome, Some(Outcome::Number(57)));
        let cas = client.cas();
        assert_eq!(client.store(set(Some(cas), StoreMode::Replace)).outcome, Some(Outcome::Stored));
        let cas = client.cas();
        assert_eq!(client.delete(delete(Some(cas))), Outcome::Deleted);
        assert_eq!(client.delete(delete(Some(cas))), Outcome::NotFound);
        assert_eq!(client.store(set(Some(cas), StoreMode::Set)).outcome, Some(Outcome::NotFound));
        assert_eq!(client.count(by(cas)).outcome, Some(Outcome::NotFound));
    });
}

#[test]
fn clients_may_choose_cas_values_until_the_next_write() {
    everywhere(|client| {
        client.set(b"12");
        let chosen = MetaStore { value: b"13", new_cas: 77, ..MetaStore::default() };
        assert_eq!(client.store(chosen).item.cas, 77);
        assert_eq!(client.cas(), 77);
        // It stays when the item moves to get an expiry.
        let touch = Some(Expiry(2000));
        assert_eq!(client.get(MetaGet { touch, ..value_get() }).value, b"13");
        assert_eq!(client.cas(), 77);
        let expected = store(Condition::Unchanged(77), b"14", 0, 0);
        assert_eq!(client.ask(expected).outcome, Some(Outcome::Stored));
        assert_ne!(client.cas(), 77);
        let by = MetaArithmetic { delta: 1, new_cas: 78, ..MetaArithmetic::default() };
        assert_eq!(client.count(by).outcome, Some(Outcome::Number(15)));
        assert_eq!(client.cas(), 78);
        let same_length = client.ask(Operation::Increment { delta: 1 });
        assert_eq!(same_length.outcome, Some(Outcome::Number(16)));
        assert_ne!(client.cas(), 78);
        let vivified = MetaGet { vivify: Some(Expiry::NEVER), new_cas: 79, ..MetaGet::default() };
        client.delete(MetaDelete::default());
        assert_eq!(client.get(vivified).outcome, Some(Outcome::Stored));
        assert_eq!(client.cas(), 79);
    });
}

#[test]
fn one_client_gets_the_token_of_an_item_that_is_not_there() {
    everywhere(|client| {
        let get = MetaGet { vivify: Some(Expiry(client.now_s + 30)), ..value_get() };
        let first = client.get(get);
        assert_eq!(first.outcome, Some(Outcome::Stored));
        assert!(first.item.won && first.item.created && !first.item.token_sent);
        for _ in 0..3 {
            let next = client.get(get);
            assert_eq!((next.outcome, next.value.len()), (Some(Outcome::Hit), 0));
            assert!(!next.item.won && next.item.token_sent && !next.item.stale);
            assert_eq!(next.item.expiry, Expiry(client.now_s + 30));
        }
        client.set(b"value");
        let filled = client.get(get);
        assert_eq!(filled.value, b"value");
        assert!(!filled.item.won && !filled.item.token_sent);
    });
}

#[test]
fn one_client_gets_the_token_of_an_item_that_is_near_its_end() {
    everywhere(|client| {
        for expiry_s in [0, client.now_s + 100] {
            client.ask(store(Condition::Always, b"value", 0, expiry_s));
            let recache = |in_s: u32| MetaGet { recache: Some(Expiry(1000 + in_s)), ..value_get() };
            assert!(!client.get(recache(50)).item.won);
            let near = client.get(recache(200)).item;
            assert_eq!((near.won, near.token_sent), (expiry_s != 0, false));
            let next = client.get(recache(200)).item;
            assert_eq!((next.won, next.token_sent), (false, expiry_s != 0));
        }
    });
}

#[test]
fn an_invalidated_item_is_served_as_stale_and_one_client_gets_the_token() {
    everywhere(|client| {
        client.set(b"value");
        let cas = client.cas();
        let invalidate =
            MetaDelete { invalidate: true, expiry: Some(Expiry(client.now_s + 30)), ..MetaDelete::default() };
        assert_eq!(client.delete(invalidate), Outcome::Deleted);
        let first = client.get(MetaGet { cas: true, ..value_get() });
        assert_eq!(first.value, b"value");
        assert!(first.item.stale && first.item.won && !first.item.token_sent);
        assert_eq!((first.item.flags, first.item.expiry), (7, Expiry(client.now_s + 30)));
        assert_ne!(first.item.cas, cas);
        let next = client.get(value_get());
        assert!(next.item.stale && !next.item.won && next.item.token_sent);
        // A value that was read before the invalidation may be stored, as a stale one.
        let old = MetaStore { value: b"old", compare: Some(cas), ..MetaStore::default() };
        assert_eq!(client.store(old).outcome, Some(Outcome::Exists));
        if cas < first.item.cas {
            let stale = MetaStore { stale: true, ..old };
            assert_eq!(client.store(stale).outcome, Some(Outcome::Stored));
            let next = client.get(value_get());
            assert!(next.item.stale && next.item.token_sent && next.value == b"old");
            assert_eq!(next.item.expiry, Expiry(client.now_s + 30));
        }
        // Invalidated again, there is a new token.
        assert_eq!(client.delete(invalidate), Outcome::Deleted);
        assert!(client.get(value_get()).item.won);
        let compare = Some(client.cas());
        let fresh = MetaStore { compare, ..old };
        assert_eq!(client.store(fresh).outcome, Some(Outcome::Stored));
        let fresh = client.get(value_get()).item;
        assert!(!fresh.stale && !fresh.won && !fresh.token_sent);
    });
}

#[test]
fn a_value_may_be_removed_without_its_item() {
    everywhere(|client| {
        client.set(b"value");
        let cas = client.cas();
        let empty = MetaDelete { empty: Some(9), ..MetaDelete::default() };
        assert_eq!(client.delete(empty), Outcome::Deleted);
        let left = client.look();
        assert_eq!((left.value.len(), left.item.flags, left.item.cas), (0, 9, cas));
        client.set(b"value");
        assert_ne!(client.cas(), cas);
    });
}

#[test]
fn a_missing_number_is_created_with_its_expiry() {
    everywhere(|client| {
        let by = MetaArithmetic {
            delta: 5,
            initial: 10,
            vivify: Some(Expiry(client.now_s + 5)),
            cas: true,
            ..MetaArithmetic::default()
        };
        let first = client.count(by);
        assert_eq!(first.outcome, Some(Outcome::Number(10)));
        assert!(first.item.created && first.item.cas == client.cas());
        assert_eq!(client.count(by).outcome, Some(Outcome::Number(15)));
        let down = MetaArithmetic { decrement: true, touch: Some(Expiry::NEVER), cas: false, ..by };
        let reply = client.count(down);
        assert_eq!(reply.outcome, Some(Outcome::Number(10)));
        assert_eq!(reply.item.expiry_before, Expiry(client.now_s + 5));
        client.now_s += 10;
        assert_eq!(client.look().value, b"10");
        client.set(b"");
        let compare = 1;
        let nothing = client.count(MetaArithmetic { compare, ..by });
        assert_eq!(nothing.outcome, Some(Outcome::NotANumber));
    });
}

#[test]
fn requests_are_counted_unless_marked_uncounted() {
    everywhere(|client| {
        client.set(b"value");
        for _ in 0..2 {
            assert!(!client.look().item.fetched);
        }
        assert!(!client.get(value_get()).item.fetched);
        assert!(client.look().item.fetched);
        for _ in 0..9 {
            client.get(value_get());
        }
        client.set(b"other");
        assert!(!client.look().item.fetched);
        client.ask(Operation::Get { cas: false });
        assert!(client.look().item.fetched);
    });
}

#[test]
fn accesses_are_recorded_once_a_client_asks() {
    everywhere(|client| {
        let ask = MetaGet { access: true, ..value_get() };
        client.set(b"value");
        // It was not requested since it was stored.
        assert_eq!(client.get(ask).item.access_s, 1000);
        client.now_s += 3;
        let look = client.look().item;
        assert_eq!(look.access_s, 1000);
        client.ask(Operation::Get { cas: false });
        client.now_s += 3;
        assert_eq!(client.get(ask).item.access_s, 1003);
        assert_eq!(client.get(ask).item.access_s, 1006);
        // A store is an access, and from then on items of meta commands record accesses.
        client.now_s += 3;
        client.set(b"other");
        assert_eq!(client.look().item.access_s, 1009);
        client.delete(MetaDelete::default());
        client.store(MetaStore { value: b"new", ..MetaStore::default() });
        assert_eq!(client.look().item.access_s, 1009);
    });
}

/// Proves that a client that has the value learns that from its CAS value, without the value.
#[test]
fn a_value_of_the_known_cas_value_is_left_out() {
    everywhere(|client| {
        client.set(b"value");
        let get = |cas| MetaGet { unless_cas: Some(cas), ..value_get() };
        let cas = client.cas();
        let known = client.get(get(cas));
        assert_eq!(known.outcome, Some(Outcome::Hit));
        assert!(known.item.unchanged && known.value.is_empty());
        let other = client.get(get(cas + 1));
        assert!(!other.item.unchanged);
        assert_eq!(other.value, b"value");
        client.set(b"other");
        assert_eq!(client.get(get(cas)).value, b"other");
    });
}

/// Proves that items tell when they were stored, although no client has asked for their accesses.
#[test]
fn an_unfetched_item_has_the_age_of_its_store() {
    everywhere(|client| {
        client.worker.maintain(client.now_s);
        client.now_s += 5;
        client.set(b"value");
        client.worker.maintain(client.now_s);
        client.now_s += 2;
        client.worker.maintain(client.now_s);
        assert_eq!(client.look().item.access_s, 1005);
    });
}

#[test]
fn a_get_with_a_past_expiry_removes_the_item() {
    everywhere(|client| {
        client.set(b"value");
        let last = MetaGet { touch: Some(Expiry::PAST), ..value_get() };
        assert_eq!(client.get(last).value, b"value");
        assert_eq!(client.get(last).outcome, Some(Outcome::NotFound));
    });
}

#[test]
fn a_request_stays_within_its_size() {
    assert_eq!(size_of::<Request<'_>>(), 8 + 16 + size_of::<Operation<'_>>());
    assert!(size_of::<Operation<'_>>() <= 64, "{}", size_of::<Operation<'_>>());
}
