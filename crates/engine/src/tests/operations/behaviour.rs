//! Behaviour of each operation, on a cache that has room for everything.

use crate::tests::support::*;
use crate::*;

fn roomy(workers: usize) -> Setup {
    Setup { partition_bits: 1, value_bytes_max: 4096, eviction: Eviction::Fifo, workers, ..Setup::default() }
}

fn both(test: impl Fn(&mut Client)) {
    for workers in [1, 2] {
        test(&mut Client::new(&roomy(workers).cache(), 0));
    }
}

#[test]
fn stores_obey_their_conditions() {
    both(|client| {
        assert_eq!(client.outcome(b"k", store(Condition::Present, b"0", 0, 0)), Outcome::NotStored);
        assert_eq!(client.outcome(b"k", store(Condition::Unchanged(1), b"0", 0, 0)), Outcome::NotFound);
        assert_eq!(client.outcome(b"k", store(Condition::Absent, b"1", 9, 0)), Outcome::Stored);
        assert_eq!(client.outcome(b"k", store(Condition::Absent, b"2", 0, 0)), Outcome::NotStored);
        let reply = client.ask(b"k", Operation::Get { cas: true });
        assert_eq!((reply.value.as_slice(), reply.flags), (b"1".as_slice(), 9));
        assert_eq!(
            client.outcome(b"k", store(Condition::Unchanged(reply.cas + 1), b"3", 0, 0)),
            Outcome::Exists
        );
        assert_eq!(client.outcome(b"k", store(Condition::Unchanged(reply.cas), b"3", 0, 0)), Outcome::Stored);
        assert_eq!(client.outcome(b"k", store(Condition::Unchanged(reply.cas), b"4", 0, 0)), Outcome::Exists);
        assert_eq!(
            client.outcome(b"k", store(Condition::Present, b"long value here", 0, 0)),
            Outcome::Stored
        );
        assert_eq!(client.get(b"k").unwrap(), b"long value here");
        assert_eq!(client.outcome(b"k", Operation::Delete), Outcome::Deleted);
        assert_eq!(client.outcome(b"k", Operation::Delete), Outcome::NotFound);
        assert_eq!(client.get(b"k"), None);
    });
}

#[test]
fn a_value_is_overwritten_in_place_while_it_fits_and_no_cas_was_given() {
    both(|client| {
        client.set(b"key", &[b'a'; 100]);
        let appended = client.worker.cache().stats().items_inserted;
        client.set(b"key", &[b'b'; 60]);
        client.set(b"key", &[b'c'; 100]);
        assert_eq!(client.worker.cache().stats().items_inserted, appended);
        assert_eq!(client.get(b"key").unwrap(), [b'c'; 100]);
        client.ask(b"key", Operation::Get { cas: true });
        client.set(b"key", b"d");
        assert_eq!(client.worker.cache().stats().items_inserted, appended + 1);
        assert_eq!(client.worker.cache().stats().items_live, 1);
    });
}

#[test]
fn every_write_changes_a_cas_value_that_was_given() {
    both(|client| {
        client.set(b"n", b"10");
        let mut cas = client.ask(b"n", Operation::Get { cas: true }).cas;
        for write in [
            Operation::Increment { delta: 1 },
            Operation::Decrement { delta: 5 },
            Operation::Append { value: b"0" },
            Operation::Prepend { value: b"1" },
            store(Condition::Present, b"7", 0, 0),
        ] {
            client.ask(b"n", write);
            let new = client.ask(b"n", Operation::Get { cas: true }).cas;
            assert_ne!(new, cas, "{write:?}");
            cas = new;
        }
        assert_eq!(client.outcome(b"n", Operation::Touch { expiry: Expiry(5000) }), Outcome::Touched);
        assert_eq!(client.ask(b"n", Operation::Get { cas: true }).cas, cas, "a touch is no write");
        client.set(b"other", b"x");
        client.ask(b"n", Operation::Increment { delta: 1 });
        assert_ne!(client.ask(b"n", Operation::Get { cas: true }).cas, cas);
    });
}

#[test]
fn arithmetic_follows_memcached() {
    both(|client| {
        assert_eq!(client.outcome(b"n", Operation::Increment { delta: 1 }), Outcome::NotFound);
        client.outcome(b"n", store(Condition::Always, b"10", 3, 0));
        assert_eq!(client.outcome(b"n", Operation::Decrement { delta: 1 }), Outcome::Number(9));
        assert_eq!(client.get(b"n").unwrap(), b"9 ");
        assert_eq!(client.outcome(b"n", Operation::Increment { delta: 1000 }), Outcome::Number(1009));
        let reply = client.ask(b"n", Operation::Get { cas: false });
        assert_eq!((reply.value.as_slice(), reply.flags), (b"1009".as_slice(), 3));
        assert_eq!(client.outcome(b"n", Operation::Decrement { delta: 5000 }), Outcome::Number(0));
        client.set(b"n", b"18446744073709551615");
        assert_eq!(client.outcome(b"n", Operation::Increment { delta: 2 }), Outcome::Number(1));
        client.set(b"n", b"text");
        assert_eq!(client.outcome(b"n", Operation::Increment { delta: 1 }), Outcome::NotANumber);
        client.set(b"n", b"");
        assert_eq!(client.outcome(b"n", Operation::Increment { delta: 1 }), Outcome::NotANumber);
    });
}

