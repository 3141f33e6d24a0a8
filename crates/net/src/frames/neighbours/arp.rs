//! Neighbours of IPv4 (RFC 826).

use std::net::{IpAddr, Ipv4Addr};

use super::{ARP, MacAddress, Neighbours, Question};

/// Ethernet and IPv4, with addresses of 6 and 4 bytes.
const FORM: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];
const REPLY: [u8; 2] = [0, 2];
const PACKET_BYTES: usize = 28;
/// Shortest frame, without its checksum.
const FRAME_BYTES_MIN: usize = 60;

/// Builds a broadcast request for the station of an address.
pub(super) fn question(mac: MacAddress, source: Ipv4Addr, hop: Ipv4Addr) -> Question {
    let mut frame = Question::new();
    let source = source.octets();
    let parts: [&[u8]; 9] =
        [&[0xff; 6], &mac, &ARP.to_be_bytes(), &FORM, &REQUEST, &mac, &source, &[0; 6], &hop.octets()];
    frame.extend(parts.into_iter().flatten().copied());
    frame.extend([0; FRAME_BYTES_MIN - 14 - PACKET_BYTES]);
    frame
}

/// Handles an ARP packet, as in [`Neighbours::receive`]. `link` is the length of the link's
/// headers.
pub(super) fn receive(
    neighbours: &mut Neighbours,
    buffer: &mut [u8],
    (link, bytes): (usize, usize),
) -> Option<usize> {
    let frame = &mut buffer[..bytes];
    let packet = frame[link..].first_chunk::<PACKET_BYTES>()?;
    let address = |at: usize| {
        let [a, b, c, d] = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    let (sender, target) = (address(14), address(24));
    let mac: MacAddress = packet[8..14].try_into().ok()?;
    if packet[..6] != FORM || !neighbours.is_own(target) || neighbours.is_own(sender) {
        return None;
    }
    let kind = [packet[6], packet[7]];
    // A reply from a VLAN does not answer a request on the link itself.
    if link == 14 && (kind == REPLY || kind == REQUEST) {
        neighbours.learn(sender, mac);
    }
    if kind != REQUEST {
        return None;
    }
    frame.copy_within(6..12, 0);
    frame[6..12].copy_from_slice(&neighbours.mac);
    let packet = &mut frame[link..];
    // The reply's target is the request's sender, and vice versa.
    packet.copy_within(8..18, 18);
    packet[6..8].copy_from_slice(&REPLY);
    packet[8..14].copy_from_slice(&neighbours.mac);
    if let IpAddr::V4(target) = target {
        packet[14..18].copy_from_slice(&target.octets());
    }
    Some(bytes.min(link - 14 + FRAME_BYTES_MIN))
}
