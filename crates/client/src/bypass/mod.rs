//! Ports around the kernel's network stack, for clients: AF_XDP and DPDK.
//!
//! ```text
//!  BypassPort       a device, opened once per process
//!    PortQueue      one of its queues, with a UDP port of its own, lent to a Link
//!      FrameSocket  frames in, datagrams to the driver, and back
//!        Peers      the headers of datagrams to each server
//!        Hops       the next hop: the kernel's tables (AF_XDP), or ARP and NDP of our own (DPDK)
//!        Mailbox    what came to the queue of another thread
//! ```
//!
//! **The first datagrams to a server travel by the kernel** under AF_XDP: by a socket that has bound
//! the same UDP port, so that the kernel asks for the neighbour, and nobody else gets the port. The
//! reply comes to the port already, and what follows leaves by it. So it is again when a server
//! has been silent for a quarter of a second: it may have moved.

mod counters;
mod hops;
mod mailbox;
mod own_hops;
mod peers;
mod queue;
mod socket;
mod source;
#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::options::ServerAddress;
use hops::KernelHops;
use mailbox::Mailbox;
use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue, PortName};
use micanite_net::frames::{FramePort, Local, Neighbours};
use micanite_wire::native::PAYLOAD_BYTES;
use own_hops::{Learnt, OwnHops};
use queue::Queue;
use socket::FrameSocket;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub use counters::PortCounters;
pub use queue::PortQueue;

/// IPv6 has longer headers than IPv4.
const IPV4_MORE_BYTES: usize = 20;

/// What a client opens a port with.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Which.
    pub name: PortName,
    /// Its addresses with the lengths of their prefixes. Empty: those of the interface (AF_XDP); a
    /// DPDK port has to be given some.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Where what is outside of the prefixes is sent (DPDK; AF_XDP goes by the kernel's routes).
    pub gateway: Option<IpAddr>,
    /// The UDP port of the first queue; the others follow. Without it: some that are free.
    pub first_port: Option<u16>,
    /// One for each thread.
    pub queues: usize,
    /// The longest datagram.
    pub payload_bytes: usize,
    /// Microseconds of busy polling in the kernel; 0 for none (AF_XDP).
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment (EAL).
    pub dpdk_arguments: Vec<String>,
}

impl PortOptions {
    /// One queue of a port.
    pub const fn new(name: PortName) -> Self {
        Self {
            name,
            addresses: Vec::new(),
            gateway: None,
            first_port: None,
            queues: 1,
            payload_bytes: PAYLOAD_BYTES,
            busy_poll_us: 0,
            dpdk_arguments: Vec::new(),
        }
    }
}

/// A port, open as long as this, a clone of it or one of its queues is there. DPDK opens a device once
/// per process.
#[derive(Clone, Debug)]
pub struct BypassPort {
    home: Arc<Home>,
}

/// What all queues of a port share. The queues go before the port.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "each is lent by itself, and is large")]
struct Home {
    queues: Mutex<Vec<Box<Queue>>>,
    name: PortName,
    description: String,
    first_port: u16,
    longest: Longest,
    _bypass: Mutex<Bypass>,
}

impl BypassPort {
    /// Opens a port.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn open(options: &PortOptions) -> Result<Self, Error> {
        let named = |reason: String| Error::Port {
            reason: match reason.starts_with(&options.name.to_string()) {
                true => reason,
                false => format!("{}: {reason}", options.name),
            },
        };
        let home = open(options).map_err(named)?;
        Ok(Self {
            home: Arc::new(home),
        })
    }

    /// A queue that nobody has; it comes back when it is dropped, or the [`crate::Link`] that it was
    /// given to.
    ///
    /// # Errors
    /// There are no more of them.
    pub fn queue(&self) -> Result<PortQueue, Error> {
        let mut queues = self.home.queues();
        match queues.pop() {
            Some(queue) => Ok(PortQueue::new(queue, Arc::clone(&self.home))),
            None => Err(Error::Port {
                reason: format!(
                    "{}: all of its queues are in use: one for each Link, open it with more",
                    self.home.name
                ),
            }),
        }
    }

    /// Which port it is.
    pub fn name(&self) -> &PortName {
        &self.home.name
    }

    /// What was got, in words.
    pub fn description(&self) -> &str {
        &self.home.description
    }

    /// The UDP port of the first queue; the others follow.
    pub fn first_port(&self) -> u16 {
        self.home.first_port
    }
}

impl Home {
    #[expect(clippy::vec_box, reason = "each is lent by itself, and is large")]
    fn queues(&self) -> std::sync::MutexGuard<'_, Vec<Box<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue back.
    fn put(&self, queue: Box<Queue>) {
        let mut queues = self.queues();
        queues.push(queue);
        // The first is lent first.
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.number()));
    }
}

