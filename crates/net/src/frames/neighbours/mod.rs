//! Maps IP addresses to Ethernet addresses, for ports without a kernel: the necessary parts of ARP
//! (RFC 826) and neighbour discovery (RFC 4861). No I/O, no clock.
//!
//! **Requests.** [`Neighbours::resolve`] returns the Ethernet address for a destination, or a request to
//! send. An answer is accepted only while a request is open, so others can neither fill the table nor
//! change it unasked. A request is repeated after a second. An entry is refreshed after five
//! ([`REFRESH_MS`]), while the old one stays in use.
//!
//! **Replies.** [`Neighbours::receive`] takes a frame without a datagram, and replaces it by its answer:
//! to requests for an own address, and to echo requests. An answer goes to the requesting station, and
//! is as long as the request. Only the answer to a neighbour solicitation without its sender's link
//! address is 8 bytes longer, and such solicitations come from the same link.

mod arp;
mod icmp;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use arrayvec::ArrayVec;

use super::MacAddress;
use super::parse::{is_answerable, link, packet};
use crate::limits::NEIGHBOURS_MAX;

/// Interval between repeated requests.
const ASK_AGAIN_MS: u64 = 1000;
/// Age at which an entry is refreshed.
const REFRESH_MS: u64 = 5000;

const ARP: u16 = 0x0806;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// A request for a neighbour: a complete frame to send.
pub type Question = ArrayVec<u8, 86>;

/// State of the way to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Frames for the address go to this station.
    Known(MacAddress),
    /// The station was requested and has not answered yet.
    Asked,
    /// No way exists: the address is outside of every prefix and there is no gateway, no own
    /// address has its family, or no station can have it.
    Unknown,
}

/// Requested stations of a link, and the own addresses there.
#[derive(Debug)]
pub struct Neighbours {
    mac: MacAddress,
    addresses: Vec<(IpAddr, u8)>,
    gateway: Option<IpAddr>,
    table: Vec<Neighbour>,
}

#[derive(Debug)]
struct Neighbour {
    address: IpAddr,
    mac: Option<MacAddress>,
    /// A request is open.
    is_asked: bool,
    asked_ms: u64,
}

impl Neighbours {
    /// Creates the table of a station with that Ethernet address and those addresses, each with its
    /// prefix length. Everything outside of the prefixes goes to the gateway. Allocates only here.
    pub fn new(mac: MacAddress, addresses: &[(IpAddr, u8)], gateway: Option<IpAddr>) -> Self {
        Self { mac, addresses: addresses.to_vec(), gateway, table: Vec::with_capacity(NEIGHBOURS_MAX) }
    }

    /// Returns the own Ethernet address.
    pub const fn mac(&self) -> MacAddress {
        self.mac
    }

    /// Returns the own address to use as source: one with the destination's prefix, if possible.
    pub fn source_for(&self, to: IpAddr) -> Option<IpAddr> {
        let of_family = |(own, _): &&(IpAddr, u8)| own.is_ipv4() == to.is_ipv4();
        let on_link = self.addresses.iter().find(|own| is_within(to, **own));
        let own = on_link.or_else(|| self.addresses.iter().find(of_family));
        own.map(|(address, _)| *address)
    }

    /// Returns the station for an address, and a request to send, if one is due.
    pub fn resolve(&mut self, to: IpAddr, now_ms: u64) -> (Resolution, Option<Question>) {
        let (Some(hop), Some(source)) = (self.next_hop(to), self.source_for(to)) else {
            return (Resolution::Unknown, None);
        };
        let known = self.table.iter().position(|entry| entry.address == hop);
        let entry = known.unwrap_or_else(|| self.add(hop));
        let entry = &mut self.table[entry];
        let resolution = entry.mac.map_or(Resolution::Asked, Resolution::Known);
        let rest_ms = if entry.is_asked { ASK_AGAIN_MS } else { REFRESH_MS };
        if known.is_some() && now_ms.saturating_sub(entry.asked_ms) < rest_ms {
            return (resolution, None);
        }
        (entry.is_asked, entry.asked_ms) = (true, now_ms);
        let question = match (source, hop) {
            (IpAddr::V4(source), IpAddr::V4(hop)) => Some(arp::question(self.mac, source, hop)),
            (IpAddr::V6(source), IpAddr::V6(hop)) => Some(icmp::question(self.mac, source, hop)),
            _ => None,
        };
        (resolution, question)
    }

    /// Handles a frame without a datagram at the start of a buffer. Returns the length of the
    /// answer that replaces it, if there is one.
    pub fn receive(&mut self, buffer: &mut [u8], bytes: usize) -> Option<usize> {
        let frame = &buffer[..bytes];
        let (link_bytes, kind) = link(frame).ok()?;
        let sender: MacAddress = frame[6..12].try_into().ok()?;
        if sender[0] & 1 != 0 || sender == self.mac {
            return None;
        }
        if kind == ARP {
            return arp::receive(self, buffer, (link_bytes, bytes));
        }
        let packet = packet(&frame[link_bytes..], kind).ok()?;
        match packet.protocol() {
            ICMP if kind == 0x0800 => icmp::echo_v4(self, buffer, (link_bytes, bytes)),
            ICMPV6 if kind == 0x86dd => icmp::receive_v6(self, buffer, (link_bytes, bytes)),
            _ => None,
        }
    }

    /// Returns the address of the next hop.
    fn next_hop(&self, to: IpAddr) -> Option<IpAddr> {
        if !is_answerable(to) || self.is_own(to) {
            return None;
        }
        let is_link_local = matches!(to, IpAddr::V6(to) if to.is_unicast_link_local());
        if is_link_local || self.addresses.iter().any(|own| is_within(to, *own)) {
            return Some(to);
        }
        let gateway = self.gateway?;
        (gateway.is_ipv4() == to.is_ipv4() && !self.is_own(gateway)).then_some(gateway)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Adds an entry. If the table is full, it replaces the least recently requested one.
    fn add(&mut self, address: IpAddr) -> usize {
        let entry = Neighbour { address, mac: None, is_asked: false, asked_ms: 0 };
        if self.table.len() < NEIGHBOURS_MAX {
            self.table.push(entry);
            return self.table.len() - 1;
        }
        let ages = self.table.iter().map(|entry| entry.asked_ms).enumerate();
        let oldest = ages.min_by_key(|(_, asked_ms)| *asked_ms);
        let at = oldest.map_or(0, |(at, _)| at);
        self.table[at] = entry;
        at
    }

    /// Stores the address that a station claims, if it was requested.
    fn learn(&mut self, address: IpAddr, mac: MacAddress) {
        if mac[0] & 1 != 0 || mac == [0; 6] || mac == self.mac {
            return;
        }
        let asked = self.table.iter_mut().find(|entry| entry.address == address);
        if let Some(entry) = asked
            && entry.is_asked
        {
            (entry.mac, entry.is_asked) = (Some(mac), false);
        }
    }
}

/// Returns whether an address is within another's prefix.
fn is_within(address: IpAddr, (other, prefix): (IpAddr, u8)) -> bool {
    let differing = match (address, other) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(a.to_bits() ^ b.to_bits()) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => a.to_bits() ^ b.to_bits(),
        _ => return false,
    };
    differing.leading_zeros() >= u32::from(prefix)
}
