//! Finds the datagram in a frame, and refuses everything else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::ReceiveChecksums;
use super::checksum::{folded, ones_complement_sum, unfolded_pseudo, unfolded_sum};

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;

/// A datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub source: SocketAddr,
    pub destination: SocketAddr,
    /// Bytes of Ethernet and VLAN headers: offset of the IP header.
    pub link_bytes: u8,
    /// Offset of the payload in the frame.
    pub payload_start: u8,
    /// Length of the payload.
    pub payload_bytes: u16,
}

/// Reasons why a frame holds no datagram for this port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Neither IPv4 nor IPv6, not UDP, or not for a single station.
    OtherProtocol,
    /// Part of a longer packet.
    Fragment,
    /// IPv4 options or IPv6 extension headers.
    Options,
    /// Lengths that contradict each other or the frame.
    Length,
    /// A wrong checksum, or none over IPv6.
    Checksum,
    /// The source address cannot be answered: multicast, broadcast, unspecified, loopback, port 0;
    /// or it is an own one ([`super::Local`]).
    Source,
}

/// Location of a datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub link_bytes: u8,
    pub payload_start: u8,
    pub payload_bytes: u16,
}

impl Place {
    /// Returns the length of the IP header, which tells the version.
    #[inline]
    pub const fn network_bytes(self) -> u8 {
        self.payload_start - self.link_bytes - UDP_BYTES as u8
    }

    #[inline]
    pub fn payload(self, frame: &[u8]) -> &[u8] {
        let start = usize::from(self.payload_start);
        &frame[start..start + usize::from(self.payload_bytes)]
    }

    /// Returns source and destination, which lie in the frame.
    #[inline]
    pub fn addresses(self, frame: &[u8]) -> Addresses<'_> {
        let ip = &frame[usize::from(self.link_bytes)..usize::from(self.payload_start)];
        let addresses = match usize::from(self.network_bytes()) {
            IPV4_BYTES => ip[12..20].as_chunks().0.try_into().map(Addresses::V4),
            _ => ip[8..40].as_chunks().0.try_into().map(Addresses::V6),
        };
        let Ok(addresses) = addresses else { unreachable!("two of them are as long as that") };
        addresses
    }

    /// Returns the destination port.
    #[inline]
    pub fn port(self, frame: &[u8]) -> u16 {
        let at = usize::from(self.payload_start) - UDP_BYTES + 2;
        u16::from_be_bytes([frame[at], frame[at + 1]])
    }

    /// Adds the addresses. Inlined, so that unused fields are never computed.
    #[inline(always)]
    pub fn found(self, frame: &[u8]) -> Found {
        let [source, destination] = match self.addresses(frame) {
            Addresses::V4(octets) => octets.map(IpAddr::from),
            Addresses::V6(octets) => octets.map(IpAddr::from),
        };
        let at = usize::from(self.payload_start) - UDP_BYTES;
        let source_port = u16::from_be_bytes([frame[at], frame[at + 1]]);
        Found {
            source: socket_address(source, source_port),
            destination: socket_address(destination, self.port(frame)),
            link_bytes: self.link_bytes,
            payload_start: self.payload_start,
            payload_bytes: self.payload_bytes,
        }
    }
}

