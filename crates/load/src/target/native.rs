//! Micanite's native protocol in datagrams.

use std::io;
use std::time::Duration;

use micanite_client::{Batch, Completion, Link, Operation, Options, PortCounters, SubmitError, UdpOptions};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::client::ClientLink;
use super::link::{introduce, open_link};
use crate::address::Endpoint;
use crate::plan::Plan;
use crate::report::BatchTally;
use crate::run::clock::nanoseconds;
use crate::run::recorder::Recorder;

/// Opens a client of all targets of a plan.
///
/// # Errors
/// When there is no socket or no queue to be had.
pub(crate) fn open_native(
    plan: &Plan,
    endpoints: &[Endpoint],
    pipeline: usize,
    timeout: Duration,
) -> Result<Link, String> {
    let operations = pipeline * plan.multiget;
    let options = Options {
        deadline_ns: nanoseconds(timeout),
        // A datagram each, and those that are kept for what has to be sent again.
        datagrams: operations + operations / 8 + 64,
        batch: batch(plan),
        // A server that does not reply for a while is not given up: its requests are lost one by
        // one.
        dead_after_deadlines: u32::MAX,
        ..Options::default()
    };
    let udp = UdpOptions { gro: plan.offload, gso: plan.offload, ..UdpOptions::default() };
    open_link(&plan.targets, endpoints, options, &udp, plan.port.as_ref())
}

/// Waits for the directories of all servers of a plan.
///
/// # Errors
/// When a server does not reply; what to do then.
pub(crate) fn introduce_native(plan: &Plan, links: &mut [Link]) -> Result<(), String> {
    introduce(&plan.targets, links, plan.timeout, |server, version| {
        let target = &plan.targets[server];
        let how_to_start = target.how_to_start();
        match (version, &plan.port) {
            (Some(version), _) => {
                format!("{target}: it speaks version {version} of the native protocol")
            }
            (None, None) => format!("{target}: nobody listens there; {how_to_start}"),
            (None, Some(port)) => {
                let port = port.name();
                format!("{target}: nobody replies there by way of {port}; {how_to_start}")
            }
        }
    })
}

fn batch(plan: &Plan) -> Batch {
    match plan {
        _ if plan.adaptive_batch => Batch::Adaptive,
        _ if plan.multiget > 1 && plan.batch == 1 => Batch::Full,
        _ => Batch::Fixed(plan.batch as u16),
    }
}

/// A native client, and its counters that have been passed on.
pub(crate) struct NativeLink {
    link: Link,
    late: u64,
    resent: u64,
    port: PortCounters,
    batches: BatchTally,
}

impl NativeLink {
    pub fn new(mut link: Link) -> Self {
        let port = link.port_counters().unwrap_or_default();
        let batches = BatchTally::of(link.counters());
        Self { link, late: 0, resent: 0, port, batches }
    }
}

impl ClientLink for NativeLink {
    const HAS_DESCRIPTORS: bool = true;
    const TOO_LONG: &'static str = "the server wants shorter datagrams than these items need";

    #[inline]
    fn now_ns(&self) -> u64 {
        self.link.now_ns()
    }

    #[inline]
    fn cork(&mut self) {
        self.link.cork();
    }

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

    fn pass_counters_on(&mut self, now_ns: u64, recorder: &mut Recorder) {
        let counters = self.link.counters();
        let batches = BatchTally::of(counters);
        if recorder.measures(now_ns) {
            recorder.batches.add(&batches.since(&self.batches));
            recorder.batches.note_destinations(self.link.driver().destinations());
        }
        self.batches = batches;
        recorder.counts.late += counters.late - self.late;
        recorder.counts.resent += counters.resent - self.resent;
        (self.late, self.resent) = (counters.late, counters.resent);
        if let Some(counters) = self.link.port_counters() {
            recorder.counts.port += counters - self.port;
            self.port = counters;
        }
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        for descriptor in self.link.descriptors() {
            epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
        }
        Ok(())
    }
}
