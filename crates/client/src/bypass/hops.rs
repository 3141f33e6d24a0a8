//! Next hops to servers. AF_XDP uses the kernel's tables.

use super::source::{Bound, is_in, is_of_link, with_port};
use micanite_net::frames::{FramePort, Header, MacAddress};
use micanite_net::netlink::Netlink;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Interval between reads of the kernel's sockets, for datagrams that the port did not get.
const LOOK_EVERY_NS: u64 = 200_000;
/// Maximum number of datagrams per read.
const LOOK_MAX: usize = 32;

/// Source of next hops.
pub(super) trait Hops<Q> {
    /// Returns the headers of datagrams to a server, if its next hop is known. Otherwise requests
    /// it.
    fn header(&mut self, port: &mut FramePort<Q>, to: SocketAddr, now_ns: u64) -> Option<Header>;

    /// Sends a datagram without headers over a slow path, if there is one, which makes the next hop
    /// known. Returns whether it was sent; otherwise it is lost.
    fn send_slowly(&mut self, to: SocketAddr, bytes: &[u8]) -> bool;

    /// Handles a silent server, which may have moved. Returns whether datagrams should take the
    /// slow path until it is heard again.
    fn suspect_move(&mut self, port: &mut FramePort<Q>, to: SocketAddr) -> bool;

    /// Passes on datagrams for this port that arrived in another way; returns their number.
    fn take_kernel_datagrams(&mut self, now_ns: u64, take: impl FnMut(&[u8], SocketAddr)) -> usize;

    /// Returns the sockets of that other way.
    fn bound(&self) -> &[Bound];
}

/// Tables and sockets of the kernel. A datagram sent by a socket makes the kernel resolve the
/// neighbour. The reply always comes to the port.
#[derive(Debug)]
pub(super) struct KernelHops {
    netlink: Netlink,
    interface: u32,
    mac: MacAddress,
    addresses: Vec<(IpAddr, u8)>,
    /// Own UDP port.
    port: u16,
    bound: Vec<Bound>,
    look_at_ns: u64,
    buffer: Box<[u8]>,
}

/// Route to a server.
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

    /// Returns the route to a server.
    ///
    /// # Errors
    /// Explains why none leads out of this interface.
    pub fn hop(&mut self, to: IpAddr) -> Result<Hop, String> {
        if self.addresses.iter().any(|(address, _)| *address == to) {
            return Err(format!(
                "{to} is this interface's own address: \
                 the server has to be on another machine, or in another network namespace"
            ));
        }
        let has_socket = |address: &IpAddr| self.bound.iter().any(|bound| bound.address == *address);
        let mut ours = self.addresses.iter().filter(|(own, _)| has_socket(own));
        if let Some((from, _)) = ours.clone().find(|prefix| is_in(to, **prefix)) {
            return Ok(Hop { from: *from, next: to });
        }
        let route = self
            .netlink
            .route(to)
            .map_err(|error| format!("no route to {to}: {error} (ip route get {to})"))?;
        if route.interface != self.interface {
            return Err(format!("the route to {to} does not use this interface (ip route get {to})"));
        }
        let like = |address: &IpAddr| match (address, to) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(own), IpAddr::V6(to)) => is_of_link(*own) == is_of_link(to),
            _ => false,
        };
        let from =
            route.source.filter(has_socket).or_else(|| ours.find(|(own, _)| like(own)).map(|(own, _)| *own));
        match from {
            Some(from) => Ok(Hop { from, next: route.gateway.unwrap_or(to) }),
            None => Err(format!("this interface has no address from which {to} can be reached")),
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

    fn suspect_move(&mut self, _: &mut FramePort<Q>, _: SocketAddr) -> bool {
        true
    }

    fn take_kernel_datagrams(&mut self, now_ns: u64, mut take: impl FnMut(&[u8], SocketAddr)) -> usize {
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
        // Others may follow at once.
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

/// Longest sleep of a wait on a queue that has to be polled.
pub(super) const LOOK_AGAIN: Duration = Duration::from_micros(50);
