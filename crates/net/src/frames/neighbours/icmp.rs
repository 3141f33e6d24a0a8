//! Neighbours of IPv6 (RFC 4861), and echo requests of both families (RFC 792, RFC 4443).

use std::net::{IpAddr, Ipv6Addr};

use super::super::checksum::{ones_complement_sum, pseudo_header_sum};
use super::super::parse::{Packet, is_answerable, packet};
use super::{ICMPV6, MacAddress, Neighbours, Question};

const TIME_TO_LIVE: u8 = 64;
/// Hop limit of a packet that has crossed no router.
const HOPS_ON_LINK: u8 = 255;
const IPV6_BYTES: usize = 40;

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;
/// Length without options: type, code, checksum, flags, target address.
const NEIGHBOUR_BYTES: usize = 24;
/// Options: link address of the sender, link address of the target.
const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const LINK_OPTION_BYTES: usize = 8;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Builds a request for the station of an address, to the group of that address.
pub(super) fn question(mac: MacAddress, source: Ipv6Addr, hop: Ipv6Addr) -> Question {
    let mut frame: Question = [0; 86].into();
    let group = solicited_node(hop);
    frame[6..12].copy_from_slice(&mac);
    write_message(
        &mut frame,
        (source, group, group_station(group)),
        (SOLICITATION, 0, hop),
        (SOURCE_LINK, mac),
    );
    frame
}

/// Returns the group that the owner of an address listens to.
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let (high, low) = (0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low)
}

fn group_station(group: Ipv6Addr) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    [0x33, 0x33, a, b, c, d]
}

