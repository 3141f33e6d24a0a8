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
    /// microseconds. Ends the process if the kernel refuses what it has accepted before: a filter of system
    /// calls has come between, and this thread no longer knows what the others see.
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

/// Announces to the kernel that this process will ask for barriers, and asks for one. Returns whether it may.
#[cfg(not(any(loom, miri)))]
fn register() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
        && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

#[cfg(any(loom, miri))]
fn register() -> bool {
    false
}

#[cfg(not(any(loom, miri)))]
fn interrupt_all() {
    if !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        let error = std::io::Error::last_os_error();
        eprintln!("membarrier was allowed at the start, and fails now: {error}");
        std::process::abort();
    }
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
    use crate::sync::{AtomicU64, spin_loop};

    const ROUNDS: u64 = 50_000;

    /// A word that shares its line with no other.
    #[repr(align(128))]
    #[derive(Default)]
    struct Line(AtomicU64);

    /// Two sides that meet for each round, set a flag of their own, and read the other's.
    #[derive(Default)]
    struct Meeting {
        barrier: Barrier,
        arrived: [Line; 2],
        flags: [Line; 2],
    }

    impl Meeting {
        /// Returns whether this side saw the other, by round.
        fn take_part(&self, side: usize, barrier: impl Fn(&Barrier)) -> Vec<bool> {
            let mut seen = Vec::with_capacity(ROUNDS as usize);
            for round in 1..=ROUNDS {
                self.arrived[side].0.store(round, Ordering::Release);
                let mut spins = 0;
                while self.arrived[1 - side].0.load(Ordering::Acquire) < round {
                    spins += 1;
                    // Where there is one CPU, the other side needs it.
                    if spins % (1 << 14) == 0 { thread::yield_now() } else { spin_loop() }
                }
                // The side that arrives first sees the other later, by a time that varies.
                (0..(round + side as u64) % 16).for_each(|_| spin_loop());
                self.flags[side].0.store(round, Ordering::Relaxed);
                barrier(&self.barrier);
                seen.push(self.flags[1 - side].0.load(Ordering::Relaxed) >= round);
            }
            seen
        }
    }

    /// Returns the rounds in which neither side saw the other.
    fn missed(meeting: Meeting, rare: fn(&Barrier), frequent: fn(&Barrier)) -> usize {
        let meeting = Arc::new(meeting);
        let other = Arc::clone(&meeting);
        let other = thread::spawn(move || other.take_part(1, rare));
        let one = meeting.take_part(0, frequent);
        one.iter().zip(&other.join().unwrap()).filter(|(one, other)| !**one && !**other).count()
    }

    /// Dekker's algorithm. Its second half shows that the first can fail: without the kernel's barrier both
    /// sides miss each other, if they run at the same time.
    #[test]
    fn one_of_two_sides_sees_the_other() {
        assert_eq!(missed(Meeting::default(), Barrier::rare, Barrier::frequent), 0);
        let symmetric = Meeting { barrier: Barrier { is_asymmetric: false }, ..Meeting::default() };
        assert_eq!(missed(symmetric, Barrier::rare, Barrier::frequent), 0);
        let fence_alone = |_: &Barrier| fence(Ordering::SeqCst);
        let without = missed(Meeting::default(), fence_alone, |_| compiler_fence());
        println!(
            "without the kernel's barrier both sides missed each other {without} times in {ROUNDS} rounds"
        );
    }

    /// Where the kernel has the call, it is used.
    #[test]
    fn registration_finds_what_the_kernel_offers() {
        let offered = membarrier_query() & libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED != 0;
        assert_eq!(Barrier::default().is_asymmetric, offered);
    }

    fn membarrier_query() -> libc::c_int {
        // SAFETY: as in `membarrier`.
        unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) }.max(0) as libc::c_int
    }
}
