//! The sizes of items change during the life of a cache: after three passes it holds what a fresh one holds.

mod histories;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use micanite_engine::*;

const NOW_S: u32 = 1000;
const MEMORY_BYTES: usize = 16 << 20;
/// Bytes beside key and value, for estimates.
const ITEM_BYTES: usize = 32;
/// Passes over the keys of a look-aside load.
const PASSES: usize = 5;

struct Client {
    cache: Arc<Cache>,
    worker: Worker,
    value: Vec<u8>,
}

impl Client {
    fn new(eviction: Eviction) -> Self {
        let config =
            Config { memory_bytes: MEMORY_BYTES, value_bytes_max: 1 << 20, eviction, ..Config::default() };
        let cache = Arc::new(Cache::new(&config).unwrap());
        let worker = cache.worker(0).unwrap();
        Self { cache, worker, value: vec![7; 1 << 20] }
    }

    /// Gets each key, and stores those that are missing. Returns the hit ratio.
    fn pass(&mut self, life: u64, keys: u64, bytes: usize) -> f64 {
        let mut hits = 0;
        for key in 0..keys {
            let name = (life << 32 | key).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            if self.worker.get_with(&name, NOW_S, |_, _| ()).unwrap().is_some() {
                hits += 1;
            } else {
                let _ = self.worker.set(&name, &self.value[..bytes], Expiry::NEVER, NOW_S);
            }
            if key % 1000 == 0 {
                self.worker.maintain(NOW_S);
            }
        }
        hits as f64 / keys as f64
    }

    /// Fills the memory a bit more than once.
    fn fill(&mut self, life: u64, bytes: usize) {
        self.pass(life, keys_for(bytes, 1.2), bytes);
    }
}

/// Returns the keys whose items take so much of the memory.
fn keys_for(bytes: usize, share: f64) -> u64 {
    ((MEMORY_BYTES as f64 * share) as usize / (bytes + ITEM_BYTES)) as u64 + 1
}

/// Proves that a load that fits is held after a change of sizes, as by a fresh cache. Full buckets once
/// evicted its items for ever, because the main log, which they did not reach, stood where the index was to
/// grow. The items that move there leave in another order than they came: a few are missed in the third pass.
#[test]
fn a_second_life_of_other_sizes_is_held_like_a_first() {
    for eviction in [Eviction::S3Fifo, Eviction::Clock, Eviction::ApproximateLru, Eviction::Fifo] {
        for (before, bytes) in [
            (20_000, 100),
            (5_000, 60),
            (900_000, 100),
            (1_000, 20),
            (250_000, 8),
            (100_000, 300),
            (300, 20_000),
            (20, 2_000),
        ] {
            let keys = keys_for(bytes, 0.2);
            let mut client = Client::new(eviction);
            client.fill(1, before);
            let hits: Vec<f64> = (0..PASSES).map(|_| client.pass(2, keys, bytes)).collect();
            let full = client.cache.stats().evicted_bucket;
            println!(
                "{eviction:?}, {before} B -> {bytes} B, {keys} keys: {hits:.3?}, {full} from full buckets"
            );
            assert!(
                hits[3..].iter().all(|hits| *hits >= 0.97),
                "{eviction:?}, {before} -> {bytes}: {hits:?}"
            );
            assert!(full * 8 < keys, "{eviction:?}, {before} -> {bytes}: {full} from full buckets");
        }
    }
}

/// Proves that the index of many small items gives its lines to the large ones that follow, which then take
/// as much as in a fresh cache, and that it hinders no low limit. Small items that come back are held.
#[test]
fn an_index_that_was_large_goes_to_the_items() {
    for eviction in [Eviction::S3Fifo, Eviction::Clock, Eviction::ApproximateLru, Eviction::Fifo] {
        let (small, large) = (20, 20_000);
        let mut fresh = Client::new(eviction);
        let mut client = Client::new(eviction);
        client.fill(1, small);
        let most = client.cache.stats();
        let low = MEMORY_BYTES / 4;
        assert!(client.cache.set_memory_limit(low).is_err(), "{eviction:?}: {most:?}");
        for _ in 0..2 * PASSES {
            for client in [&mut fresh, &mut client] {
                client.pass(2, keys_for(large, 0.6), large);
                for _ in 0..100 {
                    client.worker.maintain(NOW_S);
                }
            }
        }
        let (stats, expected) = (client.cache.stats(), fresh.cache.stats());
        println!("{eviction:?}: {} -> {} bytes of index", most.index_bytes, stats.index_bytes);
        // It goes back to a quarter of the load at which it grows, or to its first size.
        let per_item = |stats: &Stats| stats.buckets as f64 / stats.items_live as f64;
        let is_first = stats.buckets == expected.buckets;
        assert!(is_first || per_item(&stats) < 5.0 * per_item(&most), "{eviction:?}: {stats:?}");
        let live = stats.item_bytes_live as f64 / expected.item_bytes_live as f64;
        assert!(live >= 0.95, "{eviction:?}: {live}");
        client.cache.set_memory_limit(low).unwrap();
        while !client.cache.follows_memory_limit() {
            client.worker.maintain(NOW_S);
        }
        client.cache.set_memory_limit(MEMORY_BYTES).unwrap();
        let keys = keys_for(small, 0.2);
        let hits: Vec<f64> = (0..PASSES).map(|_| client.pass(3, keys, small)).collect();
        assert!(hits[3..].iter().all(|hits| *hits >= 0.97), "{eviction:?}: {hits:?}");
    }
}

/// Proves that readers find everything while the index of a cache with room shrinks and grows beside them.
#[test]
fn readers_beside_an_index_that_shrinks_find_everything() {
    let config = Config { memory_bytes: MEMORY_BYTES, workers: 2, ..Config::default() };
    let cache = Arc::new(Cache::new(&config).unwrap());
    let (mut writer, mut reader) = (cache.worker(0).unwrap(), cache.worker(1).unwrap());
    let lasting: Vec<_> = (0..50).map(|number| format!("lasting-{number}")).collect();
    let store = |worker: &mut Worker, key: &[u8]| {
        assert_eq!(worker.set(key, b"12345678", Expiry::NEVER, NOW_S), Outcome::Stored);
    };
    lasting.iter().for_each(|key| store(&mut writer, key.as_bytes()));
    let stop = AtomicBool::new(false);
    let shrunk = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                reader.maintain(NOW_S);
                for key in &lasting {
                    let found = reader.get_with(key.as_bytes(), NOW_S, |_, _| ()).unwrap();
                    assert!(found.is_some(), "{key}");
                }
            }
        });
        let mut shrunk = 0;
        for _ in 0..6 {
            (0..50_000u64).for_each(|key| store(&mut writer, &key.to_le_bytes()));
            let most = cache.stats().buckets;
            for key in 0..50_000u64 {
                assert_eq!(writer.delete(&key.to_le_bytes(), NOW_S), Outcome::Deleted);
            }
            for _ in 0..100 {
                writer.maintain(NOW_S);
            }
            shrunk += u64::from(cache.stats().buckets < most / 2);
        }
        stop.store(true, Ordering::Relaxed);
        shrunk
    });
    let stats = cache.stats();
    assert_eq!((shrunk, stats.evicted_log, stats.evicted_bucket), (6, 0, 0), "{stats:?}");
}
