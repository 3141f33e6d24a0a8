//! What a worker needs of a set of streams, however the kernel tells what happens to them.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;

use crate::{ByteStream, Event, Interest, Stream};

/// A set of streams and other descriptors, level triggered: whatever is not taken is reported
/// again. One thread uses it; it is chosen once, when that thread starts.
pub trait Streams: Debug {
    /// A stream of the set.
    type Stream: ByteStream + Debug;

    /// Makes a connection one of this set's. Nothing is reported before [`Self::add`].
    ///
    /// # Errors
    /// What the kernel says.
    fn adopt(&mut self, stream: Stream) -> io::Result<Self::Stream>;

    /// Reports what happens to a stream from now on, under `token`. It leaves the set when it is
    /// dropped.
    ///
    /// # Errors
    /// What the kernel says.
    fn add(&mut self, stream: &Self::Stream, token: u64, interest: Interest) -> io::Result<()>;

    /// Changes what a stream is watched for.
    ///
    /// # Errors
    /// What the kernel says.
    fn change(&mut self, stream: &Self::Stream, token: u64, interest: Interest) -> io::Result<()>;

    /// Reports under `token` when there is something to read from a descriptor that is no stream
    /// (a waker, a socket for datagrams). It leaves the set when it is closed.
    ///
    /// # Errors
    /// What the kernel says.
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// Waits for events, at most `timeout_ms`; returns how many there are ([`Self::event`]).
    ///
    /// # Errors
    /// What the kernel says; an interruption by a signal counts as no event.
    fn wait(&mut self, timeout_ms: u16) -> io::Result<usize>;

    /// One of the events of the last wait.
    ///
    /// # Panics
    /// When there were not that many.
    fn event(&self, number: usize) -> Event;
}
