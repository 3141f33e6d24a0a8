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
    /// Neither IPv4 nor IPv6, or not UDP: none of our business.
    OtherProtocol,
    /// A part of a longer packet.
    Fragment,
    /// IPv4 options or IPv6 extension headers.
    Options,
    /// Lengths that contradict each other or the frame.
    Length,
    /// A wrong checksum, or none over IPv6.
    Checksum,
    /// Nobody can be answered at the source address: multicast, broadcast, unspecified, port 0.
    Source,
}

/// Finds the datagram of a frame (RFC 894, IEEE 802.1Q with one tag, RFC 791, RFC 8200, RFC 768).
///
/// # Errors
/// Why there is none.
#[inline]
pub fn parse(frame: &[u8], checksums: ReceiveChecksums) -> Result<Found, NotTaken> {
    let u16_at = |at: usize| {
        frame
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let (mut link_bytes, mut kind) = (ETHERNET_BYTES, u16_at(12).ok_or(NotTaken::Length)?);
    if kind == 0x8100 || kind == 0x88a8 {
        link_bytes += VLAN_BYTES;
        kind = u16_at(16).ok_or(NotTaken::Length)?;
    }
    let packet = &frame[link_bytes..];
    let (source, destination, ip_bytes, datagram) = match kind {
        0x0800 => ipv4(packet)?,
        0x86dd => ipv6(packet)?,
        _ => return Err(NotTaken::OtherProtocol),
    };
    let (Some(header), true) = (datagram.first_chunk::<UDP_BYTES>(), is_unicast(source)) else {
        let short = datagram.len() < UDP_BYTES;
        return Err(if short {
            NotTaken::Length
        } else {
            NotTaken::Source
        });
    };
    if usize::from(u16::from_be_bytes([header[4], header[5]])) != datagram.len() {
        return Err(NotTaken::Length);
    }
    let (source_port, port) = (
        u16::from_be_bytes([header[0], header[1]]),
        u16::from_be_bytes([header[2], header[3]]),
    );
    if source_port == 0 {
        return Err(NotTaken::Source);
    }
    if checksums != ReceiveChecksums::Verified {
        verify((source, destination), header, datagram, checksums)?;
    }
    Ok(Found {
        source: socket_address(source, source_port),
        destination: socket_address(destination, port),
        link_bytes: link_bytes as u8,
        payload_start: (link_bytes + ip_bytes + UDP_BYTES) as u8,
        payload_bytes: (datagram.len() - UDP_BYTES) as u16,
    })
}

type Packet<'p> = (IpAddr, IpAddr, usize, &'p [u8]);

#[inline]
fn ipv4(packet: &[u8]) -> Result<Packet<'_>, NotTaken> {
    let header = packet.first_chunk::<IPV4_BYTES>().ok_or(NotTaken::Length)?;
    match header[0] {
        0x45 => {}
        other if other >> 4 == 4 && other & 15 > 5 => return Err(NotTaken::Options),
        _ => return Err(NotTaken::Length),
    }
    // Frames may be padded behind the packet.
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
    if header[9] != UDP {
        return Err(NotTaken::OtherProtocol);
    }
    let address = |at: usize| {
        let [a, b, c, d] = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    Ok((
        address(12),
        address(16),
        IPV4_BYTES,
        &packet[IPV4_BYTES..total],
    ))
}

#[inline]
fn ipv6(packet: &[u8]) -> Result<Packet<'_>, NotTaken> {
    let header = packet.first_chunk::<IPV6_BYTES>().ok_or(NotTaken::Length)?;
    let bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || bytes > packet.len() - IPV6_BYTES {
        return Err(NotTaken::Length);
    }
    match header[6] {
        UDP => {}
        44 => return Err(NotTaken::Fragment),
        // Hop by hop, routing, authentication, destination, mobility, HIP, shim6 (RFC 7045).
        0 | 43 | 51 | 60 | 135 | 139 | 140 => return Err(NotTaken::Options),
        _ => return Err(NotTaken::OtherProtocol),
    }
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&header[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let datagram = &packet[IPV6_BYTES..IPV6_BYTES + bytes];
    Ok((address(8), address(24), IPV6_BYTES, datagram))
}

#[inline]
fn verify(
    (source, destination): (IpAddr, IpAddr),
    header: &[u8; UDP_BYTES],
    datagram: &[u8],
    checksums: ReceiveChecksums,
) -> Result<(), NotTaken> {
    let checksum = u16::from_be_bytes([header[6], header[7]]);
    if checksum == 0 {
        // None was computed: permitted over IPv4 only (RFC 8200, 8.1).
        return match source {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(_) => Err(NotTaken::Checksum),
        };
    }
    let pseudo = pseudo_header_sum(source, destination, datagram.len());
    let sum = u32::from(pseudo) + u32::from(ones_complement_sum(datagram));
    let is_right = (sum & 0xffff) + (sum >> 16) == 0xffff;
    let is_partial = checksums == ReceiveChecksums::UnverifiedOrPartial && checksum == pseudo;
    match is_right || is_partial {
        true => Ok(()),
        false => Err(NotTaken::Checksum),
    }
}

#[inline]
fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !(address.is_multicast() || address.is_broadcast() || address.is_unspecified())
        }
        IpAddr::V6(address) => !(address.is_multicast() || address.is_unspecified()),
    }
}

#[inline]
fn socket_address(address: IpAddr, port: u16) -> SocketAddr {
    match address {
        IpAddr::V4(address) => SocketAddr::from((address, port)),
        IpAddr::V6(address) => SocketAddr::V6(SocketAddrV6::new(address, port, 0, 0)),
    }
}
