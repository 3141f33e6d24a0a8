//! Delegation: a worker has the owner of a partition run a closure.
//!
//! A worker that may not act on a partition posts a closure to the owner's mailbox and waits for
//! it. It serves its own mailbox meanwhile, so that two workers that wait for each other both
//! continue. There is one slot for each pair of workers: a worker waits for one closure at a time.

use std::cell::UnsafeCell;

use micanite_memory::sync::{AtomicBool, AtomicU32, Ordering, fence, spin_loop, yield_now};

const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;
/// Spins before the owner is assumed to be descheduled.
const SPINS: u32 = 200;

/// A closure with its type erased.
#[derive(Clone, Copy)]
struct Job {
    run: unsafe fn(*mut ()),
    data: *mut (),
}

struct Slot {
    state: AtomicU32,
    job: UnsafeCell<Option<Job>>,
}

/// Closures that other workers have posted to one worker.
#[repr(align(128))]
pub(crate) struct Mailbox {
    /// Number of posted jobs: one load tells that there are none.
    posted: AtomicU32,
    /// True while the worker sleeps and needs a wake-up.
    asleep: AtomicBool,
    slots: Box<[Slot]>,
}

// SAFETY: the one worker that the slot belongs to writes a job while the slot is empty, and the
// owner of the mailbox reads it while it is posted; the state orders the two. The bound of
// `Mailboxes::delegate` allows sending the closure to another thread.
#[expect(unsafe_code, reason = "a job is a raw pointer")]
unsafe impl Send for Mailbox {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a job is a raw pointer")]
unsafe impl Sync for Mailbox {}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Mailbox").field("posted", &self.posted).finish_non_exhaustive()
    }
}

/// Aborts the process when a panic unwinds through it. While a job is posted, another thread refers
/// to the frame of the worker that posted it, or waits for its end.
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
        let slot = |_| Slot { state: AtomicU32::new(EMPTY), job: UnsafeCell::new(None) };
        let mailbox = |_| Mailbox {
            posted: AtomicU32::new(0),
            asleep: AtomicBool::new(false),
            slots: (0..workers).map(slot).collect(),
        };
        Self((0..workers).map(mailbox).collect())
    }

    /// Has `owner` run `job` on its thread, and waits for the end. `wake` wakes the owner.
    pub fn delegate<F: FnMut() + Send>(
        &self,
        (requester, owner): (usize, usize),
        mut job: F,
        wake: impl FnOnce(),
    ) {
        #[expect(unsafe_code, reason = "the closure is called through a raw pointer")]
        // SAFETY: called with the data pointer below, which is an `F` that lives until `delegate` ends.
        unsafe fn call<F: FnMut()>(data: *mut ()) {
            // SAFETY: see above; only the owner refers to it while the slot is posted.
            unsafe { (*data.cast::<F>())() }
        }
        let mailbox = &self.0[owner];
        let slot = &mailbox.slots[requester];
        let erased = Job { run: call::<F>, data: (&raw mut job).cast() };
        #[expect(unsafe_code, reason = "the slot is this worker's while it is empty")]
        // SAFETY: only this worker posts into this slot, and it waits until the job is done.
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
            self.serve(requester);
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

    /// Runs the jobs that other workers have posted to this one.
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
            // SAFETY: posted, so the worker that posted it waits and does not touch the slot.
            let job = unsafe { (*slot.job.get()).take() };
            if let Some(job) = job {
                let running = NoUnwinding;
                #[expect(unsafe_code, reason = "the closure lives until its requester continues")]
                // SAFETY: the function and the data belong together; only this worker, the owner of
                // the mailbox, runs the job, once, while the worker that posted it waits.
                unsafe {
                    (job.run)(job.data);
                }
                std::mem::forget(running);
            }
            mailbox.posted.fetch_sub(1, Ordering::AcqRel);
            slot.state.store(DONE, Ordering::Release);
        }
    }

    /// Records that a worker is about to sleep. Returns false if a job is posted.
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

    /// Records that a worker has woken.
    pub fn wake_up(&self, worker: usize) {
        self.0[worker].asleep.store(false, Ordering::Relaxed);
    }
}
