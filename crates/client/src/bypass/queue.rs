//! A lent queue of a port.

use super::SharedPort;
use super::counters::PortCounters;
use super::hops::KernelHops;
use super::own_hops::OwnHops;
use super::socket::FrameSocket;
use crate::driver::Driver;
use crate::error::Error;
use crate::operation::Completion;
use crate::options::ServerAddress;
use micanite_net::bypass::PortName;
use micanite_net::dpdk::DpdkQueue;
use micanite_net::xdp::XdpQueue;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A queue of any kind, with its number. Match it once per burst.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one per thread, boxed")]
pub(super) enum Queue {
    Xdp(usize, FrameSocket<XdpQueue, KernelHops>),
    Dpdk(usize, FrameSocket<DpdkQueue, OwnHops>),
}

impl Queue {
    pub const fn number(&self) -> usize {
        match self {
            Self::Xdp(number, _) | Self::Dpdk(number, _) => *number,
        }
    }
}

/// One queue of a [`super::BypassPort`], for a [`crate::Link`].
#[derive(Debug)]
pub struct PortQueue {
    /// `None` only during the drop.
    queue: Option<Box<Queue>>,
    shared: Arc<SharedPort>,
}

macro_rules! each {
    ($self:expr, $socket:ident => $then:expr, $none:expr) => {
        match $self.queue.as_deref() {
            Some(Queue::Xdp(_, $socket)) => $then,
            Some(Queue::Dpdk(_, $socket)) => $then,
            None => $none,
        }
    };
    (mut $self:expr, $socket:ident => $then:expr, $none:expr) => {
        match $self.queue.as_deref_mut() {
            Some(Queue::Xdp(_, $socket)) => $then,
            Some(Queue::Dpdk(_, $socket)) => $then,
            None => $none,
        }
    };
}

impl PortQueue {
    pub(super) const fn new(queue: Box<Queue>, shared: Arc<SharedPort>) -> Self {
        Self { queue: Some(queue), shared }
    }

    /// Returns the name of its port.
    pub fn name(&self) -> &PortName {
        &self.shared.name
    }

    /// Returns the counters since the port was opened.
    pub fn counters(&mut self) -> PortCounters {
        each!(mut self, socket => socket.counters(), PortCounters::default())
    }

    /// Returns the longest datagram that reaches each of these servers.
    pub(crate) fn payload_bytes(&self, servers: &[ServerAddress]) -> usize {
        self.shared.longest.to(servers)
    }

    /// Prepares the queue for a new user.
    ///
    /// # Errors
    /// A server is unreachable from it.
    pub(crate) fn begin(&mut self, servers: &[ServerAddress]) -> Result<(), Error> {
        let begun = each!(mut self, socket => socket.begin(), Ok(()));
        begun?;
        if let Some(Queue::Xdp(_, socket)) = self.queue.as_deref_mut() {
            for server in servers {
                let hop = socket.hops.hop(server.address.ip());
                hop.map_err(|reason| Error::Port { reason: format!("{}: {reason}", self.shared.name) })?;
            }
        }
        Ok(())
    }

    /// Receives available datagrams, as in [`crate::Link::poll`].
    #[inline]
    pub(crate) fn receive(
        &mut self,
        now_ns: u64,
        driver: &mut Driver,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> io::Result<usize> {
        each!(mut self, socket => socket.receive(now_ns, driver, sink), Ok(0))
    }

    /// Sends the driver's datagrams.
    #[inline]
    pub(crate) fn transmit(&mut self, now_ns: u64, driver: &mut Driver) -> io::Result<()> {
        each!(mut self, socket => socket.transmit(now_ns, driver), Ok(()))
    }

    pub(crate) fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        each!(mut self, socket => socket.wait(at_most), Ok(()))
    }

    pub(crate) fn is_blocked(&self) -> bool {
        each!(self, socket => socket.is_blocked(), false)
    }

    /// Returns a descriptor that becomes readable when datagrams arrive; `None` for DPDK.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        each!(self, socket => socket.descriptor(), None)
    }
}

impl Drop for PortQueue {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            self.shared.put(queue);
        }
    }
}
