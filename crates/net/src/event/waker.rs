//! Wakes a thread that waits in its [`crate::Poller`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// An eventfd: register it for reading, and [`Waker::wake`] it from another thread.
#[derive(Debug)]
pub struct Waker {
    event: EventFd,
}

impl Waker {
    /// Creates a waker without a pending wake.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self { event: EventFd::from_flags(flags)? })
    }

    /// Makes the waiting thread return, now or at its next wait.
    pub fn wake(&self) {
        // The write fails only if the count is at its limit, and then a wake is pending.
        let _ = self.event.write(1);
    }

    /// Clears pending wakes.
    pub fn take(&self) {
        // The read fails only if none is pending.
        let _ = self.event.read();
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Interest, Poller};
    use std::sync::Arc;

    #[test]
    fn a_wake_reaches_a_waiting_thread() {
        let waker = Arc::new(Waker::new().unwrap());
        let mut poller = Poller::new().unwrap();
        poller.add(&*waker, 1, Interest::Read).unwrap();
        let other = {
            let waker = Arc::clone(&waker);
            std::thread::spawn(move || waker.wake())
        };
        assert_eq!(poller.wait(60_000).unwrap(), 1);
        other.join().unwrap();
        waker.take();
        assert_eq!(poller.wait(0).unwrap(), 0);
    }
}
