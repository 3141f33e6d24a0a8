//! A slow and clear version of the parser, and frames built byte by byte, for tests and fuzz
//! targets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Found, ReceiveChecksums};

/// Fields to correct in a frame that was built or edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Corrections {
    Nothing,
    /// The checksums of IPv4 and UDP.
    Sums,
    /// The lengths, then the checksums.
    Lengths,
    /// Only the pseudo header's sum in UDP's checksum.
    PartialSum,
}

#[cfg(test)]
/// Builds a datagram between two addresses. `tags` stand between the Ethernet addresses and the
/// EtherType.
pub(super) fn datagram(from: &str, to: &str, tags: &[u8], payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    frame.extend(tags);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend([8, 0, 0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64]);
            frame.extend([from.octets(), to.octets()].concat());
        }
        _ => unreachable!("of one family"),
    }
    frame.extend(from.port().to_be_bytes());
    frame.extend(to.port().to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(payload);
    // The parser under test need not find an IP packet behind tags, so compute its offset here.
    let link = 14 + tags.len();
    correct_packet(&mut frame[link..], Corrections::Lengths);
    frame
}

/// Corrects a frame, as far as it has the form of a datagram.
pub(super) fn correct(frame: &mut [u8], corrections: Corrections) {
    let mut link = 14;
    while frame.len() >= link && is_tag(&frame[link - 2..link]) {
        link += 4;
    }
    if frame.len() > link {
        correct_packet(&mut frame[link..], corrections);
    }
}

fn is_tag(kind: &[u8]) -> bool {
    kind == [0x81, 0] || kind == [0x88, 0xa8]
}

fn correct_packet(packet: &mut [u8], corrections: Corrections) {
    let (is_v6, header_bytes) = match packet[0] >> 4 {
        6 => (true, 40),
        _ => (false, 20),
    };
    if corrections == Corrections::Nothing || packet.len() < header_bytes + 8 {
        return;
    }
    let (header, datagram) = packet.split_at_mut(header_bytes);
    if corrections == Corrections::Lengths {
        let udp_bytes = (datagram.len() as u16).to_be_bytes();
        let total = (20 + datagram.len() as u16).to_be_bytes();
        match is_v6 {
            true => header[4..6].copy_from_slice(&udp_bytes),
            false => header[2..4].copy_from_slice(&total),
        }
        datagram[4..6].copy_from_slice(&udp_bytes);
    }
    if !is_v6 {
        header[10..12].fill(0);
        let sum = !sum(&[header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    // Bytes after the datagram are padding, unless the length includes them.
    let bytes = usize::from(u16::from_be_bytes([datagram[4], datagram[5]]));
    let bytes = bytes.clamp(8, datagram.len());
    let datagram = &mut datagram[..bytes];
    datagram[6..8].fill(0);
    let pseudo = pseudo_header(header, bytes);
    let sum = match corrections {
        Corrections::PartialSum => sum(&[&pseudo]),
        _ => match !sum(&[&pseudo, datagram]) {
            0 => 0xffff,
            sum => sum,
        },
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
}

fn pseudo_header(ip_header: &[u8], bytes: usize) -> Vec<u8> {
    let addresses = match ip_header.len() {
        20 => &ip_header[12..20],
        _ => &ip_header[8..40],
    };
    [addresses, &[0, 17], &(bytes as u32).to_be_bytes()].concat()
}

/// Computes the sum of RFC 1071 over consecutive parts. Each but the last has an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for pair in parts.concat().chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    sum as u16
}

/// Reads from the front of the remaining bytes.
struct Reader<'f> {
    rest: &'f [u8],
}

impl<'f> Reader<'f> {
    fn take(&mut self, bytes: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        let taken = self.take(bytes)?;
        Some(taken.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }
}

/// Returns the expected result of [`super::parse`].
pub(super) fn parse(frame: &[u8], checksums: ReceiveChecksums) -> Option<Found> {
    let mut reader = Reader { rest: frame };
    let (to_station, from_station) = (reader.take(6)?, reader.take(6)?);
    let mut kind = reader.take(2)?;
    if is_tag(kind) {
        reader.take(2)?;
        kind = reader.take(2)?;
    }
    let link_bytes = frame.len() - reader.rest.len();
    let packet = reader.rest;
    let (source, destination, datagram): (IpAddr, IpAddr, &[u8]) = match kind {
        [0x08, 0x00] => {
            let (first, _, total) = (reader.number(1)?, reader.number(1)?, reader.number(2)?);
            let (_, fragment) = (reader.number(2)?, reader.number(2)?);
            let (_, protocol, _) = (reader.number(1)?, reader.number(1)?, reader.number(2)?);
            let from: [u8; 4] = reader.take(4)?.try_into().ok()?;
            let to: [u8; 4] = reader.take(4)?.try_into().ok()?;
            let may_be_fragmented_or_not = [0x0000, 0x4000, 0x8000, 0xc000];
            if first != 0x45 || protocol != 17 || !may_be_fragmented_or_not.contains(&fragment) {
                return None;
            }
            if sum(&[&packet[..20]]) != 0xffff {
                return None;
            }
            let impossible = from[0] == 0 || from[0] == 127 || from[0] >> 4 == 14 || from == [255; 4];
            if impossible {
                return None;
            }
            let body = reader.take(total.checked_sub(20)?)?;
            (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into(), body)
        }
        [0x86, 0xdd] => {
            let first = reader.number(4)?;
            let (bytes, next, _) = (reader.number(2)?, reader.number(1)?, reader.number(1)?);
            let from: [u8; 16] = reader.take(16)?.try_into().ok()?;
            let to: [u8; 16] = reader.take(16)?.try_into().ok()?;
            if first >> 28 != 6 || next != 17 || from[0] == 0xff || from[..8] == [0; 8] {
                return None;
            }
            let body = reader.take(bytes)?;
            (Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into(), body)
        }
        _ => return None,
    };
    let mut reader = Reader { rest: datagram };
    let (from_port, port) = (reader.number(2)?, reader.number(2)?);
    let (bytes, checksum) = (reader.number(2)?, reader.number(2)?);
    let is_between_stations = (to_station[0] | from_station[0]) & 1 == 0;
    if bytes != datagram.len() || from_port == 0 || !is_between_stations {
        return None;
    }
    let ip_bytes = if source.is_ipv4() { 20 } else { 40 };
    let pseudo = pseudo_header(&packet[..ip_bytes], bytes);
    let is_right = match (checksums, checksum) {
        (ReceiveChecksums::Verified, _) => true,
        (_, 0) => source.is_ipv4(),
        (ReceiveChecksums::UnverifiedOrPartial, sent) if sent == usize::from(sum(&[&pseudo])) => true,
        _ => sum(&[&pseudo, datagram]) == 0xffff,
    };
    is_right.then(|| Found {
        source: SocketAddr::new(source, from_port as u16),
        destination: SocketAddr::new(destination, port as u16),
        link_bytes: link_bytes as u8,
        payload_start: (link_bytes + ip_bytes + 8) as u8,
        payload_bytes: reader.rest.len() as u16,
    })
}
