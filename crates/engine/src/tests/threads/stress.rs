//! Threads on hot keys. Values contain their key and their write, so a torn, wrong or rolled-back
//! one is noticed.

use crate::tests::support::*;
use crate::*;

const KEYS: u64 = 40;
const OPERATIONS: u64 = 400_000;

/// Returns a value. Each word holds its key and a stamp; the length varies with the stamp.
fn value(key: u64, stamp: u64) -> Vec<u8> {
    let word = (key << 48 | stamp).to_le_bytes();
    word.repeat(1 + (stamp % 40) as usize)
}

fn stamp_of(key: u64, value: &[u8]) -> u64 {
    let (words, rest) = value.as_chunks::<8>();
    let first = u64::from_le_bytes(words[0]);
    assert!(rest.is_empty() && words.iter().all(|word| *word == words[0]), "a torn value");
    assert_eq!(first >> 48, key, "another key's value");
    let stamp = first & ((1 << 48) - 1);
    assert_eq!(words.len(), 1 + (stamp % 40) as usize, "a value of another length");
    stamp
}

/// Runs one thread of `threads`: writes its own keys (stamps grow), reads all.
fn hammer(client: &mut Client, thread: u64, threads: u64) {
    let mut random = thread + 1;
    let mut written = vec![0; KEYS as usize];
    let mut seen = vec![0; KEYS as usize];
    for stamp in 1..OPERATIONS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let key = random % KEYS;
        let name = format!("hot-key-{key}");
        let own = key % threads == thread;
        if own && random >> 32 & 3 == 0 {
            let outcome = client.set(name.as_bytes(), &value(key, stamp));
            assert_eq!(outcome, Outcome::Stored);
            written[key as usize] = stamp;
        } else if own && random >> 32 & 63 == 1 {
            client.outcome(name.as_bytes(), Operation::Delete);
        } else if let Some(value) = client.get(name.as_bytes()) {
            let stamp = stamp_of(key, &value);
            assert!(stamp >= seen[key as usize], "an older value came back");
            assert!(!own || stamp == written[key as usize], "not what this thread wrote last");
            seen[key as usize] = stamp;
        }
    }
}

fn stress(eviction: Eviction, data_units: u64, buckets: u64) -> Stats {
    let threads = 4;
    let geometry = Setup {
        partition_bits: 1,
        buckets,
        data_units,
        offset_bits: 24,
        eviction,
        workers: threads,
        ..Setup::default()
    };
    let cache = geometry.cache();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut client = Client::new(&cache, thread);
            scope.spawn(move || hammer(&mut client, thread as u64, threads as u64));
        }
    });
    cache.stats()
}

#[test]
fn no_thread_sees_a_torn_or_wrong_value_while_nothing_is_evicted() {
    let stats = stress(Eviction::Fifo, 64 * 512, 64);
    assert!(stats.items_inserted > 0);
}

#[test]
fn no_thread_sees_a_torn_or_wrong_value_while_the_log_evicts() {
    for eviction in Eviction::ALL {
        let stats = stress(eviction, 512, 8);
        assert!(stats.evicted_log > 0, "{eviction:?} {stats:?}");
    }
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
