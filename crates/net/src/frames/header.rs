//! Headers in front of a payload: a request's headers, flipped, or new ones for a peer.

use std::net::{IpAddr, SocketAddr};

use super::Found;
use super::checksum::{
    folded, nonzero, ones_complement_sum, udp_checksum, unfolded_pseudo, unfolded_sum, unfolded_word, updated,
};
use super::parse::Place;
use crate::limits::FRAME_HEADER_BYTES_MAX;

/// An Ethernet address.
pub type MacAddress = [u8; 6];

const UDP_BYTES: usize = 8;
const TIME_TO_LIVE: u8 = 64;

/// Ethernet, VLAN, IP and UDP headers of a datagram, separate from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; FRAME_HEADER_BYTES_MAX],
    link_bytes: u8,
    len: u8,
}

impl Header {
    /// Copies the headers of a frame with a parsed datagram.
    #[inline]
    pub fn of(frame: &[u8], found: &Found) -> Self {
        Self::at(frame, found.link_bytes, found.payload_start)
    }

    /// Copies the headers of a frame with a datagram at `place`.
    #[inline]
    pub(super) fn of_place(frame: &[u8], place: Place) -> Self {
        Self::at(frame, place.link_bytes, place.payload_start)
    }

    #[inline]
    fn at(frame: &[u8], link_bytes: u8, len: u8) -> Self {
        let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
        bytes[..usize::from(len)].copy_from_slice(&frame[..usize::from(len)]);
        Self { bytes, link_bytes, len }
    }

    /// Creates headers for datagrams between two addresses of the same family, over a link.
    ///
    /// # Panics
    /// If the addresses are of different families.
    pub fn new(
        (from_mac, from): (MacAddress, SocketAddr),
        (to_mac, to): (MacAddress, SocketAddr),
        vlan: Option<u16>,
    ) -> Self {
        let mut header = Self { bytes: [0; FRAME_HEADER_BYTES_MAX], link_bytes: 0, len: 0 };
        header.push(&to_mac);
        header.push(&from_mac);
        if let Some(tag) = vlan {
            header.push(&0x8100u16.to_be_bytes());
            header.push(&(tag & 0x0fff).to_be_bytes());
        }
        match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                header.push(&0x0800u16.to_be_bytes());
                header.link_bytes = header.len;
                // Sets "do not fragment". Lengths and checksum follow with the payload.
                header.push(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, TIME_TO_LIVE, 17, 0, 0]);
                header.push(&from.octets());
                header.push(&to.octets());
                let at = usize::from(header.link_bytes);
                let checksum = !ones_complement_sum(&header.bytes[at..at + 20]);
                header.bytes[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                header.push(&0x86ddu16.to_be_bytes());
                header.link_bytes = header.len;
                header.push(&[0x60, 0, 0, 0, 0, 0, 17, TIME_TO_LIVE]);
                header.push(&from.octets());
                header.push(&to.octets());
            }
            _ => panic!("addresses of different families"),
        }
        header.push(&from.port().to_be_bytes());
        header.push(&to.port().to_be_bytes());
        header.push(&[0; 4]);
        header
    }

    fn push(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    /// Returns the length of the headers.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns `false`: headers are never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Returns the headers as bytes, which [`Self::from_bytes`] converts back.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Converts bytes from [`Self::as_bytes`] back; `None` if the length is impossible.
    #[inline]
    pub fn from_bytes(headers: &[u8]) -> Option<Self> {
        let link_bytes = match headers.len() {
            42 | 62 => 14,
            46 | 66 => 18,
            _ => return None,
        };
        let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
        bytes[..headers.len()].copy_from_slice(headers);
        Some(Self { bytes, link_bytes, len: headers.len() as u8 })
    }

    /// Returns the headers of a reply.
    #[inline]
    #[must_use]
    pub fn flipped(&self) -> Self {
        let mut flipped = *self;
        flip(&mut flipped.bytes, self.link_bytes, self.len);
        flipped
    }

    /// Returns the lengths of the link's and of the network layer's headers.
    #[inline]
    pub const fn layers(&self) -> (u8, u8) {
        (self.link_bytes, self.len - self.link_bytes - UDP_BYTES as u8)
    }
}

/// Writes the headers of a reply, with lengths and checksums. Its payload is already in `reply`.
/// `hardware` as in [`complete`].
#[inline]
pub(super) fn write_reply(request: &[u8], place: Place, reply: &mut [u8], hardware: bool) {
    // Separate code for each form turns copies and sums of known lengths into a few instructions.
    match (place.link_bytes, place.network_bytes()) {
        (14, 20) => write_reply_of::<14, 20, 42>(request, reply, hardware),
        (14, 40) => write_reply_of::<14, 40, 62>(request, reply, hardware),
        (18, 20) => write_reply_of::<18, 20, 46>(request, reply, hardware),
        _ => write_reply_of::<18, 40, 66>(request, reply, hardware),
    }
}

