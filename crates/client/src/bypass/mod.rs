//! Ports of clients that bypass the kernel's network stack: AF_XDP and DPDK.
//!
//! ```text
//!  BypassPort       a device, opened once per process
//!    PortQueue      one of its queues, with its own UDP port, lent to a Link
//!      FrameSocket  frames in, datagrams to the driver, and back
//!        Peers      headers of datagrams to each server
//!        Hops       next hops: from the kernel's tables (AF_XDP), or by own ARP and NDP (DPDK)
//!        Mailbox    datagrams that arrived at another thread's queue
//! ```
//!
//! **The kernel sends the first datagrams to a server** under AF_XDP, by a socket that is bound to the
//! same UDP port. So the kernel resolves the neighbour, and no other program gets the port. The reply
//! already arrives at the port, and later datagrams leave by it. The same happens when a server was
//! silent for a quarter of a second, because it may have moved.

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
use own_hops::{OwnHops, SharedNeighbours};
use queue::Queue;
use socket::FrameSocket;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub use counters::PortCounters;
pub use queue::PortQueue;

/// Difference between the lengths of IPv6's and IPv4's headers.
const IPV4_MORE_BYTES: usize = 20;

/// Options of a client's port.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// Name of the port.
    pub name: PortName,
    /// Addresses of the port with prefix lengths. Empty: those of the interface (AF_XDP). A DPDK
    /// port requires at least one.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Gateway for addresses outside of the prefixes (DPDK). AF_XDP uses the kernel's routes.
    pub gateway: Option<IpAddr>,
    /// UDP port of the first queue; the others follow. `None`: free ports.
    pub first_port: Option<u16>,
    /// Number of queues: one for each thread.
    pub queues: usize,
    /// Longest datagram.
    pub payload_bytes: usize,
    /// Microseconds of busy polling in the kernel; 0 = none (AF_XDP).
    pub busy_poll_us: u32,
    /// Further arguments of DPDK's environment (EAL).
    pub dpdk_arguments: Vec<String>,
}

impl PortOptions {
    /// Creates options for one queue of a port.
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

/// A port. It is open as long as this, a clone or one of its queues exists. DPDK opens a device
/// only once per process.
#[derive(Clone, Debug)]
pub struct BypassPort {
    shared: Arc<SharedPort>,
}

/// Shared state of a port's queues. The queues are dropped before the port.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "each is lent by itself, and is large")]
struct SharedPort {
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
    /// Names what is missing, and how to get it.
    pub fn open(options: &PortOptions) -> Result<Self, Error> {
        let named = |reason: String| Error::Port {
            reason: match reason.starts_with(&options.name.to_string()) {
                true => reason,
                false => format!("{}: {reason}", options.name),
            },
        };
        let shared = open(options).map_err(named)?;
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns an unused queue. Dropping it, or the [`crate::Link`] that uses it, returns it.
    ///
    /// # Errors
    /// All queues are in use.
    pub fn queue(&self) -> Result<PortQueue, Error> {
        let mut queues = self.shared.queues();
        match queues.pop() {
            Some(queue) => Ok(PortQueue::new(queue, Arc::clone(&self.shared))),
            None => Err(Error::Port {
                reason: format!(
                    "{}: all of its queues are in use: each Link needs one, so open it with more",
                    self.shared.name
                ),
            }),
        }
    }

    /// Returns the name of the port.
    pub fn name(&self) -> &PortName {
        &self.shared.name
    }

    /// Describes what was granted.
    pub fn description(&self) -> &str {
        &self.shared.description
    }

    /// Returns the UDP port of the first queue; the others follow.
    pub fn first_port(&self) -> u16 {
        self.shared.first_port
    }
}

impl SharedPort {
    #[expect(clippy::vec_box, reason = "each is lent by itself, and is large")]
    fn queues(&self) -> std::sync::MutexGuard<'_, Vec<Box<Queue>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a queue back.
    fn put(&self, queue: Box<Queue>) {
        let mut queues = self.queues();
        queues.push(queue);
        // The first queue is lent first.
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.number()));
    }
}

fn open(options: &PortOptions) -> Result<SharedPort, String> {
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
            let first = options.first_port.unwrap_or_else(|| source::random_first(options.queues));
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
        addresses: bypass.addresses.iter().map(|(address, _)| *address).collect(),
        ports: first..=last,
    };
    let mut mailboxes = Mailboxes::new(queues.len())?;
    let shared = SharedNeighbours::default();
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
                let hops = hops.map_err(|error| format!("cannot open a netlink socket: {error}"))?;
                let frames = FramePort::new(queue, local.clone(), longest.ipv4);
                Queue::Xdp(number, FrameSocket::new(frames, hops, ports, boxes))
            }
            BypassQueue::Dpdk(queue) => {
                let neighbours = || Neighbours::new(bypass.mac, &bypass.addresses, options.gateway);
                let hops = OwnHops::new(neighbours(), port, shared.clone());
                let frames = FramePort::new(queue, local.clone(), longest.ipv4).with_neighbours(neighbours());
                Queue::Dpdk(number, FrameSocket::new(frames, hops, ports, boxes))
            }
        }));
    }
    ready.reverse();
    Ok(SharedPort {
        queues: Mutex::new(ready),
        name: options.name,
        description: bypass.description.clone(),
        first_port: first,
        longest,
        _bypass: Mutex::new(bypass),
    })
}

/// Longest datagrams that fit the frames of a port. They differ because IPv6 has longer headers.
#[derive(Clone, Copy, Debug)]
struct Longest {
    ipv4: usize,
    ipv6: usize,
}

impl Longest {
    /// Limits the wanted length to what fits.
    fn new(wanted: usize, ipv6_max: usize) -> Self {
        Self { ipv4: wanted.min(ipv6_max + IPV4_MORE_BYTES), ipv6: wanted.min(ipv6_max) }
    }

    /// Returns the longest datagram for all of these servers.
    fn to(self, servers: &[ServerAddress]) -> usize {
        match servers.iter().any(|server| server.address.is_ipv6()) {
            true => self.ipv6,
            false => self.ipv4,
        }
    }
}

/// A mailbox for each queue; none for a single queue.
struct Mailboxes {
    all: Arc<[Mailbox]>,
    empty: Vec<mailbox::Forwarded>,
}

impl Mailboxes {
    fn new(queues: usize) -> Result<Self, String> {
        let (mut all, mut empty) = (Vec::new(), Vec::new());
        for _ in 0..queues {
            if queues > 1 {
                let (mailbox, forwarded) =
                    Mailbox::new().map_err(|error| format!("cannot create an event descriptor: {error}"))?;
                all.push(mailbox);
                empty.push(forwarded);
            }
        }
        Ok(Self { all: all.into(), empty })
    }

    fn next(&mut self) -> (Arc<[Mailbox]>, mailbox::Forwarded) {
        (Arc::clone(&self.all), self.empty.pop().unwrap_or_default())
    }
}
