//! The lock of a partition's writers, for workers that share partitions. A worker holds it for one
//! operation (its copy included), never across a system call. And a queue, for rare and long work.

use micanite_memory::Patience;
use micanite_memory::sync::{AtomicU32, AtomicU64, Ordering};

/// A spin lock that yields, then sleeps. It has a line of its own, so that spinning does not slow the holder.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub fn try_lock(&self) -> bool {
        // The load before the swap keeps the line shared while spinning. loom lets a relaxed load
        // return an old value forever, so there the swap alone decides.
        let looks_free = cfg!(loom) || self.0.load(Ordering::Relaxed) == 0;
        looks_free && self.0.swap(1, Ordering::Acquire) == 0
    }

    #[inline]
    pub fn lock(&self) {
        let mut patience = Patience::default();
        while !self.try_lock() {
            patience.pause();
        }
    }

    #[inline]
    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A first-come, first-served lock, so that a wait ends after those who came before. Workers serve
/// others while they wait.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of the next caller.
    next: AtomicU64,
    /// Number of the present holder.
    served: AtomicU64,
}

/// The lock of a [`Queue`], until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Queue);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.served.fetch_add(1, Ordering::Release);
    }
}

impl Queue {
    pub fn new() -> Self {
        Self { next: AtomicU64::new(0), served: AtomicU64::new(0) }
    }

    /// Waits for the lock; calls `idle` meanwhile.
    pub fn wait(&self, mut idle: impl FnMut()) -> Turn<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut patience = Patience::of_yields();
        while self.served.load(Ordering::Acquire) != number {
            idle();
            patience.pause();
        }
        Turn(self)
    }

    /// Returns how many callers have the lock or wait for it, for tests.
    #[cfg(all(test, not(any(loom, miri))))]
    pub fn length(&self) -> u64 {
        self.next.load(Ordering::Acquire) - self.served.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;

    /// Proves that a queue gives turns in the order of the calls, and calls `idle` while one waits.
    #[test]
    fn turns_come_in_the_order_of_the_calls() {
        let queue = Queue::new();
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            let first = queue.wait(|| unreachable!("nobody is before the first"));
            for number in 1..=4u64 {
                let (queue, order) = (&queue, &order);
                scope.spawn(move || {
                    let mut idle = 0u64;
                    let _turn = queue.wait(|| idle += 1);
                    assert!(idle > 0);
                    order.lock().unwrap().push(number);
                });
                while queue.length() != number + 1 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
    }
}