/// Source and destination.
pub(super) enum Addresses<'f> {
    V4(&'f [[u8; 4]; 2]),
    V6(&'f [[u8; 16]; 2]),
}

/// Finds the datagram of a frame (RFC 894, IEEE 802.1Q with one tag, RFC 791, RFC 8200, RFC 768).
///
/// # Errors
/// Returns the reason why there is none.
#[inline]
pub fn parse(frame: &[u8], checksums: ReceiveChecksums) -> Result<Found, NotTaken> {
    locate(frame, checksums).map(|place| place.found(frame))
}

/// Finds the location of a frame's datagram.
#[inline]
pub(super) fn locate(frame: &[u8], checksums: ReceiveChecksums) -> Result<Place, NotTaken> {
    let (link_bytes, kind) = link(frame)?;
    // A server accepts no multicast frames, and cannot answer a multicast sender.
    if frame[0] & 1 != 0 {
        return Err(NotTaken::OtherProtocol);
    }
    let packet = packet(&frame[link_bytes..], kind)?;
    if packet.protocol() != UDP {
        return Err(NotTaken::OtherProtocol);
    }
    let header = packet.body.first_chunk::<UDP_BYTES>();
    let header = header.ok_or(NotTaken::Length)?;
    if usize::from(u16::from_be_bytes([header[4], header[5]])) != packet.body.len() {
        return Err(NotTaken::Length);
    }
    let has_port = header[0] | header[1] != 0;
    if !has_port || frame[6] & 1 != 0 || !packet.is_answerable() {
        return Err(NotTaken::Source);
    }
    if checksums != ReceiveChecksums::Verified {
        verify(&packet, header, checksums)?;
    }
    Ok(Place {
        link_bytes: link_bytes as u8,
        payload_start: (link_bytes + packet.header.len() + UDP_BYTES) as u8,
        payload_bytes: (packet.body.len() - UDP_BYTES) as u16,
    })
}

/// Returns the length of the link's headers, and the EtherType of the rest.
#[inline]
pub(super) fn link(frame: &[u8]) -> Result<(usize, u16), NotTaken> {
    let u16_at = |at: usize| match frame.get(at..at + 2) {
        Some(bytes) => Ok(u16::from_be_bytes([bytes[0], bytes[1]])),
        None => Err(NotTaken::Length),
    };
    match u16_at(ETHERNET_BYTES - 2)? {
        0x8100 | 0x88a8 => {
            let bytes = ETHERNET_BYTES + VLAN_BYTES;
            Ok((bytes, u16_at(bytes - 2)?))
        }
        kind => Ok((ETHERNET_BYTES, kind)),
    }
}

/// An IP packet without options or extension headers.
pub(super) struct Packet<'p> {
    /// Header of 20 or 40 bytes; the length tells the version.
    pub header: &'p [u8],
    /// The packet's body by its header. Padding may follow in the frame.
    pub body: &'p [u8],
}

impl Packet<'_> {
    /// Returns source and destination.
    #[inline]
    pub fn addresses(&self) -> (IpAddr, IpAddr) {
        match self.header.len() {
            IPV4_BYTES => addresses_v4(self.header),
            _ => addresses_v6(self.header),
        }
    }

    /// Returns the protocol of the body.
    #[inline]
    pub fn protocol(&self) -> u8 {
        match self.header.len() {
            IPV4_BYTES => self.header[9],
            _ => self.header[6],
        }
    }

    /// Returns the time to live, or hop limit.
    #[inline]
    pub fn hops(&self) -> u8 {
        match self.header.len() {
            IPV4_BYTES => self.header[8],
            _ => self.header[7],
        }
    }

    /// Returns whether a station on a wire can have the source address: no group, not "this host",
    /// not loopback, no IPv4 address in the form of IPv6.
    #[inline]
    pub fn is_answerable(&self) -> bool {
        match *self.header {
            [_, _, _, _, _, _, _, _, _, _, _, _, a, b, c, d, _, _, _, _] => {
                !matches!(a, 0 | 127 | 224..=239) && [a, b, c, d] != [0xff; 4]
            }
            // All addresses of ::/64 that were ever assigned are of these kinds (RFC 4291).
            _ => self.header[8] != 0xff && self.header[8..16] != [0; 8],
        }
    }

    /// Returns the addresses' contribution to checksums.
    #[inline]
    fn unfolded_addresses(&self) -> u64 {
        match self.header.len() {
            IPV4_BYTES => unfolded_sum(&self.header[12..20]),
            _ => unfolded_sum(&self.header[8..40]),
        }
    }
}

