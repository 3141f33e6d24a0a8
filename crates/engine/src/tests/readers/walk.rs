//! Walks show every item that stays, and no other.

use std::collections::{HashMap, HashSet};

use crate::tests::support::*;
use crate::*;

/// Keeps the items of a walk, with room for this many at a time.
struct Seen {
    kept: Vec<(Vec<u8>, usize, u32)>,
    taken: Vec<(Vec<u8>, usize, u32)>,
    room: usize,
}

impl Visitor for Seen {
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit {
        if self.taken.len() == self.room {
            return Visit::Full;
        }
        let one = (item.key.to_vec(), item.value_bytes, item.expiry.0);
        self.taken.push(one);
        Visit::Next
    }

    fn take_back(&mut self) {
        self.taken.clear();
    }

    fn keep(&mut self) {
        self.room -= self.taken.len();
        self.kept.append(&mut self.taken);
    }
}

/// Walks through everything, in steps of a few buckets, with little room.
fn all(cache: &Cache, now_s: u32, mut between: impl FnMut()) -> Vec<(Vec<u8>, usize, u32)> {
    let mut walk = Walk::default();
    let mut kept = Vec::new();
    loop {
        let mut seen = Seen { kept: Vec::new(), taken: Vec::new(), room: WALK_PART_ITEMS_MIN };
        let walked = cache.walk(&mut walk, 5, now_s, &mut seen);
        kept.append(&mut seen.kept);
        if walked == Walked::End {
            return kept;
        }
        between();
    }
}

#[test]
fn a_walk_shows_each_item_once_and_none_that_has_gone() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let geometry = Setup {
            partition_bits: 1,
            // Long chains, so that one does not fit the room.
            buckets: 2,
            data_units: 32 * 512,
            semantics,
            ..Setup::default()
        };
        let cache = geometry.cache();
        let client = &mut Client::new(&cache, 0);
        let mut expected = HashMap::new();
        for number in 0..40u32 {
            let key = format!("key-{number}").into_bytes();
            let value = vec![b'x'; number as usize];
            let expiry = if number % 2 == 0 { 0 } else { 2000 + number };
            let stored = client.outcome(&key, store(Condition::Always, &value, 0, expiry));
            if stored == Outcome::Stored {
                expected.insert(key, (value.len(), expiry));
            }
        }
        client.outcome(b"key-5", Operation::Delete);
        expected.remove(b"key-5".as_slice());
        client.set(b"space:gone", b"x");
        client.worker.invalidate_namespace(b"space", 1000).unwrap();
        expected.retain(|key, _| client.get(key).is_some()); // a full chain of a cache evicts
        let shown = all(&cache, 2020, || {});
        expected.retain(|_, (_, expiry)| *expiry == 0 || *expiry > 2020);
        assert_eq!(shown.len(), expected.len(), "{semantics:?}");
        for (key, value_bytes, expiry) in shown {
            assert_eq!(expected.remove(&key), Some((value_bytes, expiry)));
        }
        client.worker.flush_all(1000, 1000);
        assert_eq!(all(&cache, 1000, || {}), []);
    }
}

#[test]
fn a_walk_beside_writers_misses_nothing_that_stays() {
    for semantics in [Semantics::Cache, Semantics::Store] {
        let config = Config { memory_bytes: 32 << 20, workers: 2, semantics, ..Config::default() };
        let cache = std::sync::Arc::new(Cache::new(&config).unwrap());
        let mut stays = Client::new(&cache, 0);
        for number in 0..2000 {
            stays.set(format!("stays-{number}").as_bytes(), b"value");
        }
        // So few that the cache has no reason to evict.
        let writes = 300_000u64;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // New keys let the index grow; deletions close gaps in its chains.
                let mut client = Client::new(&cache, 1);
                for number in 0..writes {
                    client.set(format!("comes-{}", number % 60_000).as_bytes(), b"v");
                    let gone = format!("comes-{}", number * 7919 % 60_000);
                    client.outcome(gone.as_bytes(), Operation::Delete);
                }
            });
            while !writer.is_finished() {
                let shown = all(&cache, 1000, std::thread::yield_now);
                let stayed: HashSet<_> =
                    shown.iter().filter(|(key, ..)| key.starts_with(b"stays-")).collect();
                assert_eq!(stayed.len(), 2000, "{semantics:?}");
                for (key, value_bytes, _) in &shown {
                    let text = std::str::from_utf8(key).unwrap();
                    let (kind, number) = text.split_once('-').unwrap();
                    assert!(number.parse::<u64>().unwrap() < 60_000);
                    assert_eq!(*value_bytes, if kind == "stays" { 5 } else { 1 });
                }
            }
        });
        let stats = cache.stats();
        assert_eq!(stats.evicted_log + stats.evicted_bucket, 0);
    }
}
