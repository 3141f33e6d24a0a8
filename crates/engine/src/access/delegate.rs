//! Delegation: a worker has the owner of a partition run a closure.
//!
//! A worker that may not act on a partition posts a closure to the owner's mailbox and waits for
//! it. It serves its own mailbox meanwhile, so that two workers that wait for each other both
//! continue. A wait that lasts is a sleep, which the end of the job and jobs for the waiting worker
//! end. There is one slot for each pair of workers: a worker waits for one closure at a time.

use std::cell::UnsafeCell;

use micanite_memory::sync::{AtomicU32, Ordering, fence};
use micanite_memory::{Futex, Patience};

// State of a slot.
const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;
/// Flag beside these: the worker that posted the job may sleep until it is done.
const AWAITED: u32 = 4;

// State of a worker.
const AWAKE: u32 = 0;
/// It waits for events, and its waker ends that.
const WAITS_FOR_EVENTS: u32 = 1;
/// It waits for the end of a job that it posted.
const WAITS_FOR_JOB: u32 = 2;

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
    /// State of the worker, which sleeps on it while a job of its own lasts.
    sleep: Futex,
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

impl Mailbox {
    /// Has the worker sleep until its job in a slot is done, or a job for itself is posted. May return early.
    #[cold]
    fn sleep_until_done(&self, slot: &Slot) {
        self.sleep.word().store(WAITS_FOR_JOB, Ordering::Relaxed);
        // Either a worker that posts a job sees that this one sleeps, or this sees the post.
        fence(Ordering::SeqCst);
        // Either the owner sees the flag, and with it the state above, or this sees the end of the job.
        let is_done = slot.state.fetch_or(AWAITED, Ordering::AcqRel) & DONE != 0;
        if !is_done && self.posted.load(Ordering::Acquire) == 0 {
            self.sleep.wait(WAITS_FOR_JOB);
        }
        self.sleep.word().store(AWAKE, Ordering::Relaxed);
    }

    /// Wakes the worker if it sleeps until a job of its own is done.
    #[cold]
    fn rouse(&self) {
        let (from, to, order) = (WAITS_FOR_JOB, AWAKE, Ordering::AcqRel);
        // By now it may wait for events, which its waker ends.
        if self.sleep.word().compare_exchange(from, to, order, Ordering::Relaxed).is_ok() {
            self.sleep.wake();
        }
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
            sleep: Futex::new(AWAKE),
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
        match mailbox.sleep.word().load(Ordering::Relaxed) {
            WAITS_FOR_EVENTS => wake(),
            WAITS_FOR_JOB => mailbox.rouse(),
            _ => {}
        }
        let mut patience = Patience::default();
        while slot.state.load(Ordering::Acquire) & DONE == 0 {
            self.serve(requester);
            if !patience.stays_awake() {
                self.0[requester].sleep_until_done(slot);
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
        for (requester, slot) in mailbox.slots.iter().enumerate() {
            if slot.state.load(Ordering::Acquire) & POSTED == 0 {
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
            if slot.state.swap(DONE, Ordering::AcqRel) & AWAITED != 0 {
                self.0[requester].rouse();
            }
        }
    }

    /// Records that a worker is about to sleep. Returns false if a job is posted.
    pub fn fall_asleep(&self, worker: usize) -> bool {
        let mailbox = &self.0[worker];
        mailbox.sleep.word().store(WAITS_FOR_EVENTS, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if mailbox.posted.load(Ordering::Acquire) == 0 {
            return true;
        }
        mailbox.sleep.word().store(AWAKE, Ordering::Relaxed);
        false
    }

    /// Records that a worker has woken.
    pub fn wake_up(&self, worker: usize) {
        self.0[worker].sleep.word().store(AWAKE, Ordering::Relaxed);
    }
}
