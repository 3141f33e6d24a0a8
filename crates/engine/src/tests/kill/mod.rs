//! A writer that is killed before each of its stores in turn.
//!
//! The operation runs once. Before each store that it makes to the partition, the present bytes
//! become an image of their own. That image is recovered, checked and compared with the contents
//! before the operation and after it. The stores are in the order of the source here.
//! `tests/stepped/main.rs` tests the order of the compiler: it stops between instructions.

mod back;
mod caches;
mod image;
mod operations;
mod random;
mod stores;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use micanite_memory::sync::Ordering::Relaxed;

use super::support::*;
use crate::index::entry::Entry;
use crate::region::{Field, watch};
use crate::*;

use image::{Seen, check_accounts, copy, observe, words};

/// One image in this many is killed within its recovery, at each store of that.
const RECOVERY_KILLED_INTERVAL: usize = 499;

/// A partition whose writer is killed again and again.
struct Killed {
    setup: Setup,
    cache: Arc<Cache>,
    client: Client,
    /// All keys that may exist.
    keys: Vec<Vec<u8>>,
    /// Stores at which the writer was killed until now.
    stores: usize,
}

impl Killed {
    fn new(setup: Setup, keys: Vec<Vec<u8>>) -> Self {
        let cache = setup.cache();
        fill_free_space(&cache.partitions[0]);
        let client = Client::new(&cache, 0);
        Self { setup, cache, client, keys, stores: 0 }
    }

    /// Returns the present contents.
    fn seen(&self) -> Seen {
        let partition = copy(&self.cache.partitions[0]);
        observe(&self.setup, partition, &self.keys, self.client.now_s).0
    }

    /// Runs an operation and kills its writer before each store. A store is then all as before, or
    /// all as afterwards; a cache may lack items.
    fn at_each_store<R>(&mut self, name: &str, operation: impl FnOnce(&mut Client) -> R) -> R {
        let before = self.seen();
        let found = Rc::new(RefCell::new((0, Vec::new())));
        let (setup, cache, keys) = (self.setup, Arc::clone(&self.cache), self.keys.clone());
        let (now_s, first, into) = (self.client.now_s, self.stores, Rc::clone(&found));
        let kill = move || {
            let (stores, seen) = &mut *into.borrow_mut();
            let after = recovered(&setup, &cache.partitions[0], &keys, now_s);
            if (first + *stores) % RECOVERY_KILLED_INTERVAL == 0 {
                killed_in_recovery(&setup, &cache.partitions[0], &keys, now_s, &after);
            }
            if seen.last().is_none_or(|(_, last)| *last != after) {
                seen.push((*stores, after));
            }
            *stores += 1;
        };
        let region = &self.cache.partitions[0].region;
        let result = watch(region, kill, || operation(&mut self.client));
        let after = self.seen();
        let (stores, seen) = &*found.borrow();
        self.stores += stores;
        let mut is_done = false;
        for (store, seen) in seen {
            if self.setup.semantics == Semantics::Cache {
                check_cache(name, *store, seen, [&before, &after]);
                continue;
            }
            // A cache may have a gap in its history; a store has none, and never goes back.
            is_done |= *seen != before;
            let expected = if is_done { &after } else { &before };
            assert_eq!(seen, expected, "{name}: killed at its store {store}");
        }
        result
    }
}

/// Fills the free words with what could be entries: items were there before, whose bytes can be anything.
/// Every other one leads out of the partition, the others to any of its words.
fn fill_free_space(partition: &crate::partition::Partition) {
    let mut random = Random(1);
    let (first, end) = (partition.layout.data_first(), partition.get(Field::DataEnd) as usize);
    for word in (first..end).filter(|word| partition.word(*word).load(Relaxed) == 0) {
        let offset = if word % 2 == 0 { u64::MAX >> 20 } else { random.next() % end as u64 };
        let tag = (random.next() | 1) << 48;
        partition.word(word).store(Entry(tag | offset).with_dirty(true).0, Relaxed);
    }
}

/// Returns the contents after a kill at this moment and a recovery.
fn recovered(setup: &Setup, partition: &crate::partition::Partition, keys: &[Vec<u8>], now_s: u32) -> Seen {
    let image = copy(partition);
    assert_eq!(image.check(false), Ok(()), "a killed process left damage");
    assert!(image.recover().is_ok(), "a killed process left an image that is refused");
    check_accounts(&image);
    let once = words(&image);
    image.recover().unwrap();
    assert!(once == words(&image), "a second recovery found something to do");
    let (seen, cache) = observe(setup, image, keys, now_s);
    image::check_continues(setup, &cache, keys, now_s);
    seen
}

/// Kills the recovery after a kill at this moment, too.
fn killed_in_recovery(
    setup: &Setup,
    partition: &crate::partition::Partition,
    keys: &[Vec<u8>],
    now_s: u32,
    expected: &Seen,
) {
    // A thread of its own is not watched.
    std::thread::scope(|scope| {
        let image = Arc::new(copy(partition));
        scope.spawn(move || {
            let (setup, keys, expected) = (*setup, keys.to_vec(), expected.clone());
            let of = Arc::clone(&image);
            let kill = move || {
                let seen = recovered(&setup, &of, &keys, now_s);
                match setup.semantics {
                    Semantics::Store => assert_eq!(seen, expected, "killed in its recovery"),
                    Semantics::Cache => check_cache("recovery", 0, &seen, [&expected; 2]),
                }
            };
            assert!(watch(&image.region, kill, || image.recover()).is_ok());
        });
    });
}

/// Checks that a cache may miss, but never returns a wrong value.
fn check_cache(name: &str, store: usize, seen: &Seen, allowed: [&Seen; 2]) {
    for (key, item) in seen {
        let allowed = allowed.map(|seen| seen.get(key));
        let known = allowed.contains(&Some(item));
        assert!(known, "{name}: killed at its store {store}, {key:?} holds {item:?}, not {allowed:?}");
    }
}

/// Returns the number of random operations of a test: `make soak` sets more.
fn operations(default: usize) -> usize {
    std::env::var("MICANITE_KILL_OPERATIONS").map_or(default, |operations| operations.parse().unwrap())
}
