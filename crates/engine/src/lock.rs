//! The lock of a partition's writers, for workers that share partitions. Held for one operation
//! (its copy included), never across a system call.

use micanite_memory::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// Spins before the holder is taken to be descheduled.
const SPINS: u32 = 200;

/// A spin lock that yields. On a line of its own, so that spinning does not slow the holder.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Lock(AtomicU32);

impl Lock {
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    #[inline]
    pub fn try_lock(&self) -> bool {
        // Looking first keeps the line shared while spinning. loom lets a relaxed load return an
        // old value for ever, so there it is the swap alone that decides.
        let looks_free = cfg!(loom) || self.0.load(Ordering::Relaxed) == 0;
        looks_free && self.0.swap(1, Ordering::Acquire) == 0
    }

    #[inline]
    pub fn lock(&self) {
        let mut spins = 0;
        while !self.try_lock() {
            spins += 1;
            if spins < SPINS && !cfg!(loom) {
                spin_loop()
            } else {
                yield_now()
            }
        }
    }

    #[inline]
    pub fn unlock(&self) {
        self.0.store(0, Ordering::Release);
    }
}
