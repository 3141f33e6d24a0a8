//! Events of streams, by epoll or io_uring, and wakes by other threads. [`Streams`] is the interface of both.

mod idle;
mod poller;
mod uring;
mod waker;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use crate::{ByteStream, Stream};

pub use idle::{Idle, IdleRounds, Step};
pub use poller::{Event, Interest, Poller};
pub use uring::{Uring, UringStream};
pub use waker::Waker;

/// A set of streams and other descriptors, level triggered: an event is reported until it is
/// handled. One thread uses it. The implementation is chosen once, when that thread starts.
pub trait Streams: Debug {
    type Stream: ByteStream + Debug;

    /// Converts a connection to a stream of this set. Nothing is reported before [`Self::add`].
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn adopt(&mut self, stream: Stream) -> io::Result<Self::Stream>;

    /// Reports events of a stream from now on, under `token`. The stream leaves the set when it is
    /// dropped.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn add(&mut self, stream: &Self::Stream, token: u64, interest: Interest) -> io::Result<()>;

    /// Changes the interest in a stream.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn change(&mut self, stream: &Self::Stream, token: u64, interest: Interest) -> io::Result<()>;

    /// Reports under `token` when a descriptor becomes readable that is no stream (a waker, a socket for
    /// datagrams). It leaves the set when it is closed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// Waits for events, at most `timeout_ms`; returns their number ([`Self::event`]).
    ///
    /// # Errors
    /// Returns the kernel's error. An interruption by a signal counts as no event.
    fn wait(&mut self, timeout_ms: u16) -> io::Result<usize>;

    /// Returns an event of the last wait.
    ///
    /// # Panics
    /// If there were fewer events.
    fn event(&self, number: usize) -> Event;
}
