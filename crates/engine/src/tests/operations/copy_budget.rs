//! A turn moves a bounded number of bytes within the memory, whatever the requests.

use crate::limits::{EVICT_BYTES, SWEEP_BUCKET_BYTES};
use crate::tests::support::*;
use crate::*;

const VALUE_BYTES: usize = 64 << 10;
/// More than an item: its header, extensions, key and value.
const ITEM_BYTES_MAX: usize = VALUE_BYTES + 512;
const KEYS: usize = 64;

fn setup(eviction: Eviction, semantics: Semantics, workers: usize) -> Setup {
    Setup {
        // Room for three quarters of the items.
        data_units: (KEYS * ITEM_BYTES_MAX / 8 * 3 / 4) as u64,
        value_bytes_max: VALUE_BYTES,
        eviction,
        semantics,
        workers,
        ..Setup::default()
    }
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

/// Executes one turn of requests for these keys. Returns how many were executed.
fn turn(client: &mut Client, keys: &[Vec<u8>], operation: Operation<'_>) -> usize {
    let cache = client.worker.cache();
    let requests: Vec<_> = keys.iter().map(|key| Request { hash: cache.hash(key), key, operation }).collect();
    client.worker.begin_turn();
    let mut replies = Replies::default();
    let executed = client.worker.execute(&requests, client.now_s, &mut replies);
    assert_eq!(replies.0.len(), executed, "each executed request is answered, and no other");
    executed
}

/// Executes all requests, in turns. Returns the turns and all moved bytes.
fn turns(client: &mut Client, keys: &[Vec<u8>], operation: Operation<'_>) -> (usize, usize) {
    let (mut at, mut turns, mut moved_bytes) = (0, 0, 0);
    while at < keys.len() {
        let executed = turn(client, &keys[at..], operation);
        let moved = client.worker.moved_bytes();
        let allowed = client.worker.cache().turn_moved_bytes();
        assert!(executed > 0, "a turn without progress");
        assert!(moved <= allowed + ITEM_BYTES_MAX, "{moved} bytes in one turn of {executed} requests");
        assert!(
            executed == keys.len() - at || client.worker.is_spent(),
            "a turn that ended early with something left"
        );
        at += executed;
        turns += 1;
        moved_bytes += moved;
    }
    (turns, moved_bytes)
}

/// Returns every kind of request that copies an existing value.
fn copying<'a>(value: &'a [u8]) -> Vec<Operation<'a>> {
    let append = MetaStore { value, mode: StoreMode::Append, ..MetaStore::default() };
    vec![
        Operation::Append { value },
        Operation::Prepend { value },
        Operation::MetaStore(append),
        Operation::Touch { expiry: Expiry(9000) },
        Operation::GetAndTouch { expiry: Expiry(9000), cas: false },
        Operation::MetaGet(MetaGet { value: true, touch: Some(Expiry(9000)), ..MetaGet::default() }),
        Operation::MetaGet(MetaGet { value: true, access: true, ..MetaGet::default() }),
        Operation::MetaDelete(MetaDelete { invalidate: true, ..MetaDelete::default() }),
    ]
}

#[test]
fn a_turn_moves_no_more_than_it_may_and_one_item() {
    let value = vec![b'x'; VALUE_BYTES - 1024];
    for eviction in Eviction::ALL {
        for workers in [1, 2] {
            for operation in copying(b"y") {
                let setup = setup(eviction, Semantics::Cache, workers);
                let mut client = Client::new(&setup.cache(), 0);
                // The same key again and again, as an attacker would request it.
                assert_eq!(client.set(b"key0", &value), Outcome::Stored);
                turns(&mut client, &vec![key(0); KEYS], operation);
                // Keys of which some were evicted.
                let keys: Vec<_> = (0..KEYS).map(key).collect();
                for key in &keys {
                    assert_eq!(client.set(key, &value), Outcome::Stored);
                }
                turns(&mut client, &keys, operation);
            }
        }
    }
}

