//! Optimistic reads beside a writer.

use super::*;

/// A read beside the writer, by one of two ways.
type Reading = fn(&Cache, &[u8]) -> Option<Vec<u8>>;

fn overwrite_in_place_beside(read: Reading) {
    let cache = tiny(64);
    let mut writer = Client::new(&cache, 0);
    writer.set(b"k", &OLD);
    let reader = spawn(&cache, move |cache| {
        if let Some(value) = read(cache, b"k") {
            assert!(value == OLD || value == NEW, "torn: {value:?}");
        }
    });
    writer.set(b"k", &NEW);
    reader.join().unwrap();
    assert_eq!(read(&cache, b"k").as_deref(), Some(NEW.as_slice()));
}

#[test]
fn loom_a_read_beside_an_overwrite_in_place_sees_the_old_or_the_new_value() {
    model(|| overwrite_in_place_beside(read));
}

#[test]
fn loom_a_read_where_the_item_was_seen_is_whole_beside_an_overwrite_in_place() {
    model(|| overwrite_in_place_beside(read_seen));
}

#[test]
fn loom_a_plain_read_is_whole_beside_an_overwrite_in_place() {
    model(|| overwrite_in_place_beside(read_plain));
}

fn eviction_beside(read: Reading) {
    // Two items fill the log: the third one overwrites the first.
    let cache = tiny(8);
    let mut writer = Client::new(&cache, 0);
    writer.set(b"a", &OLD);
    writer.set(b"b", &OLD);
    let reader = spawn(&cache, move |cache| {
        if let Some(value) = read(cache, b"a") {
            assert!(value == OLD, "torn or of another write: {value:?}");
        }
    });
    writer.set(b"c", &NEW);
    reader.join().unwrap();
    assert_eq!(read(&cache, b"a"), None);
    assert_eq!(read(&cache, b"c").as_deref(), Some(NEW.as_slice()));
}

#[test]
fn loom_a_read_beside_the_eviction_of_its_item_sees_the_item_or_nothing() {
    model(|| eviction_beside(read));
}

#[test]
fn loom_a_read_where_the_item_was_seen_beside_its_eviction_sees_the_item_or_nothing() {
    model(|| eviction_beside(read_seen));
}

#[test]
fn loom_a_plain_read_beside_the_eviction_of_its_item_sees_the_item_or_nothing() {
    model(|| eviction_beside(read_plain));
}

#[test]
fn loom_a_read_sees_writes_acknowledged_before_it() {
    model(|| {
        let cache = tiny(64);
        let mut writer = Client::new(&cache, 0);
        let stored = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let seen = Arc::clone(&stored);
        let reader = spawn(&cache, move |cache| {
            if seen.load(loom::sync::atomic::Ordering::Acquire) {
                assert_eq!(read(cache, b"k").as_deref(), Some(NEW.as_slice()));
            }
        });
        writer.set(b"k", &NEW);
        stored.store(true, loom::sync::atomic::Ordering::Release);
        reader.join().unwrap();
    });
}

/// The item moves: the new value does not fit where the old one is.
fn acknowledged_write_beside(read_at: fn(&Hint<'_>, &[u8]) -> Option<Vec<u8>>) {
    let cache = tiny(64);
    let mut writer = Client::new(&cache, 0);
    writer.set(b"k", b"old");
    let stored = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&stored);
    let reader = spawn(&cache, move |cache| {
        let hint = hint_for(cache, b"k");
        if seen.load(loom::sync::atomic::Ordering::Acquire) {
            let value = read_at(&hint, b"k");
            assert!(value.as_ref().is_none_or(|value| *value == NEW), "{value:?}");
        }
    });
    writer.set(b"k", &NEW);
    stored.store(true, loom::sync::atomic::Ordering::Release);
    reader.join().unwrap();
}

#[test]
fn loom_a_read_where_the_item_was_seen_shows_nothing_older_than_an_acknowledged_write() {
    model(|| acknowledged_write_beside(read_at));
}

#[test]
fn loom_a_plain_read_shows_nothing_older_than_an_acknowledged_write() {
    model(|| acknowledged_write_beside(read_plain_at));
}

/// With `try_writer`, because loom cannot tell a spin lock that waits from one that hangs.
#[test]
fn loom_two_writers_take_turns() {
    model(|| {
        let cache = tiny(64);
        Client::new(&cache, 0).set(b"n", b"0");
        let threads = [0, 1].map(|_| {
            spawn(&cache, |cache| {
                let (key, hash) = (b"n".as_slice(), cache.hash(b"n"));
                let request = Request { hash, key, operation: Operation::Delete };
                let partition = cache.partition(hash);
                let writer = partition.try_writer(0);
                u64::from(writer.is_some_and(|writer| {
                    let asked = hashed(partition, &request);
                    let by = MetaArithmetic { delta: 1, ..MetaArithmetic::default() };
                    let (outcome, _) = writer.meta_arithmetic(&asked, &by);
                    matches!(outcome, Outcome::Number(_))
                }))
            })
        });
        let sum: u64 = threads.map(|thread| thread.join().unwrap()).into_iter().sum();
        assert!(sum > 0);
        assert_eq!(read(&cache, b"n").unwrap(), sum.to_string().into_bytes());
    });
}