#[test]
fn values_grow_at_both_ends_and_keep_flags_and_expiry() {
    both(|client| {
        assert_eq!(client.outcome(b"k", Operation::Append { value: b"x" }), Outcome::NotStored);
        client.outcome(b"k", store(Condition::Always, b"mid", 5, 2000));
        assert_eq!(client.outcome(b"k", Operation::Append { value: b"-end" }), Outcome::Stored);
        assert_eq!(client.outcome(b"k", Operation::Prepend { value: b"start-" }), Outcome::Stored);
        let reply = client.ask(b"k", Operation::Get { cas: false });
        assert_eq!((reply.value.as_slice(), reply.flags), (b"start-mid-end".as_slice(), 5));
        let long = [b'l'; 4090];
        assert_eq!(client.outcome(b"k", Operation::Append { value: &long }), Outcome::TooLarge);
        client.now_s = 2000;
        assert_eq!(client.get(b"k"), None);
    });
}

#[test]
fn expired_items_are_gone() {
    both(|client| {
        client.outcome(b"a", store(Condition::Always, b"1", 0, 1010));
        client.outcome(b"b", store(Condition::Always, b"2", 0, 0));
        client.outcome(b"c", store(Condition::Always, b"3", 0, Expiry::PAST.0));
        assert_eq!(client.get(b"c"), None);
        assert_eq!(client.outcome(b"b", Operation::Touch { expiry: Expiry(1010) }), Outcome::Touched);
        let touch = Operation::GetAndTouch { expiry: Expiry(1020), cas: false };
        assert_eq!(client.ask(b"a", touch).value, b"1");
        client.now_s = 1010;
        assert_eq!(client.get(b"b"), None);
        assert_eq!(client.outcome(b"b", Operation::Delete), Outcome::NotFound);
        assert_eq!(client.get(b"a").unwrap(), b"1");
        client.now_s = 1020;
        assert_eq!(client.outcome(b"a", store(Condition::Absent, b"4", 0, 0)), Outcome::Stored);
        assert_eq!(client.get(b"a").unwrap(), b"4");
    });
}

#[test]
fn the_sweep_removes_expired_items_without_requests() {
    for workers in [1, 2] {
        let cache = roomy(workers).cache();
        let client = &mut Client::new(&cache, 0);
        for number in 0..100u32 {
            let expiry_s = if number % 2 == 0 { 1010 } else { 0 };
            client.outcome(&number.to_le_bytes(), store(Condition::Always, b"v", 0, expiry_s));
        }
        client.now_s = 1010;
        assert_eq!((cache.stats().items_live, cache.stats().expired), (100, 0));
        client.worker.maintain(1010);
        if let Some(mut other) = cache.worker(1) {
            other.maintain(1010);
        }
        let stats = cache.stats();
        assert_eq!((stats.items_live, stats.expired), (50, 50));
    }
}

#[test]
fn a_flush_removes_existing_items_and_no_later_ones() {
    both(|client| {
        client.set(b"a", b"1");
        client.worker.flush_all(0, client.now_s);
        assert_eq!(client.get(b"a"), None);
        assert_eq!(client.worker.cache().stats().items_live, 0);
        client.set(b"a", b"2");
        assert_eq!(client.get(b"a").unwrap(), b"2");
        client.worker.flush_all(1005, client.now_s);
        assert_eq!(client.get(b"a").unwrap(), b"2");
        client.now_s = 1005;
        assert_eq!(client.get(b"a"), None);
        client.set(b"a", b"3");
        client.now_s = 1010;
        assert_eq!(client.get(b"a").unwrap(), b"3");
        assert_eq!(client.worker.cache().stats().items_live, 1);
    });
}

#[test]
fn values_and_keys_beyond_their_limits_are_refused() {
    both(|client| {
        assert_eq!(client.set(b"k", &[0; 4096]), Outcome::Stored);
        assert_eq!(client.get(b"k").unwrap().len(), 4096);
        assert_eq!(client.set(b"k", &[0; 4097]), Outcome::TooLarge);
        assert_eq!(client.set(&[b'k'; 251], b"v"), Outcome::TooLarge);
        assert_eq!(client.set(&[b'k'; 250], b"v"), Outcome::Stored);
        assert_eq!(client.get(&[b'k'; 250]).unwrap(), b"v");
        assert_eq!(client.get(&[b'k'; 251]), None);
    });
}

#[test]
fn a_batch_ends_where_its_sink_has_no_room() {
    struct Small(Replies, usize);
    impl ReplySink for Small {
        fn reserve(&mut self, index: usize, meta: ValueMeta) -> Option<&mut [u8]> {
            self.1 = self.1.checked_sub(meta.value_bytes)?;
            self.0.reserve(index, meta)
        }
        fn rollback(&mut self, index: usize) {
            self.0.rollback(index);
        }
        fn finish(&mut self, index: usize, outcome: Outcome) {
            self.0.finish(index, outcome);
        }
    }
    both(|client| {
        client.set(b"k", &[1; 100]);
        let hash = client.worker.cache().hash(b"k");
        let get = Request { hash, key: b"k", operation: Operation::Get { cas: false } };
        let mut sink = Small(Replies::default(), 250);
        assert_eq!(client.worker.execute(&[get; 5], 1000, &mut sink), 2);
        assert_eq!(sink.0.0.len(), 2);
    });
}

#[test]
fn a_worker_handle_is_taken_once() {
    let cache = roomy(2).cache();
    let first = cache.worker(0);
    assert!(first.is_some() && cache.worker(0).is_none() && cache.worker(2).is_none());
    drop(first);
    assert!(cache.worker(0).is_some());
}
