//! Access modes that change, and partitions that move, while threads work on hot keys.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::{change_a_route, operations};
use crate::tests::support::*;
use crate::*;

const KEYS: u64 = 40;
const THREADS: usize = 4;
const CHANGES_MIN: u64 = 1000;
/// Runs that share the operations of a cache: every policy, and two with several partitions.
const CACHE_RUNS: u64 = Eviction::ALL.len() as u64 + 2;

/// Returns a value. Each word holds its key and a stamp. The length varies with the stamp, and some
/// values are copied outside of the lock.
fn value(key: u64, stamp: u64) -> Vec<u8> {
    let words = if stamp.is_multiple_of(64) { 140 } else { 1 + stamp as usize % 40 };
    (key << 48 | stamp).to_le_bytes().repeat(words)
}

fn stamp_of(key: u64, found: &[u8]) -> u64 {
    let first = u64::from_le_bytes(*found.first_chunk().unwrap());
    let stamp = first & ((1 << 48) - 1);
    assert_eq!(first >> 48, key, "another key's value");
    assert!(found == value(key, stamp), "a torn value");
    stamp
}

/// Shared state of all threads.
struct Progress {
    keys: u64,
    /// Threads that have not finished.
    left: AtomicUsize,
    changes: AtomicU64,
    /// Items that their writers have missed.
    lost: AtomicU64,
    /// Operations of each thread, and changes of routes, until the end.
    operations: u64,
    changes_min: u64,
}

fn name(key: u64) -> Vec<u8> {
    format!("hot-key-{key}").into_bytes()
}

/// Runs one thread: writes its own keys (stamps grow), reads all, some in batches, until there were
/// enough operations and changes. It serves the others until all have finished.
fn hammer(client: &mut Client, thread: u64, progress: &Progress) {
    let mut random = Random(thread + 1);
    let mut written = vec![0; progress.keys as usize];
    let mut seen = written.clone();
    let mut lost = 0;
    for stamp in 1.. {
        if stamp > progress.operations && progress.changes.load(Ordering::Relaxed) >= progress.changes_min {
            break;
        }
        let drawn = random.next();
        let key = drawn % progress.keys;
        let is_own = |key: u64| key % THREADS as u64 == thread;
        match drawn >> 32 & 7 {
            0 | 1 if is_own(key) => {
                assert_eq!(client.set(&name(key), &value(key, stamp)), Outcome::Stored);
                written[key as usize] = stamp;
            }
            2 if is_own(key) => {
                let deleted = client.outcome(&name(key), Operation::Delete) == Outcome::Deleted;
                let there = std::mem::take(&mut written[key as usize]) != 0;
                assert!(there || !deleted, "a deleted item came back");
                lost += u64::from(there && !deleted);
            }
            _ => {
                let more = if drawn >> 40 & 63 == 0 { 3 + (drawn >> 48) % 13 } else { 0 };
                let more = (0..more).map(|_| random.next() % progress.keys);
                let keys: Vec<_> = std::iter::once(key).chain(more).collect();
                let names: Vec<_> = keys.iter().map(|key| name(*key)).collect();
                let replies = client.ask_all(&names);
                assert_eq!(replies.len(), keys.len());
                for (key, reply) in keys.into_iter().zip(replies) {
                    let written = &mut written[key as usize];
                    if reply.outcome == Some(Outcome::Hit) {
                        let stamp = stamp_of(key, &reply.value);
                        assert!(stamp >= seen[key as usize], "an older value came back");
                        assert!(!is_own(key) || stamp == *written, "not the last write");
                        seen[key as usize] = stamp;
                    } else {
                        lost += u64::from(std::mem::take(written) != 0);
                    }
                }
            }
        }
        if stamp.is_multiple_of(1000) {
            client.worker.maintain(1000);
        }
    }
    progress.lost.fetch_add(lost, Ordering::Relaxed);
    progress.left.fetch_sub(1, Ordering::AcqRel);
    while progress.left.load(Ordering::Acquire) > 0 {
        client.worker.serve();
        std::thread::yield_now();
    }
}

/// Switches and moves until all threads have finished.
fn switch(cache: &Cache, progress: &Progress) {
    while progress.left.load(Ordering::Acquire) > 0 {
        change_a_route(cache, &progress.changes, THREADS);
    }
}

/// Runs all threads, for one of `runs` shares of the operations and of the changes. Only eviction
/// may lose items.
fn stress(setup: Setup, keys: u64, runs: u64) -> Stats {
    let geometry = Setup {
        buckets: 4,
        grows: true,
        offset_bits: 30,
        value_bytes_max: 1200,
        workers: THREADS,
        access: Access::Erew,
        ..setup
    };
    let cache = geometry.cache();
    // Threads never sleep here, so no wake-up is needed.
    cache.set_waker(|_| {});
    let progress = Progress {
        keys,
        left: AtomicUsize::new(THREADS),
        changes: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        operations: operations() / runs / THREADS as u64,
        changes_min: CHANGES_MIN / runs,
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut client = Client::new(&cache, thread);
            let progress = &progress;
            scope.spawn(move || hammer(&mut client, thread as u64, progress));
        }
        switch(&cache, &progress);
    });
    let stats = cache.stats();
    let (lost, evicted) = (progress.lost.into_inner(), stats.evicted_log + stats.evicted_bucket);
    assert!(lost <= evicted, "{lost} items are lost: {stats:?}");
    stats
}

