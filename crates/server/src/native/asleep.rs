//! Whether a worker sleeps: whoever hands something over wakes it then, and only then.
//!
//! ```text
//!  the worker                          another one
//!  says that it sleeps                 puts something into its ring
//!  a fence                             a fence
//!  looks at its rings, sleeps if       looks whether it sleeps, wakes it if so
//!  they are empty
//! ```
//!
//! Of two fences one is the first: if the worker's, the other one sees that it sleeps; if the
//! other's, the worker sees what is in its ring. So nothing lies in a ring beside a worker that
//! sleeps and that nobody wakes.
//!
//! All changes of the flag are swaps, which have one order, in the models below as well.

use micanite_memory::sync::{AtomicBool, Ordering, fence};

/// One worker's; on a line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Asleep(AtomicBool);

impl Default for Asleep {
    fn default() -> Self {
        Self(AtomicBool::new(false))
    }
}

impl Asleep {
    /// The worker is about to sleep. To be followed by a last look at its rings.
    pub fn fall_asleep(&self) {
        self.0.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker does not sleep, or no longer. A look at its rings follows before it sleeps again.
    pub fn wake_up(&self) {
        self.0.swap(false, Ordering::Relaxed);
    }

    /// Something was put into a ring of the worker. Returns whether it has to be woken: to one of
    /// those who have put something there, so that a burst wakes it once.
    #[inline]
    pub fn is_to_be_woken(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_wakes_a_sleeping_worker_once() {
        let asleep = Asleep::default();
        assert!(!asleep.is_to_be_woken(), "it does not sleep");
        for _ in 0..2 {
            asleep.fall_asleep();
            assert!(asleep.is_to_be_woken());
            assert!(!asleep.is_to_be_woken(), "somebody does it already");
            asleep.wake_up();
            assert!(!asleep.is_to_be_woken());
        }
    }
}

/// `scripts/test-loom`: every interleaving of this file's own code.
#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use loom::sync::{Arc, Notify};
    use loom::thread;
    use micanite_memory::sync::AtomicU64;

    /// A ring with as many datagrams as it counts, and the event that wakes the worker.
    struct Model {
        asleep: Asleep,
        rings: [AtomicU64; 2],
        event: Notify,
    }

    impl Model {
        fn hand_over(&self, ring: usize) {
            // As a ring publishes what was written to it.
            let filled = self.rings[ring].load(Ordering::Relaxed);
            self.rings[ring].store(filled + 1, Ordering::Release);
            if self.asleep.is_to_be_woken() {
                self.event.notify();
            }
        }

        fn handed_over(&self) -> u64 {
            let filled = self.rings.iter().map(|ring| ring.load(Ordering::Acquire));
            filled.sum()
        }

        /// The worker, until it has seen so much. It sleeps until it is woken, without a limit: a
        /// wake that is lost leaves it asleep for ever, which loom reports.
        fn work(&self, expected: u64) {
            loop {
                let seen = self.handed_over();
                if seen == expected {
                    return;
                }
                self.asleep.fall_asleep();
                if self.handed_over() == seen {
                    self.event.wait();
                }
                self.asleep.wake_up();
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
                asleep: Asleep::default(),
                rings: [AtomicU64::new(0), AtomicU64::new(0)],
                event: Notify::new(),
            });
            let threads: Vec<_> = (0..producers)
                .map(|ring| {
                    let model = Arc::clone(&model);
                    thread::spawn(move || (0..each).for_each(|_| model.hand_over(ring)))
                })
                .collect();
            model.work(producers as u64 * each);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        let runs = runs.load(Ordering::Relaxed);
        assert!(runs > 1, "one order of events alone was explored");
    }

    #[test]
    fn loom_a_worker_that_sleeps_is_woken_for_what_one_hands_over() {
        model(1, 2);
    }

    #[test]
    fn loom_a_worker_that_sleeps_is_woken_for_what_two_hand_over() {
        model(2, 1);
    }
}
