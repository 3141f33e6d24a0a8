//! Asking the owner of a partition to run something there.
//!
//! A worker that may not act on a partition itself hands a closure to the owner's mailbox and
//! waits for it, serving its own mailbox meanwhile, so that two workers that wait for each other
//! both go on. There is one slot for every pair of workers: a worker waits for one thing at a
//! time.

use std::cell::UnsafeCell;

use micanite_memory::sync::{AtomicBool, AtomicU32, Ordering, fence, spin_loop, yield_now};

const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;
/// Spins before the owner is taken to be descheduled.
const SPINS: u32 = 200;

/// A closure without its type.
#[derive(Clone, Copy)]
struct Job {
    run: unsafe fn(*mut ()),
    data: *mut (),
}

struct Slot {
    state: AtomicU32,
    job: UnsafeCell<Option<Job>>,
}

/// What other workers ask of one.
#[repr(align(128))]
pub(crate) struct Mailbox {
    /// Jobs that are posted: a look at one word says that there is nothing to do.
    posted: AtomicU32,
    /// The worker sleeps and has to be woken.
    asleep: AtomicBool,
    slots: Box<[Slot]>,
}

// SAFETY: a job is written by the one worker whose slot it is while the slot is empty, and read by
// the owner of the mailbox while it is posted; the state orders the two. The closure may be sent
// to another thread by the bound of `Mailboxes::ask`.
#[expect(unsafe_code, reason = "a job is a raw pointer")]
unsafe impl Send for Mailbox {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a job is a raw pointer")]
unsafe impl Sync for Mailbox {}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Mailbox")
            .field("posted", &self.posted)
            .finish_non_exhaustive()
    }
}

/// Ends the process when a panic comes by. While a job is posted, somebody else refers to the frame
/// of its asker, or waits for its end.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// The mailboxes of all workers.
#[derive(Debug)]
pub(crate) struct Mailboxes(Box<[Mailbox]>);

impl Mailboxes {
    pub fn new(workers: usize) -> Self {
        let slot = |_| Slot {
            state: AtomicU32::new(EMPTY),
            job: UnsafeCell::new(None),
        };
        let mailbox = |_| Mailbox {
            posted: AtomicU32::new(0),
            asleep: AtomicBool::new(false),
            slots: (0..workers).map(slot).collect(),
        };
        Self((0..workers).map(mailbox).collect())
    }

    /// Has `owner` run `job`, on its thread, and waits until it has. `wake` wakes the owner from
    /// its sleep.
    pub fn ask<F: FnMut() + Send>(
        &self,
        (asker, owner): (usize, usize),
        mut job: F,
        wake: impl FnOnce(),
    ) {
        #[expect(unsafe_code, reason = "the closure is called through a raw pointer")]
        // SAFETY: called with the data pointer below, which is an `F` that lives until `ask` ends.
        unsafe fn call<F: FnMut()>(data: *mut ()) {
            // SAFETY: see above; only the owner refers to it while the slot is posted.
            unsafe { (*data.cast::<F>())() }
        }
        let mailbox = &self.0[owner];
        let slot = &mailbox.slots[asker];
        let erased = Job {
            run: call::<F>,
            data: (&raw mut job).cast(),
        };
        #[expect(unsafe_code, reason = "the slot is this worker's while it is empty")]
        // SAFETY: only this worker posts into this slot, and it waits until it is done.
        unsafe {
            *slot.job.get() = Some(erased);
        }
        let posted = NoUnwinding;
        slot.state.store(POSTED, Ordering::Release);
        mailbox.posted.fetch_add(1, Ordering::AcqRel);
        // Either the owner sees the post before it sleeps, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if mailbox.asleep.load(Ordering::Relaxed) {
            wake();
        }
        let mut spins = 0;
        while slot.state.load(Ordering::Acquire) != DONE {
            self.serve(asker);
            spins += 1;
            if spins < SPINS && !cfg!(loom) {
                spin_loop();
            } else {
                yield_now();
            }
        }
        slot.state.store(EMPTY, Ordering::Relaxed);
        std::mem::forget(posted);
    }

    /// Runs what other workers have asked of this one.
    #[inline]
    pub fn serve(&self, worker: usize) {
        if self.0[worker].posted.load(Ordering::Relaxed) != 0 {
            self.serve_posted(worker);
        }
    }

    #[cold]
    fn serve_posted(&self, worker: usize) {
        let mailbox = &self.0[worker];
        for slot in &mailbox.slots {
            if slot.state.load(Ordering::Acquire) != POSTED {
                continue;
            }
            #[expect(unsafe_code, reason = "the job of a posted slot is there")]
            // SAFETY: posted, so the asker waits and does not touch the slot.
            let job = unsafe { (*slot.job.get()).take() };
            if let Some(job) = job {
                let running = NoUnwinding;
                #[expect(unsafe_code, reason = "the closure lives until its asker goes on")]
                // SAFETY: the pair belongs together; only this worker, the owner of the mailbox,
                // runs the job, once, while its asker waits.
                unsafe {
                    (job.run)(job.data);
                }
                std::mem::forget(running);
            }
            mailbox.posted.fetch_sub(1, Ordering::AcqRel);
            slot.state.store(DONE, Ordering::Release);
        }
    }

    /// Notes that a worker is about to sleep. False if it has something to do first.
    pub fn fall_asleep(&self, worker: usize) -> bool {
        let mailbox = &self.0[worker];
        mailbox.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if mailbox.posted.load(Ordering::Acquire) == 0 {
            return true;
        }
        mailbox.asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Notes that a worker has woken.
    pub fn wake_up(&self, worker: usize) {
        self.0[worker].asleep.store(false, Ordering::Relaxed);
    }
}
