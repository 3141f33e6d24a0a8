//! A slow and plain model of the program.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use micanite_engine::Operation;
use micanite_wire::memcache::text::{Command, Parser, Step};
use micanite_wire::memcache::udp::Frame;

use super::fixture::{Fixture, Style, checksum, datagram_in};

/// Longest key of the protocol, and maximum number of words in a line.
const KEY_BYTES_MAX: usize = 250;
const WORDS_MAX: usize = 64;
const REPLY_BYTES_MAX: usize = 1400;
const PAYLOAD_BYTES_MAX: usize = 1472;
const MTU: usize = 1500;

/// Returns the complete reply to a frame; `None` if it is passed on. `given`: keys whose CAS value
/// is known to clients.
pub fn reply(fixture: &mut Fixture, given: &HashSet<Vec<u8>>, frame: &[u8]) -> Option<Vec<u8>> {
    let (macs, rest) = frame.split_at_checked(12)?;
    // Only unicast frames are answered.
    if macs[0] & 1 == 1 || macs[6] & 1 == 1 {
        return None;
    }
    let (tag, rest) = match rest {
        [0x81, 0, high, _, ..] if high & 15 != 0 => return None,
        [0x81, 0, _, low, ..] if *low != 0 => return None,
        [0x81, 0, ..] => rest.split_at_checked(4)?,
        _ => (&[][..], rest),
    };
    let (from, to, udp) = match rest {
        [8, 0, ip @ ..] => ipv4(ip)?,
        [0x86, 0xdd, ip @ ..] => ipv6(ip)?,
        _ => return None,
    };
    let ([s0, s1, d0, d1, _, _, c0, c1], payload) = udp.split_first_chunk()?;
    let [source, destination] = [[*s0, *s1], [*d0, *d1]].map(u16::from_be_bytes);
    if destination != 11211 || source < 1024 || source == destination {
        return None;
    }
    let allowed = match from {
        IpAddr::V4(from) => from.octets()[0] == 10,
        IpAddr::V6(from) => matches!(from.octets()[0], 0 | 0xfd),
    };
    let own = [Fixture::OWN_V4, Fixture::OWN_V6].map(|ip| ip.parse::<IpAddr>().unwrap());
    // Packets from the server's own addresses go to the stack.
    if !allowed || !own.contains(&to) || own.contains(&from) {
        return None;
    }
    match [*c0, *c1] {
        [0, 0] if from.is_ipv6() => return None,
        [0, 0] => {}
        _ if checksum(&[&pseudo(from, to, udp.len()), udp].concat()) != 0 => return None,
        _ => {}
    }
    let headers = if from.is_ipv4() { 28 } else { 48 };
    let payload = answer(fixture, given, payload, REPLY_BYTES_MAX.min(MTU - headers))?;
    let [from, to] = [SocketAddr::new(from, source), SocketAddr::new(to, destination)];
    // IPv6 has no identification, so these bytes do not matter there.
    let mut reply = datagram_in(Style::reply([rest[6], rest[7]]), to, from, &payload);
    let (own_mac, client_mac) = macs.split_at(6);
    reply.splice(0..12, [client_mac, own_mac].concat());
    reply.splice(12..12, tag.iter().copied());
    Some(reply)
}

/// Returns source, destination and datagram of a packet that the stack accepts.
fn ipv4(ip: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, rest) = ip.split_first_chunk::<20>()?;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let address = |at: usize| <[u8; 4]>::try_from(&header[at..at + 4]).unwrap();
    let impossible = matches!(header[12], 0 | 127 | 224..);
    if header[0] != 0x45 || header[9] != 17 || fragment != 0 || impossible || checksum(header) != 0 {
        return None;
    }
    let udp = exactly(rest, total.checked_sub(20)?)?;
    Some((address(12).into(), address(16).into(), udp))
}

fn ipv6(ip: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, rest) = ip.split_first_chunk::<40>()?;
    let bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).unwrap();
    let from = Ipv6Addr::from(address(8));
    let impossible = from.is_multicast() || from.octets()[..8] == [0; 8];
    if header[0] >> 4 != 6 || header[6] != 17 || impossible {
        return None;
    }
    Some((from.into(), address(24).into(), exactly(rest, bytes)?))
}

/// Returns the datagram if it fills the packet exactly.
fn exactly(rest: &[u8], bytes: usize) -> Option<&[u8]> {
    let udp = rest.get(..bytes)?;
    let length = udp.get(4..6)?;
    (usize::from(u16::from_be_bytes([length[0], length[1]])) == bytes).then_some(udp)
}

fn pseudo(from: IpAddr, to: IpAddr, udp_bytes: usize) -> Vec<u8> {
    let octets = |ip| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let length = (udp_bytes as u16).to_be_bytes();
    [octets(from), octets(to), vec![0, 17, length[0], length[1]]].concat()
}

/// Returns the reply to a payload.
fn answer(
    fixture: &mut Fixture,
    given: &HashSet<Vec<u8>>,
    payload: &[u8],
    bytes_max: usize,
) -> Option<Vec<u8>> {
    if payload.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let (frame, line) = Frame::of_request(payload).ok()?;
    let step = Parser::default().step(line, false);
    let Step::Command { command: Command::Get { keys, cas }, line_bytes } = step else {
        return None;
    };
    // A single line, whose words are separated only by spaces.
    let words = line.split(|byte| *byte == b' ').count() - 1;
    let letters = line.trim_ascii_end();
    if line_bytes != line.len() || words > WORDS_MAX || letters.iter().any(|byte| *byte < b' ') {
        return None;
    }
    let end = line.strip_suffix(b"\n")?;
    let end = end.strip_suffix(b"\r").unwrap_or(end);
    if end.iter().any(|byte| *byte < b' ') {
        return None;
    }
    let reply = Frame { request_id: frame.request_id, sequence: 0, total: 1 };
    let mut reply = reply.to_bytes().to_vec();
    for key in keys {
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        let Some((meta, value)) = fixture.execute(key, Operation::Get { cas: false }) else {
            continue;
        };
        let key_text = [b"VALUE ", key].concat();
        reply.extend(key_text);
        reply.extend(format!(" {} {}", meta.flags, value.len()).into_bytes());
        if cas {
            if !given.contains(key) {
                return None;
            }
            let (meta, _) = fixture.execute(key, Operation::Get { cas })?;
            reply.extend(format!(" {}", meta.cas).into_bytes());
        }
        reply.extend(b"\r\n");
        reply.extend(value);
        reply.extend(b"\r\n");
    }
    reply.extend(b"END\r\n");
    (reply.len() <= bytes_max).then_some(reply)
}