#[test]
fn appends_to_a_long_value_take_several_turns() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        for workers in [1, 2] {
            let setup = setup(Eviction::S3Fifo, semantics, workers);
            let mut client = Client::new(&setup.cache(), 0);
            let value = vec![b'x'; VALUE_BYTES - 1024];
            assert_eq!(client.set(b"key0", &value), Outcome::Stored);
            let keys = vec![key(0); KEYS];
            let append = Operation::Append { value: b"y" };
            let (turns, moved_bytes) = turns(&mut client, &keys, append);
            assert!(moved_bytes >= KEYS * value.len(), "{moved_bytes}");
            assert!(turns > 2, "{turns} turns for {moved_bytes} bytes");
            let now = client.get(b"key0").unwrap();
            assert_eq!(now.len(), value.len() + KEYS, "every append happened once");
        }
    }
}

/// Proves that eviction keeps requested items, at the cost of a copy, but copies few within one
/// turn.
#[test]
fn eviction_moves_no_more_than_a_turn_may() {
    for eviction in Eviction::ALL {
        let mut client = Client::new(&setup(eviction, Semantics::Cache, 1).cache(), 0);
        let large = vec![b'x'; VALUE_BYTES];
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let always = store(Condition::Always, &large, 0, 0);
        for round in 0..6 {
            let stored: Vec<_> = (0..8).map(|at| key(round * 8 + at)).collect();
            turns(&mut client, &stored, always);
            for _ in 0..3 {
                turns(&mut client, &keys, Operation::Get { cas: false });
            }
        }
        let mut moved = 0;
        for round in 0..20 {
            let small: Vec<_> = (0..KEYS).map(|at| format!("small{round}.{at}").into_bytes()).collect();
            moved += turns(&mut client, &small, store(Condition::Always, &large[..2000], 0, 0)).1;
        }
        assert_eq!(
            moved > VALUE_BYTES,
            matches!(eviction, Eviction::S3Fifo | Eviction::Clock | Eviction::Lru),
            "{eviction:?}: {moved}"
        );
    }
}

/// Proves that upkeep has the same bound: it moves requested items as far as it may.
#[test]
fn upkeep_moves_no_more_than_a_turn_may() {
    let setup = setup(Eviction::ApproximateLru, Semantics::Cache, 2);
    let setup = Setup { workers: 2, access: Access::Crew, ..setup };
    let cache = setup.cache();
    let (mut owner, mut reader) = (Client::new(&cache, 0), Client::new(&cache, 1));
    let value = vec![b'x'; VALUE_BYTES];
    for number in 0..32 {
        assert_eq!(owner.set(&key(number), &value), Outcome::Stored);
    }
    for number in 0..32 {
        assert!(reader.get(&key(number)).is_some());
    }
    let before = cache.stats().reinserted;
    owner.worker.maintain(1000);
    let moved = (cache.stats().reinserted - before) as usize;
    assert!(moved > 0, "nothing was recorded");
    assert!(moved * VALUE_BYTES <= cache.turn_moved_bytes(), "{moved} items");
}

/// Proves that a turn pays for the bytes that the owner of a partition moves on its behalf.
#[test]
fn bytes_that_an_owner_moves_for_others_count_for_their_turn() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let setup = Setup { access: Access::Erew, ..setup(Eviction::Fifo, Semantics::Cache, 2) };
    let cache = setup.cache();
    cache.set_waker(|_| {});
    let (mut first, mut second) = (Client::new(&cache, 0), Client::new(&cache, 1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            first.worker.begin_turn();
            while !done.load(Ordering::Acquire) {
                first.worker.serve();
                std::thread::yield_now();
            }
            first.worker.moved_bytes()
        });
        let value = vec![b'x'; VALUE_BYTES - 1024];
        let append = Operation::Append { value: b"y" };
        let keys = vec![key(0); KEYS];
        assert_eq!(second.set(b"key0", &value), Outcome::Stored);
        let executed = turn(&mut second, &keys, append);
        let moved_bytes = second.worker.moved_bytes();
        done.store(true, Ordering::Release);
        assert!(executed < KEYS, "all in one turn");
        assert!(moved_bytes >= executed * value.len(), "{moved_bytes}");
        assert_eq!(owner.join().ok(), Some(0), "the owner paid");
    });
}

