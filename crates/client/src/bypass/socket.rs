//! The equivalent of a UDP socket over a queue of frames.

use super::counters::PortCounters;
use super::hops::{Hops, LOOK_AGAIN};
use super::mailbox::{Forwarded, Mailbox};
use super::peers::{Peers, Way};
use crate::driver::Driver;
use crate::operation::Completion;
use arrayvec::ArrayVec;
use micanite_net::frames::{FramePort, FrameQueue, ReplyTo};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bursts per call, so that sending is not delayed.
const BURSTS_MAX: usize = 8;
/// Maximum number of descriptors of a wait: the queue's, the mailbox's, those of the kernel's
/// sockets.
const DESCRIPTORS_MAX: usize = 16;
/// Longest wait for a free frame.
const BLOCKED_WAIT: Duration = Duration::from_millis(1);
/// Number of unsuccessful waits after which a queue without a descriptor is polled less often.
const YIELDS: u32 = 1000;

/// Receives and sends one thread's datagrams.
#[derive(Debug)]
pub(super) struct FrameSocket<Q, H> {
    pub port: FramePort<Q>,
    pub hops: H,
    /// First UDP port of all queues, and number of this one.
    ports: (u16, usize),
    peers: Peers,
    mailboxes: Arc<[Mailbox]>,
    forwarded: Forwarded,
    /// The last datagram had no frame.
    is_blocked: bool,
    /// Consecutive unsuccessful waits.
    idle_waits: u32,
    clock: PortClock,
    counters: PortCounters,
}

/// Clock of the port. A [`crate::Link`]'s time begins at 0, and a port outlives links.
#[derive(Clone, Copy, Debug, Default)]
struct PortClock {
    began_ns: u64,
    latest_ns: u64,
}

impl PortClock {
    /// Converts the link's time to the port's.
    #[inline]
    fn at(&mut self, now_ns: u64) -> u64 {
        self.latest_ns = self.latest_ns.max(self.began_ns + now_ns);
        self.latest_ns
    }

    /// Starts the time of another link.
    const fn begin(&mut self) {
        self.began_ns = self.latest_ns;
    }
}

impl<Q: FrameQueue, H: Hops<Q>> FrameSocket<Q, H> {
    /// Creates a socket for UDP port `first + number`. `mailboxes` are those of all queues, empty
    /// for a single queue.
    pub fn new(
        port: FramePort<Q>,
        hops: H,
        ports: (u16, usize),
        (mailboxes, forwarded): (Arc<[Mailbox]>, Forwarded),
    ) -> Self {
        Self {
            port,
            hops,
            ports,
            peers: Peers::default(),
            mailboxes,
            forwarded,
            is_blocked: false,
            idle_waits: 0,
            clock: PortClock::default(),
            counters: PortCounters::default(),
        }
    }

