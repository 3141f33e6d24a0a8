//! The non-blocking client over a fabric.

use std::io;

use super::counters::FabricCounters;
use super::endpoint::Fabric;
use super::options::FabricOptions;
use super::pool::Pool;
use super::transport::Transport;
use super::url::FabricUrl;
use crate::driver::SubmitError;
use crate::error::Error;
#[cfg(feature = "async")]
use crate::ketama::Continuum;
use crate::local::EndedList;
use crate::operation::{Completion, Operation};
use crate::random;
use micanite_memory::ForkMark;

/// The non-blocking client over a fabric, for callers with many operations in flight: submit, poll, and wait
/// when there is nothing to do. It belongs to one thread, and to the process that connected: in the child of
/// a fork it takes no operation, and [`FabricLink::poll`] and [`FabricLink::wait`] return an error.
///
/// It has to be polled about every ten seconds even if it is idle: the server takes a client for gone that it
/// has not heard for long. Such a client connects anew with its next operation.
///
/// ```no_run
/// use micanite_client::{FabricLink, FabricOptions, FabricUrl, Operation};
/// # fn main() -> Result<(), micanite_client::Error> {
/// let servers = [FabricUrl::parse("fabric://10.0.0.1:11400?provider=tcp;ofi_rxm")?];
/// let mut link = FabricLink::connect(&servers, &FabricOptions::default())?;
/// let mut ended = 0;
/// while ended < 1000 {
///     let now_ns = link.now_ns();
///     let submitted = link.submit(now_ns, &Operation::get(b"key"), 7);
///     link.poll(now_ns, |_completion| ended += 1)?;
///     if submitted.is_err() {
///         link.wait(u64::MAX)?; // buffers are full
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FabricLink {
    pool: Pool<Fabric>,
    process: ForkMark,
}

impl FabricLink {
    /// Connects to all servers. Those that do not reply count as dead for now.
    ///
    /// # Errors
    /// No server replies, or the build has no libfabric, or a server refuses the login, or has no room for
    /// another client.
    pub fn connect(urls: &[FabricUrl], options: &FabricOptions) -> Result<Self, Error> {
        let seed = random::seed();
        let mut pool = Pool::new(urls, options, seed)?;
        pool.introduce()?;
        Ok(Self { pool, process: ForkMark::new()? })
    }

    /// Refuses the endpoints to a child of the process that opened them.
    #[inline]
    fn check_process(&self) -> io::Result<()> {
        if self.process.is_of_this_process() { Ok(()) } else { Err(io::Error::other(Error::Forked)) }
    }

    /// Returns the time for the other calls, in nanoseconds. The clock goes on while the machine sleeps.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        Fabric::now_ns()
    }

    /// Tries those dead servers of some keys again that are due, and waits briefly for a session. A link that
    /// is polled only while it has operations would take a step with each of them.
    pub(crate) fn try_again<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) -> io::Result<()> {
        self.check_process()?;
        self.pool.try_again(keys);
        Ok(())
    }

    /// Accepts an operation, which ends with a completion with this token (any number but the greatest). A
    /// get whose entry is known begins its read at once. Requests leave with the next [`FabricLink::poll`],
    /// or with the one that brings the reply to the last message.
    ///
    /// # Errors
    /// The operation was refused; there will be no completion. In the child of a fork there is no room.
    #[inline]
    pub fn submit(&mut self, _now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        self.check_process().map_err(|_| SubmitError::Full)?;
        if !operation.expires_in_time() {
            return Err(SubmitError::ExpiryTooFar);
        }
        self.pool.submit(operation, token)
    }

    /// Does nothing: all submitted operations leave as soon as they may.
    pub fn flush(&mut self) {}

    /// Sends what may leave, and takes what has arrived. Completions go to the sink; their values are the
    /// bytes that the provider wrote. Returns their number. It never waits, except to open an endpoint to a
    /// server that went away.
    ///
    /// # Errors
    /// The endpoints belong to the parent of this process. Otherwise operations end with their outcomes.
    #[inline]
    pub fn poll(&mut self, _now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        self.check_process()?;
        Ok(self.pool.poll(sink))
    }

    /// Waits until something may have arrived, or is due, or the time is over. It returns at once while
    /// something has happened within 0.2 ms, because reads take microseconds, and after 50 us if the provider
    /// wakes nobody.
    ///
    /// # Errors
    /// The endpoints belong to the parent of this process.
    pub fn wait(&mut self, at_most_ns: u64) -> io::Result<()> {
        self.check_process()?;
        self.pool.wait(at_most_ns);
        Ok(())
    }

    /// Returns true: a wait ends by itself.
    pub(crate) fn has_work(&self) -> bool {
        true
    }

    /// Returns the counters.
    pub fn counters(&self) -> &FabricCounters {
        self.pool.counters()
    }

    /// Returns the number of operations that have not ended.
    pub fn pending(&self) -> u64 {
        self.counters().submitted - self.counters().completed
    }

    /// Returns the number of entries that are known, over all servers.
    pub fn entries(&self) -> usize {
        (0..self.pool.servers()).map(|server| self.pool.connection(server).entries()).sum()
    }

    /// Returns the way of calls to the servers, for handles and for their task.
    #[cfg(feature = "async")]
    pub(crate) fn names(&self) -> (impl Iterator<Item = String>, &Continuum, u64) {
        let (continuum, deadline_ns) = self.pool.continuum();
        let names = (0..self.pool.servers()).map(|server| self.pool.connection(server).name());
        (names, continuum, deadline_ns)
    }

    /// Returns the server that requests for a key of a server go to now: itself, or another one.
    #[cfg(feature = "async")]
    pub(crate) fn server_for(&self, own: usize, key: &[u8]) -> usize {
        self.pool.server_for(own, key)
    }

    /// Does nothing: a client lets nobody else submit here.
    pub(crate) fn keep(&mut self, _: EndedList) {}

    /// Returns the error of a refused operation.
    pub(crate) fn refused(&self, key: &[u8], error: SubmitError) -> Error {
        match error {
            SubmitError::ServerDown { server } => self.pool.connection(server).error(),
            SubmitError::TooLong => {
                let server = self.pool.server_of(key);
                Error::TooLarge { limit_bytes: self.pool.connection(server).value_bytes_max() }
            }
            SubmitError::BadKey => Error::BadKey,
            SubmitError::ExpiryTooFar => Error::ExpiryTooFar,
            SubmitError::Full => Error::Refused,
        }
    }

    /// Adds the server's name to the error of an operation on a key.
    pub(crate) fn named(&self, key: &[u8], error: Error) -> Error {
        let connection = self.pool.connection(self.pool.server_of(key));
        let server = connection.name();
        match error {
            Error::Unreachable { .. } => connection.error(),
            Error::TimedOut { .. } => Error::TimedOut { server },
            Error::Version { version, .. } => Error::Version { server, version },
            other => other,
        }
    }
}
