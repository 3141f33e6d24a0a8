//! A server on the same host, whose memory gets read.

use std::io;
use std::time::{Duration, Instant};

use micanite_client::{Completion, Error, LocalLink, Operation, Options, SubmitError};
use nix::sys::epoll::Epoll;

use super::ClientLink;
use crate::address::{Address, Endpoint};
use crate::run::clock::nanoseconds;
use crate::run::recorder::Recorder;

/// A server may take so long to let a client in.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Attaches a client to a target.
///
/// # Errors
/// When nobody listens there, or the server refuses; what to do then.
pub(crate) fn open_local(
    target: &Address,
    endpoint: &Endpoint,
    timeout: Duration,
) -> Result<LocalClient, String> {
    let Endpoint::Local(url) = endpoint else {
        return Err(format!("{target} is no server on the same host"));
    };
    let options = Options { deadline_ns: nanoseconds(timeout), ..Options::default() };
    let begun = Instant::now();
    loop {
        match LocalLink::connect(url, &options) {
            Ok(link) => return Ok(LocalClient(link)),
            Err(Error::Unreachable { .. }) if begun.elapsed() < CONNECT_TIME_MAX => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Error::Unreachable { .. }) => {
                return Err(format!("{target}: nobody listens there; {}", target.how_to_start()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A client of such a server.
pub(crate) struct LocalClient(LocalLink);

impl ClientLink for LocalClient {
    const HAS_DESCRIPTORS: bool = false;
    const TOO_LONG: &'static str = "these items are too long for the server (-I)";

    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    /// Submitted requests leave with the next poll.
    fn cork(&mut self) {}

    fn flush(&mut self) {}

    #[inline]
    fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        self.0.submit(now_ns, operation, token)
    }

    #[inline]
    fn poll(&mut self, now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        self.0.poll(now_ns, sink)
    }

    fn pass_counters_on(&mut self, _: u64, _: &mut Recorder) {}

    fn watch(&self, _: &Epoll, _: u64) -> io::Result<()> {
        Ok(())
    }
}
