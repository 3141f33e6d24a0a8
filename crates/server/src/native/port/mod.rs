//! A worker's port of the native protocol. Its kind is decided once per burst.

pub mod bypass;
mod pressure;
pub mod sockets;

use std::io;
use std::os::fd::BorrowedFd;

use micanite_net::bypass::BypassQueue;
use micanite_net::dpdk::DpdkQueue;
use micanite_net::frames::{FramePort, FrameQueue, Local, Neighbours};
use micanite_net::xdp::XdpQueue;

use crate::native::NativeShared;
use crate::native::forward::ring::RingEnds;
use crate::session::Context;
use crate::telemetry::log::error;
use bypass::BypassPort;
use sockets::{SocketPort, Sockets};

/// A port of one worker.
#[derive(Debug)]
pub enum NativePort {
    /// Sockets of the kernel's.
    Sockets(Box<SocketPort>),
    /// A queue of AF_XDP.
    Xdp(Box<BypassPort<XdpQueue>>),
    /// A queue of DPDK.
    Dpdk(Box<BypassPort<DpdkQueue>>),
    /// A port whose queue has failed.
    Gone,
}

/// A queue of a port around the kernel, for one worker.
#[derive(Debug)]
pub struct QueueOfPort {
    /// The queue.
    pub queue: BypassQueue,
    /// The addresses and ports whose frames are for this worker.
    pub local: Local,
    /// Answers for our addresses, where no kernel does.
    pub neighbours: Option<Neighbours>,
}

impl NativePort {
    /// A worker's port over sockets.
    pub fn new(worker: usize, sockets: Sockets, rings: RingEnds, native: &NativeShared) -> Self {
        Self::Sockets(Box::new(SocketPort::new(worker, sockets, rings, native)))
    }

    /// A worker's port over a queue of frames.
    pub fn over(worker: usize, of: QueueOfPort, rings: RingEnds, native: &NativeShared) -> Self {
        let (local, neighbours) = (of.local, of.neighbours);
        let make = (worker, rings, native);
        match of.queue {
            BypassQueue::Xdp(queue) => Self::Xdp(boxed(make, queue, local, neighbours)),
            BypassQueue::Dpdk(queue) => Self::Dpdk(boxed(make, queue, local, neighbours)),
        }
    }

    /// Memory of one worker's port over a queue, beside its frames.
    pub fn bytes_over(datagram_bytes: usize) -> usize {
        <BypassPort<XdpQueue>>::bytes(datagram_bytes).max(<BypassPort<DpdkQueue>>::bytes(datagram_bytes))
    }

    /// Memory of one worker's port over sockets at so many addresses.
    pub fn bytes(addresses: usize, payload_bytes: usize, gro: bool) -> usize {
        SocketPort::bytes(addresses, payload_bytes, gro)
    }

    /// Descriptors to wait for.
    pub fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Sockets(port) => port.descriptors().collect(),
            Self::Xdp(port) => port.descriptor().into_iter().collect(),
            Self::Dpdk(port) => port.descriptor().into_iter().collect(),
            Self::Gone => Vec::new(),
        }
    }

    /// Returns whether the worker has to look for datagrams, because nothing wakes it.
    #[inline]
    pub fn has_to_be_polled(&self) -> bool {
        match self {
            Self::Sockets(_) | Self::Gone => false,
            Self::Xdp(port) => port.descriptor().is_none(),
            Self::Dpdk(port) => port.descriptor().is_none(),
        }
    }

    /// A burst of each socket or of the queue, and of each ring. Returns the datagrams.
    ///
    /// # Errors
    /// A socket is broken. A queue that is, is given up, and the worker goes on without it.
    #[inline]
    pub fn round(&mut self, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let done = match self {
            Self::Sockets(port) => return port.round(context, now_ms),
            Self::Xdp(port) => port.round(context, now_ms),
            Self::Dpdk(port) => port.round(context, now_ms),
            Self::Gone => Ok(0),
        };
        Ok(done.unwrap_or_else(|error| self.give_up(context, &error)))
    }

    #[cold]
    fn give_up(&mut self, context: &Context<'_>, error: &io::Error) -> usize {
        let worker = context.worker.number();
        if let Some(native) = &context.shared.native {
            native.frames[worker].failed.set(1);
        }
        error!(
            "worker {worker}: its queue of the port (--port) has failed, and it goes on without the native \
             protocol: {error}"
        );
        *self = Self::Gone;
        0
    }

    /// Returns whether other workers have forwarded datagrams.
    pub fn has_forwarded(&self) -> bool {
        match self {
            Self::Sockets(port) => port.has_forwarded(),
            Self::Xdp(port) => port.has_forwarded(),
            Self::Dpdk(port) => port.has_forwarded(),
            Self::Gone => false,
        }
    }
}

fn boxed<Q: FrameQueue + Send>(
    (worker, rings, native): (usize, RingEnds, &NativeShared),
    queue: Q,
    local: Local,
    neighbours: Option<Neighbours>,
) -> Box<BypassPort<Q>> {
    let mut port = FramePort::new(queue, local, native.payload_bytes);
    if let Some(neighbours) = neighbours {
        port = port.with_neighbours(neighbours);
    }
    Box::new(BypassPort::new(worker, port, rings, native))
}