fn open(options: &PortOptions) -> Result<Home, String> {
    if options.queues == 0 || options.queues > 1024 {
        return Err(format!("1 to 1024 queues, not {}", options.queues));
    }
    let mut options = options.clone();
    let (interface, first, mut bound) = match &options.name {
        PortName::Xdp { interface } => {
            let (index, addresses) = source::interface(interface)?;
            if options.addresses.is_empty() {
                options.addresses = addresses;
            }
            let on = (index, options.addresses.as_slice());
            let (first, bound) = source::bind(on, options.queues, options.first_port)?;
            (index, first, bound)
        }
        PortName::Dpdk { .. } => {
            let first = options
                .first_port
                .unwrap_or_else(|| source::random_first(options.queues));
            (0, first, Vec::new())
        }
    };
    let last = usize::from(first) + options.queues - 1;
    let last = u16::try_from(last).map_err(|_| "there are no ports above 65535".to_owned())?;
    let (bypass, queues) = Bypass::open(&BypassOptions {
        name: options.name.clone(),
        addresses: options.addresses.clone(),
        gateway: options.gateway,
        ports: first..=last,
        queues: options.queues,
        payload_bytes_max: options.payload_bytes,
        busy_poll_us: options.busy_poll_us,
        dpdk_arguments: options.dpdk_arguments.clone(),
    })?;
    let longest = Longest::new(options.payload_bytes, bypass.payload_bytes_max);
    let local = Local {
        addresses: bypass
            .addresses
            .iter()
            .map(|(address, _)| *address)
            .collect(),
        ports: first..=last,
    };
    let mut mailboxes = Mailboxes::new(queues.len())?;
    let learnt = Learnt::default();
    bound.reverse();
    let mut ready = Vec::new();
    for (number, queue) in queues.into_iter().enumerate() {
        let ports = (first, number);
        let boxes = mailboxes.next();
        let port = first + number as u16;
        ready.push(Box::new(match queue {
            BypassQueue::Xdp(queue) => {
                let link = (interface, bypass.mac);
                let sockets = (port, bound.pop().unwrap_or_default());
                let hops = KernelHops::new(link, bypass.addresses.clone(), sockets);
                let hops = hops.map_err(|error| format!("no netlink socket: {error}"))?;
                let frames = FramePort::new(queue, local.clone(), longest.ipv4);
                Queue::Xdp(number, FrameSocket::new(frames, hops, ports, boxes))
            }
            BypassQueue::Dpdk(queue) => {
                let neighbours = || Neighbours::new(bypass.mac, &bypass.addresses, options.gateway);
                let hops = OwnHops::new(neighbours(), port, learnt.clone());
                let frames = FramePort::new(queue, local.clone(), longest.ipv4)
                    .with_neighbours(neighbours());
                Queue::Dpdk(number, FrameSocket::new(frames, hops, ports, boxes))
            }
        }));
    }
    ready.reverse();
    Ok(Home {
        queues: Mutex::new(ready),
        name: options.name,
        description: bypass.description.clone(),
        first_port: first,
        longest,
        _bypass: Mutex::new(bypass),
    })
}

/// The longest datagrams that fit the frames of a port: those of IPv6 have longer headers.
#[derive(Clone, Copy, Debug)]
struct Longest {
    ipv4: usize,
    ipv6: usize,
}

impl Longest {
    /// As many bytes as are wanted, if they fit.
    fn new(wanted: usize, ipv6_max: usize) -> Self {
        Self {
            ipv4: wanted.min(ipv6_max + IPV4_MORE_BYTES),
            ipv6: wanted.min(ipv6_max),
        }
    }

    /// What fits on the way to each of these servers.
    fn to(self, servers: &[ServerAddress]) -> usize {
        match servers.iter().any(|server| server.address.is_ipv6()) {
            true => self.ipv6,
            false => self.ipv4,
        }
    }
}

/// A mailbox for each queue; none if there is but one.
struct Mailboxes {
    all: Arc<[Mailbox]>,
    empty: Vec<mailbox::Letters>,
}

impl Mailboxes {
    fn new(queues: usize) -> Result<Self, String> {
        let (mut all, mut empty) = (Vec::new(), Vec::new());
        for _ in 0..queues {
            if queues > 1 {
                let (mailbox, letters) =
                    Mailbox::new().map_err(|error| format!("no event descriptor: {error}"))?;
                all.push(mailbox);
                empty.push(letters);
            }
        }
        Ok(Self {
            all: all.into(),
            empty,
        })
    }

    fn next(&mut self) -> (Arc<[Mailbox]>, mailbox::Letters) {
        (Arc::clone(&self.all), self.empty.pop().unwrap_or_default())
    }
}
