//! Wakes a thread that sleeps, and costs a load if it does not.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering, fence};

use micanite_net::Waker;

/// Wakes one thread.
#[derive(Debug)]
pub(super) struct Bell {
    waker: Waker,
    sleeps: AtomicBool,
}

impl Bell {
    /// # Errors
    /// Returns the kernel's error.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { waker: Waker::new()?, sleeps: AtomicBool::new(false) })
    }

    /// Wakes the thread if it sleeps. What was written before is seen by it, or by its last look.
    #[inline]
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            self.waker.wake();
        }
    }

    /// Announces that the thread is about to sleep. It looks for work once more before it does.
    pub(super) fn fall_asleep(&self) {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Notes that the thread is awake.
    #[inline]
    pub(super) fn wake_up(&self) {
        if self.sleeps.load(Ordering::Relaxed) {
            self.sleeps.store(false, Ordering::Relaxed);
        }
    }

    /// Clears what has woken the thread.
    pub(super) fn clear(&self) {
        self.waker.take();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
