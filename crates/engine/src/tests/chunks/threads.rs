//! One-sided readers beside threads that write, while routes change.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;
use crate::tests::area::attach;
use crate::tests::threads::{change_a_route, operations};

const THREADS: usize = 3;
const KEYS: u64 = 24;
const ROUTES_MIN: u64 = 200;
/// Short, so that slow reads are refused, and chunks are used again.
const THREADS_LEASE_NS: u64 = 200_000;

fn name(key: u64) -> Vec<u8> {
    format!("hot-key-{key}").into_bytes()
}

/// Returns a value of which each word holds the key and a stamp.
fn value(key: u64, stamp: u64) -> Vec<u8> {
    let words = if stamp.is_multiple_of(64) { 140 } else { 1 + key as usize % 5 };
    (key << 48 | stamp).to_le_bytes().repeat(words)
}

fn stamp_of(key: u64, found: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(*found.first_chunk().unwrap()) & ((1 << 48) - 1);
    assert!(found == value(key, stamp), "a torn value, or another key's");
    stamp
}

/// Counts of all threads.
#[derive(Default)]
struct Progress {
    left: AtomicUsize,
    changes: AtomicU64,
    accepted: AtomicU64,
}

/// Knowledge of a thread about a key.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Stamp that it wrote last; 0: it has deleted the item, or missed it.
    written: u64,
    /// Greatest stamp that it has seen.
    seen: u64,
    entry: Option<ChunkEntry>,
}

/// Writes its own keys, by every way, reads all, by every way: no older value comes back, and its own keys
/// hold what it wrote last.
fn hammer(client: &mut Client, thread: u64, progress: &Progress) {
    let cache = client.cache();
    let mut random = Random(thread + 1);
    let mut known = vec![Known::default(); KEYS as usize];
    let operations = operations() / 20 / THREADS as u64;
    let mut accepted = 0;
    for stamp in 1.. {
        if stamp > operations && progress.changes.load(Ordering::Relaxed) >= ROUTES_MIN {
            break;
        }
        let drawn = random.next();
        let key = drawn % KEYS;
        let (is_own, name) = (key % THREADS as u64 == thread, name(key));
        let of_key = &mut known[key as usize];
        match drawn >> 32 & 15 {
            0..4 if is_own => {
                let (value, condition) = (value(key, stamp), Condition::Always);
                let (flags, expiry) = (0, Expiry::NEVER);
                let operation = match drawn >> 40 & 3 {
                    0 => Operation::Store { condition, value: &value, flags, expiry },
                    _ => Operation::StoreEntry { condition, value: &value, flags, expiry },
                };
                let reply = client.ask(&name, operation);
                assert_eq!(reply.outcome, Some(Outcome::Stored));
                (of_key.written, of_key.seen) = (stamp, stamp);
                of_key.entry = reply.entry.or(of_key.entry);
            }
            4 if is_own => {
                client.outcome(&name, Operation::Delete);
                of_key.written = 0;
            }
            5..8 => {
                let cas = drawn >> 40 & 7 == 0;
                let operation =
                    if drawn >> 44 & 1 == 0 { Operation::GetEntry } else { Operation::Get { cas } };
                let reply = client.ask(&name, operation);
                match reply.outcome {
                    Some(Outcome::Hit) => {
                        let found = stamp_of(key, &reply.value);
                        assert!(found >= of_key.seen, "an older value by message");
                        assert!(!is_own || found == of_key.written, "not the last write, by message");
                        of_key.seen = found;
                    }
                    _ => {
                        let is_lost = is_own && of_key.written != 0 && cache.partitions[0].is_store();
                        assert!(!is_lost, "a store has lost an item");
                        of_key.written = 0;
                    }
                }
                of_key.entry = reply.entry.or(of_key.entry);
            }
            _ => {
                let of_cache = (cache.hash(&name), name.as_slice());
                let read =
                    of_key.entry.and_then(|entry| read(&cache, of_cache, entry, 1000, THREADS_LEASE_NS));
                if let Some((value, _)) = read {
                    let found = stamp_of(key, &value);
                    assert!(found >= of_key.seen, "an older value, one-sided");
                    assert!(!is_own || found == of_key.written, "not the last write, one-sided");
                    of_key.seen = found;
                    accepted += 1;
                }
            }
        }
        if stamp.is_multiple_of(500) {
            client.worker.maintain(1000);
        }
    }
    progress.accepted.fetch_add(accepted, Ordering::Relaxed);
    progress.left.fetch_sub(1, Ordering::AcqRel);
    while progress.left.load(Ordering::Acquire) > 0 {
        client.worker.serve();
        std::thread::yield_now();
    }
}

/// Changes routes until all threads have finished.
fn change_routes(cache: &Cache, progress: &Progress) {
    while progress.left.load(Ordering::Acquire) > 0 {
        change_a_route(cache, &progress.changes, THREADS);
    }
}

#[test]
fn one_sided_readers_beside_writers_see_no_older_and_no_torn_value() {
    let semantics = [Semantics::Cache, Semantics::Store];
    for (semantics, write) in
        semantics.into_iter().flat_map(|of| [ChunkWrite::Through, ChunkWrite::Back].map(|write| (of, write)))
    {
        let setup = Setup {
            partition_bits: 1,
            // A cache evicts.
            data_units: if semantics == Semantics::Cache { 1024 } else { 64 * 512 },
            value_bytes_max: 1200,
            workers: THREADS,
            semantics,
            ..Setup::default()
        };
        let cache = setup.cache();
        attach(&cache, write, THREADS_LEASE_NS);
        // Threads never sleep here, so no wake-up is needed.
        cache.set_waker(|_| {});
        let progress = Progress { left: AtomicUsize::new(THREADS), ..Progress::default() };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let mut client = Client::new(&cache, thread);
                let progress = &progress;
                scope.spawn(move || hammer(&mut client, thread as u64, progress));
            }
            change_routes(&cache, &progress);
        });
        assert!(progress.accepted.into_inner() > 1000, "{semantics:?} {write:?}");
        let copied_back = cache.chunk_stats().counters.copied_back;
        assert_eq!(copied_back > 0, write == ChunkWrite::Back, "{semantics:?}: {copied_back} copied back");
    }
}