/// Fills a frame with a neighbour discovery message with one option, after any VLAN tag in it. The
/// frame ends with the message.
pub(super) fn write_message(
    frame: &mut [u8],
    (source, destination, station): (Ipv6Addr, Ipv6Addr, MacAddress),
    (kind, flags, about): (u8, u8, Ipv6Addr),
    (option, mac): (u8, MacAddress),
) {
    const BYTES: usize = NEIGHBOUR_BYTES + LINK_OPTION_BYTES;
    let link = frame.len() - IPV6_BYTES - BYTES;
    frame[..6].copy_from_slice(&station);
    frame[link - 2..link].copy_from_slice(&0x86ddu16.to_be_bytes());
    let (ip, message) = frame[link..].split_at_mut(IPV6_BYTES);
    ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, BYTES as u8, ICMPV6, HOPS_ON_LINK]);
    ip[8..24].copy_from_slice(&source.octets());
    ip[24..].copy_from_slice(&destination.octets());
    message[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    message[8..24].copy_from_slice(&about.octets());
    message[24..26].copy_from_slice(&[option, 1]);
    message[26..].copy_from_slice(&mac);
    let checksum = !message_sum((source.into(), destination.into()), message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Sums a message: all ones if its checksum is valid.
pub(super) fn message_sum(addresses: (IpAddr, IpAddr), message: &[u8]) -> u16 {
    let pseudo = pseudo_header_sum(addresses, ICMPV6, message.len());
    let sum = u32::from(pseudo) + u32::from(ones_complement_sum(message));
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Answers an IPv4 echo request, as in [`Neighbours::receive`].
pub(super) fn echo_v4(
    neighbours: &Neighbours,
    buffer: &mut [u8],
    (link, bytes): (usize, usize),
) -> Option<usize> {
    let packet = packet(&buffer[link..bytes], 0x0800).ok()?;
    let is_request = packet.body.len() >= 8
        && packet.body[..2] == [ECHO_REQUEST_V4, 0]
        && ones_complement_sum(packet.body) == 0xffff;
    if !is_request || !is_for_us(neighbours, &packet) {
        return None;
    }
    let (ip_bytes, end) = (packet.header.len(), link + packet.header.len() + packet.body.len());
    let (ip, message) = buffer[link..end].split_at_mut(ip_bytes);
    let (source, destination) = ip[12..20].split_at_mut(4);
    source.swap_with_slice(destination);
    ip[8] = TIME_TO_LIVE;
    write_checksum(ip, 10, 0);
    message[0] = ECHO_REPLY_V4;
    write_checksum(message, 2, 0);
    Some(to_sender(neighbours, buffer, end))
}

/// Handles an ICMPv6 packet, as in [`Neighbours::receive`].
pub(super) fn receive_v6(
    neighbours: &mut Neighbours,
    buffer: &mut [u8],
    (link, bytes): (usize, usize),
) -> Option<usize> {
    let packet = packet(&buffer[link..bytes], 0x86dd).ok()?;
    if packet.body.len() < 8 || message_sum(packet.addresses(), packet.body) != 0xffff {
        return None;
    }
    let is_on_link = packet.hops() == HOPS_ON_LINK && packet.body.len() >= NEIGHBOUR_BYTES;
    match [packet.body[0], packet.body[1]] {
        [ECHO_REQUEST_V6, 0] if is_for_us(neighbours, &packet) => {
            let (addresses, body_bytes) = (packet.addresses(), packet.body.len());
            Some(echo_v6(neighbours, buffer, link, addresses, body_bytes))
        }
        [SOLICITATION, 0] if is_on_link => {
            let (own, to) = solicited(neighbours, &packet, link == 14)?;
            advertise(neighbours, buffer, link, own, to)
        }
        [ADVERTISEMENT, 0] if is_on_link && link == 14 => {
            learn_advertised(neighbours, &packet);
            None
        }
        _ => None,
    }
}

fn echo_v6(
    neighbours: &Neighbours,
    buffer: &mut [u8],
    link: usize,
    addresses: (IpAddr, IpAddr),
    body_bytes: usize,
) -> usize {
    let end = link + IPV6_BYTES + body_bytes;
    let (ip, message) = buffer[link..end].split_at_mut(IPV6_BYTES);
    let (source, destination) = ip[8..40].split_at_mut(16);
    source.swap_with_slice(destination);
    ip[7] = TIME_TO_LIVE;
    message[0] = ECHO_REPLY_V6;
    let pseudo = pseudo_header_sum(addresses, ICMPV6, message.len());
    write_checksum(message, 2, pseudo);
    to_sender(neighbours, buffer, end)
}

fn is_for_us(neighbours: &Neighbours, packet: &Packet<'_>) -> bool {
    let (source, destination) = packet.addresses();
    neighbours.is_own(destination) && is_answerable(source) && !neighbours.is_own(source)
}

/// Returns the requested address, if it is an own one, and the requester; `None` for the latter
/// during its duplicate address detection.
fn solicited(
    neighbours: &mut Neighbours,
    packet: &Packet<'_>,
    may_learn: bool,
) -> Option<(Ipv6Addr, Option<Ipv6Addr>)> {
    let own = about(packet.body)?;
    let (IpAddr::V6(source), IpAddr::V6(destination)) = packet.addresses() else {
        return None;
    };
    let is_to_group = destination == solicited_node(own);
    if !neighbours.is_own(own.into()) || !(is_to_group || destination == own) {
        return None;
    }
    let station = link_option(packet.body, SOURCE_LINK)?;
    if source.is_unspecified() {
        return (is_to_group && station.is_none()).then_some((own, None));
    }
    if !is_answerable(source.into()) || neighbours.is_own(source.into()) {
        return None;
    }
    if let (Some(mac), true) = (station, may_learn) {
        neighbours.learn(source.into(), mac);
    }
    Some((own, Some(source)))
}

/// Replaces a solicitation by the advertisement of an own address.
fn advertise(
    neighbours: &Neighbours,
    buffer: &mut [u8],
    link: usize,
    own: Ipv6Addr,
    to: Option<Ipv6Addr>,
) -> Option<usize> {
    let bytes = link + IPV6_BYTES + NEIGHBOUR_BYTES + LINK_OPTION_BYTES;
    let frame = buffer.get_mut(..bytes)?;
    let mut station = MacAddress::default();
    station.copy_from_slice(&frame[6..12]);
    frame[6..12].copy_from_slice(&neighbours.mac);
    let (destination, station, flags) = match to {
        Some(to) => (to, station, SOLICITED | OVERRIDE),
        None => (ALL_NODES, group_station(ALL_NODES), OVERRIDE),
    };
    write_message(
        frame,
        (own, destination, station),
        (ADVERTISEMENT, flags, own),
        (TARGET_LINK, neighbours.mac),
    );
    Some(bytes)
}

fn learn_advertised(neighbours: &mut Neighbours, packet: &Packet<'_>) {
    let is_answer = packet.body[4] & SOLICITED != 0 && neighbours.is_own(packet.addresses().1);
    if let (true, Some(address), Some(Some(mac))) =
        (is_answer, about(packet.body), link_option(packet.body, TARGET_LINK))
    {
        neighbours.learn(address.into(), mac);
    }
}

fn about(message: &[u8]) -> Option<Ipv6Addr> {
    let octets: [u8; 16] = message.get(8..24)?.try_into().ok()?;
    Some(Ipv6Addr::from(octets))
}

/// Finds the link address of one kind among the options of a message. The outer `None` means that
/// the options are malformed.
fn link_option(message: &[u8], kind: u8) -> Option<Option<MacAddress>> {
    let (mut options, mut found) = (&message[NEIGHBOUR_BYTES..], None);
    while !options.is_empty() {
        let bytes = 8 * usize::from(*options.get(1)?);
        if bytes == 0 {
            return None;
        }
        let (option, behind) = options.split_at_checked(bytes)?;
        if option[0] == kind && bytes == LINK_OPTION_BYTES {
            found = option[2..].try_into().ok();
        }
        options = behind;
    }
    Some(found)
}

/// Addresses the frame in `buffer[..bytes]` to the station that sent it.
fn to_sender(neighbours: &Neighbours, buffer: &mut [u8], bytes: usize) -> usize {
    buffer.copy_within(6..12, 0);
    buffer[6..12].copy_from_slice(&neighbours.mac);
    bytes
}

/// Writes the checksum of a part into it, at `at`. `besides` is the sum of further data that the
/// checksum covers.
pub(super) fn write_checksum(part: &mut [u8], at: usize, besides: u16) {
    part[at..at + 2].fill(0);
    let sum = u32::from(ones_complement_sum(part)) + u32::from(besides);
    let checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
    part[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