/// Reads and writes every byte once. A read of a whole word that was just written in pieces would
/// have to wait for the cache.
#[inline]
fn write_reply_of<const LINK: usize, const NETWORK: usize, const HEADERS: usize>(
    request: &[u8],
    reply: &mut [u8],
    hardware: bool,
) {
    let (Some(request), Some((out, payload))) =
        (request.first_chunk::<HEADERS>(), reply.split_first_chunk_mut::<HEADERS>())
    else {
        unreachable!("there is room for the headers")
    };
    out[..6].copy_from_slice(&request[6..12]);
    out[6..12].copy_from_slice(&request[..6]);
    out[12..LINK].copy_from_slice(&request[12..LINK]);
    let udp_bytes = UDP_BYTES + payload.len();
    let (ip, ip_out) = (&request[LINK..], &mut out[LINK..]);
    let word = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let addresses = if NETWORK == 20 {
        let total = (20 + udp_bytes) as u16;
        let lives = u16::from_be_bytes([TIME_TO_LIVE, ip[9]]);
        let changes = [(word(2), total), (word(6), 0x4000), (word(8), lives)];
        let checksum = updated(word(10), &changes);
        ip_out[..2].copy_from_slice(&ip[..2]);
        ip_out[2..4].copy_from_slice(&total.to_be_bytes());
        ip_out[4..6].copy_from_slice(&ip[4..6]);
        ip_out[6..8].copy_from_slice(&[0x40, 0]);
        ip_out[8..10].copy_from_slice(&lives.to_be_bytes());
        ip_out[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip_out[12..16].copy_from_slice(&ip[16..20]);
        ip_out[16..20].copy_from_slice(&ip[12..16]);
        unfolded_sum(&ip[12..20])
    } else {
        ip_out[..4].copy_from_slice(&ip[..4]);
        ip_out[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
        ip_out[6..8].copy_from_slice(&[ip[6], TIME_TO_LIVE]);
        ip_out[8..24].copy_from_slice(&ip[24..40]);
        ip_out[24..40].copy_from_slice(&ip[8..24]);
        unfolded_sum(&ip[8..40])
    };
    let (udp, udp_out) = (&ip[NETWORK..], &mut ip_out[NETWORK..]);
    let pseudo = addresses + unfolded_pseudo(17, udp_bytes);
    let sum = match hardware {
        true => folded(pseudo),
        false => {
            let ports = unfolded_sum(&udp[..4]) + unfolded_word(udp_bytes as u16);
            nonzero(!folded(pseudo + ports + unfolded_sum(payload)))
        }
    };
    udp_out[..2].copy_from_slice(&udp[2..4]);
    udp_out[2..4].copy_from_slice(&udp[..2]);
    udp_out[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
    udp_out[6..8].copy_from_slice(&sum.to_be_bytes());
}

/// Exchanges addresses and ports. This changes no checksum.
#[inline]
fn flip(headers: &mut [u8], link_bytes: u8, len: u8) {
    let (link, udp) = (usize::from(link_bytes), usize::from(len) - UDP_BYTES);
    swap(headers, 0, 6, 6);
    match udp - link {
        20 => swap(headers, link + 12, link + 16, 4),
        _ => swap(headers, link + 8, link + 24, 16),
    }
    swap(headers, udp, udp + 2, 2);
}

#[inline]
fn swap(bytes: &mut [u8], first: usize, second: usize, len: usize) {
    let (front, back) = bytes.split_at_mut(second);
    front[first..first + len].swap_with_slice(&mut back[..len]);
}

/// Writes lengths and checksums for a payload behind the headers in `frame`. If hardware computes
/// the UDP checksum, only the sum of the pseudo header is written.
pub(super) fn complete(frame: &mut [u8], (link, network): (u8, u8), hardware: bool) {
    let (link, udp) = (usize::from(link), usize::from(link) + usize::from(network));
    let udp_bytes = frame.len() - udp;
    let (headers, datagram) = frame.split_at_mut(udp);
    let network = &mut headers[link..];
    let word = |network: &[u8], at: usize| u16::from_be_bytes([network[at], network[at + 1]]);
    let addresses = if network.len() == 20 {
        let total = (20 + udp_bytes) as u16;
        let lived = word(network, 8);
        let lives = u16::from_be_bytes([TIME_TO_LIVE, network[9]]);
        let changes = [(word(network, 2), total), (word(network, 6), 0x4000), (lived, lives)];
        let checksum = updated(word(network, 10), &changes);
        for (at, word) in [(2, total), (6, 0x4000), (8, lives), (10, checksum)] {
            network[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
        unfolded_sum(&network[12..20])
    } else {
        network[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
        network[7] = TIME_TO_LIVE;
        unfolded_sum(&network[8..40])
    };
    let pseudo = folded(addresses + unfolded_pseudo(17, udp_bytes));
    datagram[4..6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
    datagram[6..8].fill(0);
    let checksum = match hardware {
        true => pseudo,
        false => udp_checksum(pseudo, datagram),
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
}