#[inline]
fn addresses_v4(header: &[u8]) -> (IpAddr, IpAddr) {
    let address = |at: usize| {
        let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    (address(12), address(16))
}

#[inline]
fn addresses_v6(header: &[u8]) -> (IpAddr, IpAddr) {
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    (address(8), address(24))
}

/// Finds the packet behind the link's headers.
#[inline]
pub(super) fn packet(bytes: &[u8], kind: u16) -> Result<Packet<'_>, NotTaken> {
    match kind {
        0x0800 => ipv4(bytes),
        0x86dd => ipv6(bytes),
        _ => Err(NotTaken::OtherProtocol),
    }
}

#[inline]
fn ipv4(packet: &[u8]) -> Result<Packet<'_>, NotTaken> {
    let header = packet.first_chunk::<IPV4_BYTES>().ok_or(NotTaken::Length)?;
    match header[0] {
        0x45 => {}
        other if other >> 4 == 4 && other & 15 > 5 => return Err(NotTaken::Options),
        _ => return Err(NotTaken::Length),
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if total < IPV4_BYTES || total > packet.len() {
        return Err(NotTaken::Length);
    }
    // More fragments, or not the first.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err(NotTaken::Fragment);
    }
    // Hardware that verified UDP's checksum has verified this one, too, but it costs next to
    // nothing.
    if ones_complement_sum(header) != 0xffff {
        return Err(NotTaken::Checksum);
    }
    let (header, body) = packet[..total].split_at(IPV4_BYTES);
    Ok(Packet { header, body })
}

#[inline]
fn ipv6(packet: &[u8]) -> Result<Packet<'_>, NotTaken> {
    let header = packet.first_chunk::<IPV6_BYTES>().ok_or(NotTaken::Length)?;
    let bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || bytes > packet.len() - IPV6_BYTES {
        return Err(NotTaken::Length);
    }
    match header[6] {
        44 => return Err(NotTaken::Fragment),
        // Hop by hop, routing, authentication, destination, mobility, HIP, shim6 (RFC 7045).
        0 | 43 | 51 | 60 | 135 | 139 | 140 => return Err(NotTaken::Options),
        _ => {}
    }
    let (header, body) = packet[..IPV6_BYTES + bytes].split_at(IPV6_BYTES);
    Ok(Packet { header, body })
}

#[inline]
fn verify(
    packet: &Packet<'_>,
    header: &[u8; UDP_BYTES],
    checksums: ReceiveChecksums,
) -> Result<(), NotTaken> {
    let checksum = u16::from_be_bytes([header[6], header[7]]);
    if checksum == 0 {
        // No checksum: permitted only over IPv4 (RFC 8200, 8.1).
        return match packet.header.len() {
            IPV4_BYTES => Ok(()),
            _ => Err(NotTaken::Checksum),
        };
    }
    let pseudo = packet.unfolded_addresses() + unfolded_pseudo(UDP, packet.body.len());
    let is_right = folded(pseudo + unfolded_sum(packet.body)) == 0xffff;
    let may_be_partial = checksums == ReceiveChecksums::UnverifiedOrPartial;
    match is_right || (may_be_partial && checksum == folded(pseudo)) {
        true => Ok(()),
        false => Err(NotTaken::Checksum),
    }
}

/// Returns whether a station on a wire can have an address, like [`Packet::is_answerable`].
pub(super) fn is_answerable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_this_host = matches!(address.octets()[0], 0 | 127);
            !(is_this_host || address.is_multicast() || address.is_broadcast())
        }
        IpAddr::V6(address) => !address.is_multicast() && address.segments()[..4] != [0; 4],
    }
}

#[inline]
fn socket_address(address: IpAddr, port: u16) -> SocketAddr {
    match address {
        IpAddr::V4(address) => SocketAddr::from((address, port)),
        IpAddr::V6(address) => SocketAddr::V6(SocketAddrV6::new(address, port, 0, 0)),
    }
}
