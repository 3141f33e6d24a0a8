//! A memory barrier of two sides, one frequent and one rare (membarrier(2)). The rare side makes the kernel
//! run a barrier on every CPU that runs a thread of this process, so that the frequent side only has to keep
//! the compiler from moving its accesses. Where the kernel has no such call, both sides run a fence.

use crate::sync::{Ordering, fence};

/// What each side does.
#[derive(Debug)]
pub struct Barrier {
    is_asymmetric: bool,
}

impl Default for Barrier {
    fn default() -> Self {
        Self { is_asymmetric: register() }
    }
}

impl Barrier {
    /// Orders all accesses of this thread before the call with those behind it, for the frequent side.
    /// Against [`Barrier::rare`] it is a sequentially consistent fence.
    #[inline(always)]
    pub fn frequent(&self) {
        if self.is_asymmetric {
            compiler_fence();
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// Orders all accesses of this thread before the call with those behind it, for the rare side. It takes
    /// microseconds.
    ///
    /// # Panics
    /// If the kernel refuses what it has accepted before: a filter of system calls has come between.
    pub fn rare(&self) {
        fence(Ordering::SeqCst);
        if self.is_asymmetric {
            interrupt_all();
        }
    }
}

#[cfg(not(any(loom, miri)))]
fn compiler_fence() {
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

#[cfg(any(loom, miri))]
fn compiler_fence() {
    unreachable!("barriers of the kernel are no part of the memory model");
}

/// Announces to the kernel that this process will ask for barriers. Returns whether it may.
#[cfg(not(any(loom, miri)))]
fn register() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

#[cfg(any(loom, miri))]
fn register() -> bool {
    false
}

#[cfg(not(any(loom, miri)))]
fn interrupt_all() {
    let done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    assert!(done, "membarrier was allowed at the start, and fails now: {}", std::io::Error::last_os_error());
}

#[cfg(any(loom, miri))]
fn interrupt_all() {}

#[cfg(not(any(loom, miri)))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: membarrier takes numbers alone, and changes nothing in the memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::sync::AtomicU64;

    /// Dekker's algorithm: of two threads that set a flag of their own and then read the other's, one sees
    /// the other. Without barriers both miss each other within a few thousand rounds.
    #[test]
    fn one_of_two_sides_sees_the_other() {
        const ROUNDS: u64 = 20_000;
        let shared = Arc::new((Barrier::default(), [0; 2].map(AtomicU64::new), AtomicU64::new(0)));
        let meet = |(.., arrived): &(Barrier, [AtomicU64; 2], AtomicU64), target: u64| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < target {
                thread::yield_now();
            }
        };
        let run = move |side: usize, shared: &(Barrier, [AtomicU64; 2], AtomicU64)| {
            let mut seen = Vec::new();
            for round in 1..=ROUNDS {
                meet(shared, 2 * round);
                shared.1[side].store(round, Ordering::Relaxed);
                if side == 0 {
                    shared.0.frequent()
                } else {
                    shared.0.rare()
                }
                seen.push(shared.1[1 - side].load(Ordering::Relaxed) >= round);
            }
            seen
        };
        let other = Arc::clone(&shared);
        let rare = thread::spawn(move || run(1, &other));
        let frequent = run(0, &shared);
        let rare = rare.join().unwrap();
        let missed = frequent.iter().zip(&rare).filter(|(one, other)| !**one && !**other).count();
        assert_eq!(missed, 0);
    }
}