    /// Receives available datagrams and passes them to the driver. Never waits. Returns their
    /// number.
    pub fn receive(
        &mut self,
        now_ns: u64,
        driver: &mut Driver,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> io::Result<usize> {
        let port_ns = self.clock.at(now_ns);
        let Self { port, peers, counters, .. } = self;
        let ours = self.ports.0 + self.ports.1 as u16;
        let mut received = 0;
        for _ in 0..BURSTS_MAX {
            let count = port.recv()?;
            let (datagrams, _) = port.split();
            for datagram in datagrams {
                let (from, to) = (datagram.found.source, datagram.found.destination.port());
                if to == ours {
                    peers.hear(from);
                    driver.on_datagram(now_ns, datagram.bytes, from, sink);
                    continue;
                }
                let place = usize::from(to.wrapping_sub(self.ports.0));
                let mailbox = self.mailboxes.get(place);
                let is_put = mailbox.is_some_and(|mailbox| mailbox.put(from, datagram.bytes));
                counters.passed_on += u64::from(is_put);
                counters.passed_lost += u64::from(!is_put);
            }
            received += count;
            if count == 0 {
                break;
            }
        }
        let mut take = |bytes: &[u8], from: SocketAddr| {
            peers.hear(from);
            driver.on_datagram(now_ns, bytes, from, sink);
        };
        if let Some(mailbox) = self.mailboxes.get(self.ports.1) {
            mailbox.take(&mut self.forwarded);
            received += self.forwarded.read(&mut take);
        }
        let strays = self.hops.take_kernel_datagrams(port_ns, take);
        counters.received_by_kernel += strays as u64;
        self.idle_waits *= u32::from(received + strays == 0);
        Ok(received + strays)
    }

    /// Sends the driver's datagrams, as long as there are frames.
    pub fn transmit(&mut self, now_ns: u64, driver: &mut Driver) -> io::Result<()> {
        let port_ns = self.clock.at(now_ns);
        if self.peers.is_due(port_ns) {
            self.peers.check(&mut self.port, &mut self.hops, port_ns);
        }
        loop {
            self.is_blocked = false;
            let mut unknown = None;
            let mut replies = self.port.replies();
            driver.transmit(now_ns, |to, bytes| match self.peers.way(to) {
                Way::Frame(header) => {
                    if !replies.open(ReplyTo::Header(header)) {
                        replies.abandon();
                        self.counters.no_frame += 1;
                        self.is_blocked = true;
                        return false;
                    }
                    replies.slot()[..bytes.len()].copy_from_slice(bytes);
                    replies.commit(bytes.len());
                    true
                }
                Way::Slowly => {
                    self.counters.sent_by_kernel += u64::from(self.hops.send_slowly(to, bytes));
                    true
                }
                Way::Unknown => {
                    unknown = Some(to);
                    false
                }
            });
            self.port.send()?;
            match unknown {
                Some(to) => {
                    let to = (to, port_ns);
                    self.peers.look_up(&mut self.port, &mut self.hops, to);
                }
                None if !driver.has_more() || self.is_blocked => return Ok(()),
                None => {}
            }
        }
    }

    /// Waits until a datagram arrives, or there is room again, or the time is over. May return
    /// earlier.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let Some(queue) = self.port.queue().descriptor() else {
            self.look_again(at_most);
            return Ok(());
        };
        let longest = self.is_blocked.then_some(BLOCKED_WAIT);
        let at_most = match (at_most, longest) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let events = match self.is_blocked {
            true => PollFlags::POLLIN | PollFlags::POLLOUT,
            false => PollFlags::POLLIN,
        };
        let mut waited = ArrayVec::<_, DESCRIPTORS_MAX>::new();
        waited.push(PollFd::new(queue, events));
        let room = DESCRIPTORS_MAX - 2;
        let bound = self.hops.bound().iter().take(room);
        waited.extend(bound.map(|bound| PollFd::new(bound.socket.as_fd(), PollFlags::POLLIN)));
        let timeout = at_most.map(TimeSpec::from_duration);
        let mut polled = Ok(0);
        match self.mailboxes.get(self.ports.1) {
            Some(mailbox) => mailbox.sleep(|waker| {
                waited.push(PollFd::new(waker.as_fd(), PollFlags::POLLIN));
                polled = ppoll(&mut waited, timeout, None);
            }),
            None => polled = ppoll(&mut waited, timeout, None),
        }
        match polled {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits a short time for a queue that has to be polled.
    fn look_again(&mut self, at_most: Option<Duration>) {
        self.idle_waits = self.idle_waits.saturating_add(1);
        if self.idle_waits < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(at_most.map_or(LOOK_AGAIN, |most| most.min(LOOK_AGAIN)));
        }
    }

    /// Drops datagrams for the queue's previous user.
    pub fn begin(&mut self) -> io::Result<()> {
        for _ in 0..1024 {
            if self.port.recv()? == 0 {
                break;
            }
        }
        if let Some(mailbox) = self.mailboxes.get(self.ports.1) {
            mailbox.take(&mut self.forwarded);
            self.forwarded.read(|_, _| {});
        }
        self.is_blocked = false;
        self.clock.begin();
        Ok(())
    }

    /// Returns the counters.
    pub fn counters(&mut self) -> PortCounters {
        let mut counters = self.counters.with_frames(&self.port.counters());
        counters.lost_frames = u64::from(self.port.queue_mut().lost());
        counters.unsent_frames = self.port.queue().unsent();
        counters
    }

    pub const fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns a descriptor that becomes readable when datagrams arrive, if the queue has one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.port.queue().descriptor()
    }
}
