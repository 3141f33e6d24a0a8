//! Walks and copies within a partition. They rely on the numbers of buckets, so while one is in a
//! partition, the index of that partition does not shrink.

use std::sync::Arc;

use micanite_memory::Patience;
use micanite_memory::sync::AtomicU64;
use micanite_memory::sync::Ordering::{Acquire, Relaxed, Release};

/// Flag beside the count of walks: the index shrinks.
const SHRINKING: u64 = 1 << 63;

/// Number of walks and copies in a partition, and the flag that its index shrinks.
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
    /// Keeps the index from shrinking until the result is dropped. Waits while it shrinks, for one
    /// call of [`Walkers::without`], which waits for no other thread.
    pub fn enter(&self) -> Walking {
        let (mut before, mut patience) = (self.0.fetch_add(1, Acquire), Patience::of_yields());
        while before & SHRINKING != 0 {
            patience.pause();
            before = self.0.load(Acquire);
        }
        Walking(Arc::clone(&self.0))
    }

    /// Returns whether there is no walk and the index does not shrink.
    pub fn are_none(&self) -> bool {
        self.0.load(Relaxed) == 0
    }

    /// Runs `shrink`, which shrinks the index, unless there is a walk or a copy. A walk that comes
    /// meanwhile waits, so `shrink` must wait for no other thread.
    pub fn without<R>(&self, shrink: impl FnOnce() -> R) -> Option<R> {
        let none = self.0.compare_exchange(0, SHRINKING, Acquire, Relaxed);
        none.ok()?;
        let result = shrink();
        self.0.fetch_sub(SHRINKING, Release);
        Some(result)
    }
}
