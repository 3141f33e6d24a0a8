//! The non-blocking client over a fabric.

use std::io;

use super::counters::FabricCounters;
use super::options::FabricOptions;
use super::url::FabricUrl;
use crate::driver::SubmitError;
use crate::error::Error;
use crate::operation::{Completion, Operation};

/// The non-blocking client over a fabric, for callers with many operations in flight: submit, poll, and wait
/// when there is nothing to do. It belongs to one thread.
#[derive(Debug)]
pub struct FabricLink {
    counters: FabricCounters,
}

impl FabricLink {
    /// Connects to all servers. Those that do not reply count as dead for now.
    ///
    /// # Errors
    /// No server replies, or the build has no libfabric, or a server refuses the login, or has no room for
    /// another client.
    pub fn connect(urls: &[FabricUrl], _options: &FabricOptions) -> Result<Self, Error> {
        let server = urls.first().map(FabricUrl::to_string).unwrap_or_default();
        Err(Error::Fabric { server, reason: "this client does not connect yet".to_owned() })
    }

    /// Returns the time for the other calls, in nanoseconds. The clock goes on while the machine sleeps.
    pub fn now_ns(&self) -> u64 {
        0
    }

    /// Accepts an operation, which ends with a completion with this token (any number but the greatest). It
    /// leaves with the next [`FabricLink::poll`].
    ///
    /// # Errors
    /// The operation was refused; there will be no completion.
    pub fn submit(&mut self, _now_ns: u64, _: &Operation<'_>, _token: u64) -> Result<(), SubmitError> {
        Err(SubmitError::ServerDown { server: 0 })
    }

    /// Lets all submitted operations leave with the next [`FabricLink::poll`].
    pub fn flush(&mut self) {}

    /// Sends what may leave, and takes what has arrived. Never waits. Completions go to the sink. Returns
    /// their number.
    ///
    /// # Errors
    /// None yet.
    pub fn poll(&mut self, _now_ns: u64, _sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        Ok(0)
    }

    /// Waits until something may have arrived, or is due, or the time is over. Without a descriptor of the
    /// provider it returns much earlier.
    ///
    /// # Errors
    /// None yet.
    pub fn wait(&mut self, _at_most_ns: u64) -> io::Result<()> {
        Ok(())
    }

    /// Returns the counters.
    pub fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    /// Returns the number of operations that have not ended.
    pub fn pending(&self) -> u64 {
        self.counters.submitted - self.counters.completed
    }
}
