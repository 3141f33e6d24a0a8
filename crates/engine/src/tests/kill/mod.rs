//! A writer that is killed before each of its stores in turn.
//!
//! The operation runs once. Before each store that it makes to the partition, the bytes as they are
//! become an image of their own, which is recovered, checked and compared with what was there
//! before the operation and after it. The order of the stores is that of the source here; what the
//! compiler makes of it is seen by `tests/stepped.rs`, which stops between instructions.

mod caches;
mod image;
mod operations;
mod random;
mod stores;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::support::*;
use crate::region::watch;
use crate::*;

use image::{Seen, check_accounts, copy, observe, words};

/// One image in so many is killed within its recovery, at each store of that.
const RECOVERY_KILLED_INTERVAL: usize = 499;

/// A partition whose writer is killed again and again.
struct Killed {
    setup: Setup,
    cache: Arc<Cache>,
    client: Client,
    /// All keys that may be there.
    keys: Vec<Vec<u8>>,
    /// Stores at which the writer was killed until now.
    stores: usize,
}

impl Killed {
    fn new(setup: Setup, keys: Vec<Vec<u8>>) -> Self {
        let cache = setup.cache();
        let client = Client::new(&cache, 0);
        Self {
            setup,
            cache,
            client,
            keys,
            stores: 0,
        }
    }

    /// What is there now.
    fn seen(&self) -> Seen {
        let partition = copy(&self.cache.partitions[0]);
        observe(&self.setup, partition, &self.keys, self.client.now_s).0
    }

    /// Runs an operation and kills its writer before each store. Of a store everything is as it was
    /// before, or all as it is afterwards; of a cache items may be missing.
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
            // A gap in a cache's history is one thing; a store has none, and never goes back.
            is_done |= *seen != before;
            let expected = if is_done { &after } else { &before };
            assert_eq!(seen, expected, "{name}: killed at its store {store}");
        }
        result
    }
}

/// What is there after a kill at this moment and a recovery.
fn recovered(
    setup: &Setup,
    partition: &crate::partition::Partition,
    keys: &[Vec<u8>],
    now_s: u32,
) -> Seen {
    let image = copy(partition);
    assert_eq!(image.check(false), Ok(()), "a killed process left damage");
    assert!(
        image.recover().is_ok(),
        "a killed process left an image that is refused"
    );
    check_accounts(&image);
    let once = words(&image);
    image.recover().unwrap();
    assert!(
        once == words(&image),
        "a second recovery found something to do"
    );
    let (seen, cache) = observe(setup, image, keys, now_s);
    image::goes_on(setup, &cache, keys, now_s);
    seen
}

/// Kills the recovery of what a kill at this moment leaves, too.
fn killed_in_recovery(
    setup: &Setup,
    partition: &crate::partition::Partition,
    keys: &[Vec<u8>],
    now_s: u32,
    expected: &Seen,
) {
    // Out of the watch of the writer, on a thread of its own.
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

/// A cache may miss, but never lies.
fn check_cache(name: &str, store: usize, seen: &Seen, allowed: [&Seen; 2]) {
    for (key, item) in seen {
        let allowed = allowed.map(|seen| seen.get(key));
        let known = allowed.contains(&Some(item));
        assert!(
            known,
            "{name}: killed at its store {store}, {key:?} holds {item:?}, not {allowed:?}"
        );
    }
}

/// How many random operations a test makes: `make soak` asks for more.
fn operations(default: usize) -> usize {
    std::env::var("MICANITE_KILL_OPERATIONS")
        .map_or(default, |operations| operations.parse().unwrap())
}
