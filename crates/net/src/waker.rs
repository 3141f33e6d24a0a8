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
    /// A waker that nobody has woken.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            event: EventFd::from_flags(flags)?,
        })
    }

    /// Makes the waiting thread return, now or at its next wait.
    pub fn wake(&self) {
        // It fails only when the count is at its limit, and then it is awake already.
        let _ = self.event.write(1);
    }

    /// Takes the wakes that have come.
    pub fn take(&self) {
        // It fails only when there was none.
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
