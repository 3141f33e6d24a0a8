//! A set of streams that receives by io_uring.
//!
//! ```text
//!  each stream that is read: one multishot receive, which stays until it is cancelled
//!      kernel --bytes--> a provided buffer --completion--> the stream's inbox --recv--> the caller
//!                             ^------------- given back when it is read ----------------'
//!  send: the system call, as elsewhere
//!  everything else (waiting to send, waiting for nothing, descriptors that are no streams, and
//!  reading while all provided buffers are in inboxes): an epoll set that the ring watches
//! ```
//!
//! **One enter per round.** [`Streams::wait`] submits all changes, waits, and processes all completions:
//! reading costs no further system call. Sends are not queued. A queued send was measured to cost more
//! than the call that it replaces (`docs/benchmarks/streams.md`), its bytes would have to outlive the
//! turn, and a slow reader would occupy them twice.
//!
//! **Order.** The ring defers the kernel's work to the enter of its only thread
//! (`IORING_SETUP_DEFER_TASKRUN`), and after every enter all completions are processed. So between two
//! waits the kernel receives nothing on its own, and everything received before is in the inbox. An
//! empty inbox therefore allows the `recv` system call: for long bodies, for the first request of a
//! connection, and when no buffers are left.
//!
//! **Bounds.** The buffers are allocated once, [`Uring::BYTES`] for each set. Streams that are not read
//! can hold buffers. When none is left, the other streams receive by readiness, like with epoll.

mod core;
mod pool;
mod ring;
mod stream;
mod table;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use crate::limits::{URING_BUFFER_BYTES, URING_BUFFERS};
use crate::{ByteStream, Event, Interest, Stream, Streams};
use core::Core;
pub use stream::UringStream;

/// A set of streams. It belongs to the thread that created it.
#[derive(Debug)]
pub struct Uring {
    core: Rc<RefCell<Core>>,
    /// Events of the last wait.
    events: Vec<Event>,
}

impl Uring {
    /// Bytes of provided buffers of a set.
    pub const BYTES: usize = URING_BUFFERS * URING_BUFFER_BYTES;
    /// Bytes that a set keeps for each stream.
    pub const STREAM_BYTES: usize = table::ENTRY_BYTES + 2 * size_of::<u32>() + size_of::<Event>();

    /// Creates an empty set, for this thread alone.
    ///
    /// # Errors
    /// Returns the kernel's error: `PermissionDenied` if io_uring is forbidden (a seccomp filter,
    /// `kernel.io_uring_disabled`), `Unsupported` or `InvalidInput` if it is too old (before Linux 6.1).
    pub fn new() -> io::Result<Self> {
        Ok(Self { core: Rc::new(RefCell::new(Core::new()?)), events: Vec::new() })
    }

    /// Checks that everything works here that a set needs: a ring, provided buffers, a multishot
    /// receive that delivers.
    ///
    /// # Errors
    /// Names what does not work.
    pub fn probe() -> io::Result<()> {
        const TOKEN: u64 = 1;
        let mut set = Self::new()?;
        let (near, far) = UnixStream::pair()?;
        let mut near = set.adopt(Stream::unix(near)?)?;
        set.add(&near, TOKEN, Interest::Read)?;
        set.wait(0)?;
        let mut far = Stream::unix(far)?;
        far.send(b"x")?;
        let reported = set.wait(1000)? == 1 && set.event(0).token == TOKEN;
        let received = set.core.borrow().has_received(near.index());
        if !reported || !received || near.recv(&mut [0; 2])? != 1 {
            return Err(io::Error::other("a multishot receive does not deliver"));
        }
        Ok(())
    }
}

impl Streams for Uring {
    type Stream = UringStream;

    fn adopt(&mut self, stream: Stream) -> io::Result<UringStream> {
        let index = self.core.borrow_mut().insert(stream.as_fd().as_raw_fd());
        Ok(UringStream::new(Rc::clone(&self.core), index, stream))
    }

    fn add(&mut self, stream: &UringStream, token: u64, interest: Interest) -> io::Result<()> {
        let mut core = self.core.borrow_mut();
        core.set_token(stream.index(), token);
        core.set_interest(stream.index(), interest)
    }

    fn change(&mut self, stream: &UringStream, token: u64, interest: Interest) -> io::Result<()> {
        self.add(stream, token, interest)
    }

    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.core.borrow_mut().watch(descriptor, token)
    }

    #[inline]
    fn wait(&mut self, timeout_ms: u16) -> io::Result<usize> {
        self.events.clear();
        self.core.borrow_mut().wait(timeout_ms, &mut self.events)?;
        Ok(self.events.len())
    }

    #[inline]
    fn event(&self, number: usize) -> Event {
        self.events[number]
    }
}
