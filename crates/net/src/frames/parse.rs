//! Finding the datagram in a frame; everything else is refused, never parsed past.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::ReceiveChecksums;
use super::checksum::{ones_complement_sum, pseudo_header_sum};

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;

/// A datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Who sent it.
    pub source: SocketAddr,
    /// Whom it is for.
    pub destination: SocketAddr,
    /// Bytes of Ethernet and VLAN headers: where the IP header begins.
    pub link_bytes: u8,
    /// Where the payload begins in the frame.
    pub payload_start: u8,
    /// Its length.
    pub payload_bytes: u16,
}

/// Why there is no datagram for us in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Neither IPv4 nor IPv6, not UDP, or not for one station: none of our business.
    OtherProtocol,
    /// A part of a longer packet.
    Fragment,
    /// IPv4 options or IPv6 extension headers.
    Options,
    /// Lengths that contradict each other or the frame.
    Length,
    /// A wrong checksum, or none over IPv6.
    Checksum,
    /// Nobody can be answered at the source address: multicast, broadcast, unspecified, loopback,
    /// port 0; or it is our own ([`super::Local`]).
    Source,
}

/// Finds the datagram of a frame (RFC 894, IEEE 802.1Q with one tag, RFC 791, RFC 8200, RFC 768).
///
/// # Errors
/// Why there is none.
#[inline]
pub fn parse(frame: &[u8], checksums: ReceiveChecksums) -> Result<Found, NotTaken> {
    let (link_bytes, kind) = link(frame)?;
    // What a group hears is not for a server, and what a group sent cannot be answered.
    if frame[0] & 1 != 0 {
        return Err(NotTaken::OtherProtocol);
    }
    let packet = packet(&frame[link_bytes..], kind)?;
    if packet.protocol != UDP {
        return Err(NotTaken::OtherProtocol);
    }
    let (datagram, (source, destination)) = (packet.body, packet.addresses);
    let header = datagram.first_chunk::<UDP_BYTES>();
    let header = header.ok_or(NotTaken::Length)?;
    if usize::from(u16::from_be_bytes([header[4], header[5]])) != datagram.len() {
        return Err(NotTaken::Length);
    }
    let source_port = u16::from_be_bytes([header[0], header[1]]);
    let port = u16::from_be_bytes([header[2], header[3]]);
    if source_port == 0 || frame[6] & 1 != 0 || !is_answerable(source) {
        return Err(NotTaken::Source);
    }
    if checksums != ReceiveChecksums::Verified {
        verify(packet.addresses, header, datagram, checksums)?;
    }
    Ok(Found {
        source: socket_address(source, source_port),
        destination: socket_address(destination, port),
        link_bytes: link_bytes as u8,
        payload_start: (link_bytes + packet.header_bytes + UDP_BYTES) as u8,
        payload_bytes: (datagram.len() - UDP_BYTES) as u16,
    })
}

/// The length of the link's headers, and what is behind them (an EtherType).
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
    /// Source and destination.
    pub addresses: (IpAddr, IpAddr),
    /// What its body is.
    pub protocol: u8,
    /// Time to live, hop limit.
    pub hops: u8,
    /// Bytes before the body.
    pub header_bytes: usize,
    /// What the header says is in it: frames may be padded behind that.
    pub body: &'p [u8],
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
    // Hardware that verified UDP's has verified this one, but it costs next to nothing.
    if ones_complement_sum(header) != 0xffff {
        return Err(NotTaken::Checksum);
    }
    let address = |at: usize| {
        let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    Ok(Packet {
        addresses: (address(12), address(16)),
        protocol: header[9],
        hops: header[8],
        header_bytes: IPV4_BYTES,
        body: &packet[IPV4_BYTES..total],
    })
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
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    Ok(Packet {
        addresses: (address(8), address(24)),
        protocol: header[6],
        hops: header[7],
        header_bytes: IPV6_BYTES,
        body: &packet[IPV6_BYTES..IPV6_BYTES + bytes],
    })
}

#[inline]
fn verify(
    addresses: (IpAddr, IpAddr),
    header: &[u8; UDP_BYTES],
    datagram: &[u8],
    checksums: ReceiveChecksums,
) -> Result<(), NotTaken> {
    let checksum = u16::from_be_bytes([header[6], header[7]]);
    if checksum == 0 {
        // None was computed: permitted over IPv4 only (RFC 8200, 8.1).
        return match addresses.0 {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(_) => Err(NotTaken::Checksum),
        };
    }
    let pseudo = pseudo_header_sum(addresses, UDP, datagram.len());
    let sum = u32::from(pseudo) + u32::from(ones_complement_sum(datagram));
    let is_right = (sum & 0xffff) + (sum >> 16) == 0xffff;
    let is_partial = checksums == ReceiveChecksums::UnverifiedOrPartial && checksum == pseudo;
    match is_right || is_partial {
        true => Ok(()),
        false => Err(NotTaken::Checksum),
    }
}

/// Whether somebody on a wire can have the address: not a group, not "this host", not loopback, not
/// an IPv4 address in the clothes of IPv6.
#[inline]
pub(super) fn is_answerable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_this_host = matches!(address.octets()[0], 0 | 127);
            !(is_this_host || address.is_multicast() || address.is_broadcast())
        }
        IpAddr::V6(address) => {
            // Of ::/64 only addresses like these were ever given out (RFC 4291).
            !address.is_multicast() && address.segments()[..4] != [0; 4]
        }
    }
}

#[inline]
fn socket_address(address: IpAddr, port: u16) -> SocketAddr {
    match address {
        IpAddr::V4(address) => SocketAddr::from((address, port)),
        IpAddr::V6(address) => SocketAddr::V6(SocketAddrV6::new(address, port, 0, 0)),
    }
}
