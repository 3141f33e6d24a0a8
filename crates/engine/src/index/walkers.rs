//! Walks and copies go by the numbers of buckets. While one is in a partition, the index of that
//! partition does not shrink.

use std::sync::Arc;

use micanite_memory::sync::Ordering::{Acquire, Relaxed, Release};
use micanite_memory::sync::{AtomicU64, yield_now};

/// Beside the count of walks: the index shrinks.
const SHRINKING: u64 = 1 << 63;

/// The walks and copies in a partition, and whether its index shrinks.
#[derive(Debug, Default)]
pub(crate) struct Walkers(Arc<AtomicU64>);

/// A walk or a copy in a partition, until it is dropped.
#[derive(Debug)]
pub(crate) struct Walking(Arc<AtomicU64>);

impl Drop for Walking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

impl Walkers {
    /// Keeps the index from shrinking until the result is dropped. Waits while it shrinks, which is
    /// for one call of [`Walkers::without`]: whoever shrinks waits for nobody meanwhile.
    pub fn enter(&self) -> Walking {
        let mut before = self.0.fetch_add(1, Acquire);
        while before & SHRINKING != 0 {
            yield_now();
            before = self.0.load(Acquire);
        }
        Walking(Arc::clone(&self.0))
    }

    /// Says whether nobody walks and nothing shrinks.
    pub fn are_none(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Runs something that shrinks the index, unless there is a walk or a copy. Who comes meanwhile
    /// waits, so it must wait for nobody.
    pub fn without<R>(&self, shrink: impl FnOnce() -> R) -> Option<R> {
        let none = self.0.compare_exchange(0, SHRINKING, Acquire, Relaxed);
        none.ok()?;
        let result = shrink();
        self.0.fetch_sub(SHRINKING, Release);
        Some(result)
    }
}
