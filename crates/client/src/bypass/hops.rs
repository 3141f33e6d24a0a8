//! The next hop on the way to a server: under AF_XDP by the kernel's tables.

use super::source::{Bound, is_in, is_of_link, with_port};
use micanite_net::frames::{FramePort, Header, MacAddress};
use micanite_net::netlink::Netlink;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The kernel's sockets are looked at so often for what the port did not get.
const LOOK_EVERY_NS: u64 = 200_000;
/// Datagrams of one such look.
const LOOK_MAX: usize = 32;

/// Who knows the next hops.
pub(super) trait Hops<Q> {
    /// The headers of datagrams to a server, if its next hop is known; asks for it if it is not.
    fn header(&mut self, port: &mut FramePort<Q>, to: SocketAddr, now_ns: u64) -> Option<Header>;

    /// Sends a datagram for which there are no headers, if that is possible, but slowly; by this the
    /// next hop becomes known. Returns whether it has left; if not, it is lost.
    fn send_slowly(&mut self, to: SocketAddr, bytes: &[u8]) -> bool;

    /// A server is silent: perhaps it is not where it was. Returns whether datagrams should go
    /// slowly until it is heard again.
    fn doubt(&mut self, port: &mut FramePort<Q>, to: SocketAddr) -> bool;

    /// Shows what has come for this port by another way; returns how many.
    fn strays(&mut self, now_ns: u64, take: impl FnMut(&[u8], SocketAddr)) -> usize;

    /// The sockets by which it comes.
    fn bound(&self) -> &[Bound];
}

/// The tables of the kernel, and its sockets. What is sent by a socket makes the kernel ask for the
/// neighbour; replies come to the port in any case.
#[derive(Debug)]
pub(super) struct KernelHops {
    netlink: Netlink,
    interface: u32,
    mac: MacAddress,
    addresses: Vec<(IpAddr, u8)>,
    /// Our UDP port.
    port: u16,
    bound: Vec<Bound>,
    look_at_ns: u64,
    buffer: Box<[u8]>,
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub from: IpAddr,
    pub next: IpAddr,
}

impl KernelHops {
    pub fn new(
        (interface, mac): (u32, MacAddress),
        addresses: Vec<(IpAddr, u8)>,
        (port, bound): (u16, Vec<Bound>),
    ) -> io::Result<Self> {
        Ok(Self {
            netlink: Netlink::open()?,
            interface,
            mac,
            addresses,
            port,
            bound,
            look_at_ns: 0,
            buffer: vec![0; 1 << 16].into(),
        })
    }

    /// The way to a server.
    ///
    /// # Errors
    /// Why there is none out of this interface.
    pub fn hop(&mut self, to: IpAddr) -> Result<Hop, String> {
        if self.addresses.iter().any(|(address, _)| *address == to) {
            return Err(format!(
                "{to} is this interface's own address: the server has to be on another machine, or in another network namespace"
            ));
        }
        let has_socket =
            |address: &IpAddr| self.bound.iter().any(|bound| bound.address == *address);
        let mut ours = self.addresses.iter().filter(|(own, _)| has_socket(own));
        if let Some((from, _)) = ours.clone().find(|prefix| is_in(to, **prefix)) {
            return Ok(Hop {
                from: *from,
                next: to,
            });
        }
        let route = self
            .netlink
            .route(to)
            .map_err(|error| format!("no way to {to}: {error} (ip route get {to})"))?;
        if route.interface != self.interface {
            return Err(format!(
                "the way to {to} does not lead out of this interface (ip route get {to})"
            ));
        }
        let like = |address: &IpAddr| match (address, to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(own), IpAddr::V6(to)) => is_of_link(*own) == is_of_link(to),
            _ => false,
        };
        let from = route
            .source
            .filter(has_socket)
            .or_else(|| ours.find(|(own, _)| like(own)).map(|(own, _)| *own));
        match from {
            Some(from) => Ok(Hop {
                from,
                next: route.gateway.unwrap_or(to),
            }),
            None => Err(format!(
                "this interface has no address from which {to} can be reached"
            )),
        }
    }
}

impl<Q> Hops<Q> for KernelHops {
    fn header(&mut self, _: &mut FramePort<Q>, to: SocketAddr, _: u64) -> Option<Header> {
        let hop = self.hop(to.ip()).ok()?;
        let mac = self.netlink.neighbour(self.interface, hop.next).ok()??;
        let from = SocketAddr::new(hop.from, self.port);
        Some(Header::new((self.mac, from), (mac, to), None))
    }

    fn send_slowly(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        let Ok(hop) = self.hop(to.ip()) else {
            return false;
        };
        let to = with_port(to.ip(), to.port(), self.interface);
        let bound = self.bound.iter().find(|bound| bound.address == hop.from);
        bound.is_some_and(|bound| bound.socket.send_to(bytes, to).is_ok())
    }

    fn doubt(&mut self, _: &mut FramePort<Q>, _: SocketAddr) -> bool {
        true
    }

    fn strays(&mut self, now_ns: u64, mut take: impl FnMut(&[u8], SocketAddr)) -> usize {
        if now_ns < self.look_at_ns {
            return 0;
        }
        let mut count = 0;
        for bound in &self.bound {
            while count < LOOK_MAX
                && let Ok((bytes, from)) = bound.socket.recv_from(&mut self.buffer)
            {
                take(&self.buffer[..bytes], from);
                count += 1;
            }
        }
        // Where some come this way others follow.
        self.look_at_ns = match count {
            0 => now_ns + LOOK_EVERY_NS,
            _ => 0,
        };
        count
    }

    fn bound(&self) -> &[Bound] {
        &self.bound
    }
}

/// How long a wait may be where only looking tells whether something has come.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(50);