#[test]
fn switches_and_moves_under_load_lose_nothing_of_a_store() {
    let semantics = Semantics::Store;
    let setup = Setup { partition_bits: 2, data_units: 64 * 512, semantics, ..Setup::default() };
    let stats = stress(setup, KEYS, 1);
    assert_eq!(stats.out_of_memory, 0);
}

#[test]
fn switches_and_moves_under_load_leave_no_wrong_value_in_a_cache() {
    for eviction in Eviction::ALL {
        // Hardly room for all keys.
        let setup = Setup { data_units: 1024, eviction, ..Setup::default() };
        let stats = stress(setup, KEYS, CACHE_RUNS);
        assert!(stats.items_inserted > 1000 && stats.evicted_log > 0, "{eviction:?} {stats:?}");
    }
}

#[test]
fn switches_and_moves_of_several_partitions_under_load_leave_no_wrong_value_in_a_cache() {
    // As many keys for each partition as above.
    let setup = Setup { partition_bits: 2, data_units: 1024, ..Setup::default() };
    let stats = stress(setup, KEYS << setup.partition_bits, CACHE_RUNS);
    assert!(stats.items_inserted > 1000 && stats.evicted_log > 0, "{stats:?}");
}

#[test]
fn switches_and_moves_under_load_leave_no_wrong_value_in_a_cache_that_overwrites_in_place() {
    let setup =
        Setup { partition_bits: 2, data_units: 64 * 512, eviction: Eviction::Fifo, ..Setup::default() };
    let stats = stress(setup, KEYS, CACHE_RUNS);
    assert!(stats.items_overwritten > 1000, "{stats:?}");
}

#[test]
fn increments_of_many_threads_add_up() {
    let geometry = Setup { buckets: 2, workers: 4, ..Setup::default() };
    let cache = geometry.cache();
    Client::new(&cache, 0).set(b"sum", b"0");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut client = Client::new(&cache, thread);
            scope.spawn(move || {
                for _ in 0..100_000 {
                    client.outcome(b"sum", Operation::Increment { delta: 3 });
                }
            });
        }
    });
    assert_eq!(Client::new(&cache, 0).get(b"sum").unwrap(), b"1200000");
}

#[test]
fn a_worker_without_permission_is_refused_or_delegates_to_the_owner() {
    let geometry = Setup { workers: 2, access: Access::Crew, ..Setup::default() };
    let cache = geometry.cache();
    let (mut owner, mut other) = (Client::new(&cache, 0), Client::new(&cache, 1));
    assert_eq!(owner.set(b"k", b"1"), Outcome::Stored);
    assert_eq!(other.set(b"k", b"2"), Outcome::NotOwner);
    assert_eq!(other.get(b"k").unwrap(), b"1");
    let erew = Route { access: Access::Erew, owner: 0 };
    cache.set_route(0, erew).unwrap();
    assert_eq!(other.outcome(b"k", Operation::Get { cas: false }), Outcome::NotOwner);
    assert_eq!(cache.route(0), Some(erew));
    assert!(cache.set_route(1, erew).is_err());
    assert!(cache.set_route(0, Route { owner: 2, ..erew }).is_err());
    let woken = std::sync::Arc::new(AtomicBool::new(false));
    let wake = std::sync::Arc::clone(&woken);
    cache.set_waker(move |worker| {
        assert_eq!(worker, 0);
        wake.store(true, Ordering::Release);
    });
    assert!(owner.worker.fall_asleep());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !woken.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            owner.worker.wake_up();
        });
        assert_eq!(other.set(b"k", b"2"), Outcome::Stored);
    });
    assert_eq!(owner.get(b"k").unwrap(), b"2");
}

/// A caller that reads a route, changes one half of it and sets it again keeps no mode of a moment.
#[test]
fn a_partition_that_is_shared_for_a_moment_keeps_its_route() {
    for access in Access::ALL {
        let cache = Setup { workers: 2, access, ..Setup::default() }.cache();
        let mut other = Client::new(&cache, 1);
        let route = Route { access, owner: 0 };
        let seen = cache.with_writer(0, 0, || {}, |_| cache.route(0));
        assert_eq!(seen, Some(route));
        assert_eq!(cache.route(0), Some(route));
        let refused = if access == Access::Crcw { Outcome::Stored } else { Outcome::NotOwner };
        assert_eq!(other.set(b"k", b"2"), refused, "{access:?}");
    }
}

#[test]
fn items_that_only_other_workers_read_stay_recent() {
    let geometry = Setup {
        data_units: 1024,
        eviction: Eviction::Clock,
        workers: 2,
        access: Access::Crew,
        ..Setup::default()
    };
    let cache = geometry.cache();
    let (mut owner, mut other) = (Client::new(&cache, 0), Client::new(&cache, 1));
    owner.set(b"hot", b"1");
    for number in 0..10_000u32 {
        owner.set(&number.to_le_bytes(), &[7; 50]);
        if number % 16 == 0 {
            assert_eq!(other.get(b"hot").as_deref(), Some(b"1".as_slice()), "{number}");
            owner.worker.maintain(1000);
        }
    }
    assert!(cache.stats().evicted_log > 9000);
}

#[test]
fn partitions_of_a_worker_that_has_ended_are_shared() {
    let geometry = Setup { workers: 2, access: Access::Erew, ..Setup::default() };
    let cache = geometry.cache();
    cache.set_waker(|_| {});
    let mut owner = Client::new(&cache, 0);
    let mut other = Client::new(&cache, 1);
    assert_eq!(owner.set(b"k", b"1"), Outcome::Stored);
    drop(owner);
    assert_eq!(other.get(b"k").unwrap(), b"1");
    assert_eq!(other.set(b"k", b"2"), Outcome::Stored);
}
