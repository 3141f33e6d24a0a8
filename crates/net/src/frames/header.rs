//! The headers in front of a payload: those of a request, flipped, or made for a peer.

use std::net::{IpAddr, SocketAddr};

use super::Found;
use super::checksum::{ones_complement_sum, udp_checksum, updated};
use crate::limits::FRAME_HEADER_BYTES_MAX;

/// An Ethernet address.
pub type MacAddress = [u8; 6];

const UDP_BYTES: usize = 8;
const TIME_TO_LIVE: u8 = 64;

/// Ethernet, VLAN, IP and UDP headers of a datagram, apart from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; FRAME_HEADER_BYTES_MAX],
    link_bytes: u8,
    len: u8,
}

impl Header {
    /// Those of a frame in which a datagram was found.
    #[inline]
    pub fn of(frame: &[u8], found: &Found) -> Self {
        let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
        let len = usize::from(found.payload_start);
        bytes[..len].copy_from_slice(&frame[..len]);
        Self {
            bytes,
            link_bytes: found.link_bytes,
            len: found.payload_start,
        }
    }

    /// Those of datagrams from one address to another, of the same family, over a link.
    ///
    /// # Panics
    /// When the addresses are of different families.
    pub fn new(
        (from_mac, from): (MacAddress, SocketAddr),
        (to_mac, to): (MacAddress, SocketAddr),
        vlan: Option<u16>,
    ) -> Self {
        let mut header = Self {
            bytes: [0; FRAME_HEADER_BYTES_MAX],
            link_bytes: 0,
            len: 0,
        };
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
                // Do not fragment; lengths and checksum follow with the payload.
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

    /// Their length.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Never.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The headers, to be carried elsewhere: by [`Self::from_bytes`] they are the same again.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Headers that [`Self::as_bytes`] gave; of other bytes, `None` where they have another form.
    #[inline]
    pub fn from_bytes(headers: &[u8]) -> Option<Self> {
        let link_bytes = match headers.len() {
            42 | 62 => 14,
            46 | 66 => 18,
            _ => return None,
        };
        let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
        bytes[..headers.len()].copy_from_slice(headers);
        Some(Self {
            bytes,
            link_bytes,
            len: headers.len() as u8,
        })
    }

    /// Those of the reply.
    #[inline]
    #[must_use]
    pub fn flipped(&self) -> Self {
        let mut flipped = *self;
        flip(&mut flipped.bytes, self.link_bytes, self.len);
        flipped
    }

    /// The length of the link's part, and of the network layer's.
    #[inline]
    pub const fn layers(&self) -> (u8, u8) {
        (
            self.link_bytes,
            self.len - self.link_bytes - UDP_BYTES as u8,
        )
    }
}

/// Writes the headers of the reply to a frame to the begin of another one.
#[inline]
pub(super) fn write_flipped(request: &[u8], found: &Found, out: &mut [u8]) {
    let len = usize::from(found.payload_start);
    out[..len].copy_from_slice(&request[..len]);
    flip(&mut out[..len], found.link_bytes, found.payload_start);
}

/// Exchanges addresses and ports. No sum changes by that.
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

/// Enters lengths and checksums for a payload that lies behind the headers in `frame`. The UDP
/// checksum is only that of the pseudo header if hardware computes the rest.
#[inline]
pub(super) fn complete(frame: &mut [u8], (link, network): (u8, u8), hardware: bool) {
    let (link, udp) = (usize::from(link), usize::from(link) + usize::from(network));
    let udp_bytes = frame.len() - udp;
    let word = |frame: &[u8], at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let pseudo = if network == 20 {
        let total = (20 + udp_bytes) as u16;
        let lived = word(frame, link + 8);
        let lives = u16::from_be_bytes([TIME_TO_LIVE, frame[link + 9]]);
        let flags = word(frame, link + 6);
        let changes = [
            (word(frame, link + 2), total),
            (flags, 0x4000),
            (lived, lives),
        ];
        let checksum = updated(word(frame, link + 10), &changes);
        for (at, word) in [(2, total), (6, 0x4000), (8, lives), (10, checksum)] {
            frame[link + at..link + at + 2].copy_from_slice(&word.to_be_bytes());
        }
        u64::from(ones_complement_sum(&frame[link + 12..link + 20])) + 17 + udp_bytes as u64
    } else {
        frame[link + 4..link + 6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
        frame[link + 7] = TIME_TO_LIVE;
        u64::from(ones_complement_sum(&frame[link + 8..link + 40])) + 17 + udp_bytes as u64
    };
    let pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    let pseudo = ((pseudo & 0xffff) + (pseudo >> 16)) as u16;
    frame[udp + 4..udp + 6].copy_from_slice(&(udp_bytes as u16).to_be_bytes());
    frame[udp + 6..udp + 8].copy_from_slice(&[0; 2]);
    let checksum = match hardware {
        true => pseudo,
        false => udp_checksum(pseudo, &frame[udp..]),
    };
    frame[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
}