/// Proves that evictions for a long item are counted, and that those for short ones end no turn.
#[test]
fn evictions_count_for_the_turn() {
    let setup = Setup { buckets: 1 << 16, ..setup(Eviction::S3Fifo, Semantics::Cache, 1) };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    let short = store(Condition::Always, b"", 0, 0);
    for round in 0..4000 {
        let keys: Vec<_> = (0..KEYS).map(|at| key(round * KEYS + at)).collect();
        assert_eq!(turn(&mut client, &keys, short), KEYS);
        assert!(client.worker.moved_bytes() < 64 << 10, "as an ordinary turn");
    }
    let before = cache.stats().evicted_log;
    assert!(before > 0);
    let long = vec![b'x'; VALUE_BYTES];
    let long = store(Condition::Always, &long, 0, 0);
    let keys: Vec<_> = (0..KEYS).map(|at| format!("long{at}").into_bytes()).collect();
    let executed = turn(&mut client, &keys, long);
    let evicted = cache.stats().evicted_log - before;
    assert!(evicted > 1000, "{evicted}");
    assert!(client.worker.moved_bytes() as u64 >= evicted * EVICT_BYTES as u64);
    assert!(executed < KEYS, "{evicted} items left in one turn");
}

/// Proves that a full store with items that will expire sweeps once a second, not for each item
/// that it refuses; that the sweep is charged; and that an expired item makes space as soon as it
/// has expired.
#[test]
fn refused_items_sweep_once_a_second() {
    let setup = Setup { semantics: Semantics::Store, data_units: 1024, ..Setup::default() };
    let cache = setup.cache();
    let mut client = Client::new(&cache, 0);
    let expiry_s = client.now_s + 10;
    let expires = store(Condition::Always, b"value", 0, expiry_s);
    assert_eq!(client.outcome(b"expires", expires), Outcome::Stored);
    let stays = store(Condition::Always, b"value", 0, 0);
    let mut number = 0;
    while client.outcome(&key(number), stays) == Outcome::Stored {
        number += 1;
    }
    while client.now_s + 1 < expiry_s {
        client.now_s += 1;
        let before = cache.stats().buckets_scanned;
        let refused: Vec<_> = (0..KEYS).map(|at| key(number + at)).collect();
        turns(&mut client, &refused, stays);
        assert_eq!(cache.stats().buckets_scanned - before, setup.buckets);
    }
    let before = cache.stats().buckets_scanned;
    client.worker.flush_all(client.now_s, client.now_s);
    assert_eq!(client.outcome(b"after the flush", stays), Outcome::Stored);
    assert!(cache.stats().buckets_scanned > before, "a flush is looked at at once");
    while client.outcome(&key(number), stays) == Outcome::Stored {
        number += 1;
    }
    assert_eq!(client.outcome(&key(0), expires), Outcome::OutOfMemory);
    client.outcome(&key(number - 1), Operation::Delete);
    assert_eq!(client.outcome(&key(number - 1), expires), Outcome::Stored);
    assert_eq!(client.outcome(&key(number), stays), Outcome::OutOfMemory);
    client.now_s = expiry_s;
    assert_eq!(turn(&mut client, &[key(number)], stays), 1);
    assert!(client.get(&key(number)).is_some());
    let bytes = setup.buckets as usize * SWEEP_BUCKET_BYTES;
    assert!(client.worker.moved_bytes() >= bytes);
}
