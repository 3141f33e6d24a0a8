//! Sleeping workers: the worker that forwards a datagram wakes the owner if it sleeps, and only then.
//!
//! ```text
//!  the worker                          another one
//!  sets its flag                       puts a datagram into its ring
//!  a fence                             a fence
//!  looks at its rings, sleeps if       looks at the flag, wakes it if set
//!  they are empty
//! ```
//!
//! One of two fences is the first: if it is the worker's, the other one sees the flag; if it is the other's,
//! the worker sees the datagram. So no datagram lies in the ring of a worker that sleeps and that nobody
//! wakes.
//!
//! All changes of the flag are swaps, which have one order, in the models below as well.

use micanite_memory::sync::{AtomicBool, Ordering, fence};

/// The flag of one worker, on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct SleepFlag(AtomicBool);

impl Default for SleepFlag {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl SleepFlag {
    /// Sets the flag: the worker is about to sleep. A last look at its rings has to follow.
    pub fn fall_asleep(&self) {
        self.0.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Clears the flag: the worker does not sleep. A look at its rings has to follow before it sleeps again.
    pub fn wake_up(&self) {
        self.0.swap(false, Ordering::Relaxed);
    }

    /// Clears the flag after a datagram was put into a ring of the worker, and returns whether the caller has
    /// to wake it. One of several callers is told so: a burst wakes the worker once.
    #[inline]
    pub fn take_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_wakes_a_sleeping_worker_once() {
        let flag = SleepFlag::default();
        assert!(!flag.take_wake(), "it does not sleep");
        for _ in 0..2 {
            flag.fall_asleep();
            assert!(flag.take_wake());
            assert!(!flag.take_wake(), "the first caller wakes it");
            flag.wake_up();
            assert!(!flag.take_wake());
        }
    }
}

/// `scripts/test/loom`: every interleaving of this file's own code.
#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use loom::sync::{Arc, Notify};
    use loom::thread;
    use micanite_memory::sync::AtomicU64;

    /// A ring with as many datagrams as it counts, and the event that wakes the worker.
    struct Model {
        flag: SleepFlag,
        rings: [AtomicU64; 2],
        event: Notify,
    }

    impl Model {
        fn forward(&self, ring: usize) {
            // As a ring publishes what was written to it.
            let filled = self.rings[ring].load(Ordering::Relaxed);
            self.rings[ring].store(filled + 1, Ordering::Release);
            if self.flag.take_wake() {
                self.event.notify();
            }
        }

        fn forwarded(&self) -> u64 {
            let filled = self.rings.iter().map(|ring| ring.load(Ordering::Acquire));
            filled.sum()
        }

        /// The worker, until it has seen so much. It sleeps until it is woken, without a limit: a
        /// wake that is lost leaves it asleep for ever, which loom reports.
        fn work(&self, expected: u64) {
            loop {
                let seen = self.forwarded();
                if seen == expected {
                    return;
                }
                self.flag.fall_asleep();
                if self.forwarded() == seen {
                    self.event.wait();
                }
                self.flag.wake_up();
            }
        }
    }

    fn model(producers: usize, each: u64) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.max_branches = 10_000;
        let runs = std::sync::Arc::new(AtomicUsize::new(0));
        let count = std::sync::Arc::clone(&runs);
        builder.check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let model = Arc::new(Model {
                flag: SleepFlag::default(),
                rings: [AtomicU64::new(0), AtomicU64::new(0)],
                event: Notify::new(),
            });
            let threads: Vec<_> = (0..producers)
                .map(|ring| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || (0..each).for_each(|_| model.forward(ring)))
                })
                .collect();
            model.work(producers as u64 * each);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let runs = runs.load(Ordering::Relaxed);
        assert!(runs > 1, "one order of events alone was explored");
    }

    #[test]
    fn loom_one_forwarder_wakes_a_sleeping_worker() {
        model(1, 2);
    }

    #[test]
    fn loom_two_forwarders_wake_a_sleeping_worker() {
        model(2, 1);
    }
}
