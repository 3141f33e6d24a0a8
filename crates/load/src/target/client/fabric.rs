//! Micanite's native protocol in messages of a fabric, with one-sided reads.

use std::io;
use std::time::{Duration, Instant};

use micanite_client::{Completion, Error, FabricLink, FabricOptions, FabricUrl, Operation, SubmitError};
use nix::sys::epoll::Epoll;

use super::ClientLink;
use crate::address::Endpoint;
use crate::plan::Plan;
use crate::report::FabricTally;
use crate::run::clock::nanoseconds;
use crate::run::recorder::Recorder;

/// A busy server may take so long to greet.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(3);

/// Connects a client to all targets of a plan.
///
/// # Errors
/// When no server replies, or the build has no libfabric; what to do then.
pub(crate) fn open_fabric(
    plan: &Plan,
    endpoints: &[Endpoint],
    timeout: Duration,
) -> Result<FabricClient, String> {
    let options = FabricOptions {
        reads: plan.reads.unwrap_or_default().into(),
        deadline_ns: nanoseconds(timeout),
        ..FabricOptions::default()
    };
    let urls: Vec<FabricUrl> = endpoints.iter().filter_map(Endpoint::fabric).cloned().collect();
    let begun = Instant::now();
    loop {
        let target = &plan.targets[0];
        match FabricLink::connect(&urls, &options) {
            Ok(link) => return Ok(FabricClient { link, passed_on: FabricTally::default() }),
            // The client's patience is the deadline of one operation.
            Err(Error::Unreachable { .. }) if begun.elapsed() < CONNECT_TIME_MAX => {}
            Err(Error::Unreachable { .. }) => {
                return Err(format!("{target}: nobody listens there; {}", target.how_to_start()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A client over a fabric, and its counters that have been passed on.
pub(crate) struct FabricClient {
    link: FabricLink,
    passed_on: FabricTally,
}

impl ClientLink for FabricClient {
    const HAS_DESCRIPTORS: bool = false;
    const TOO_LONG: &'static str = "these items do not fit the server's messages (--fabric-message)";

    #[inline]
    fn now_ns(&self) -> u64 {
        self.link.now_ns()
    }

    /// Submitted requests leave with the next poll.
    fn cork(&mut self) {}

    #[inline]
    fn flush(&mut self) {
        self.link.flush();
    }

    #[inline]
    fn submit(&mut self, now_ns: u64, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        self.link.submit(now_ns, operation, token)
    }

    #[inline]
    fn poll(&mut self, now_ns: u64, sink: impl FnMut(Completion<'_>)) -> io::Result<usize> {
        self.link.poll(now_ns, sink)
    }

    fn pass_counters_on(&mut self, _: u64, recorder: &mut Recorder) {
        let counted = FabricTally::of(self.link.counters());
        recorder.fabric.add(&counted.since(&self.passed_on));
        self.passed_on = counted;
    }

    fn watch(&self, _: &Epoll, _: u64) -> io::Result<()> {
        Ok(())
    }
}
