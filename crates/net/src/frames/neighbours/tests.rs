//! Neighbour requests and replies between two stations.

use std::net::SocketAddr;

use super::*;
use crate::frames::checksum::pseudo_header_sum;
use crate::frames::testing::MemoryQueue;
use crate::frames::{FramePort, Local, NoHeader, ones_complement_sum};

const ANN: MacAddress = [2, 0, 0, 0, 0, 1];
const BOB: MacAddress = [2, 0, 0, 0, 0, 2];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ann() -> Neighbours {
    let own = [(ip("10.0.0.1"), 24), (ip("fd00::1"), 64)];
    Neighbours::new(ANN, &own, Some(ip("10.0.0.254")))
}

fn bob() -> Neighbours {
    Neighbours::new(BOB, &[(ip("10.0.0.2"), 24), (ip("fd00::2"), 64)], None)
}

/// Returns a station's answer to a frame.
fn receive(station: &mut Neighbours, frame: &[u8]) -> Option<Vec<u8>> {
    let mut buffer = [frame, &[0xee; 64]].concat();
    let bytes = station.receive(&mut buffer, frame.len())?;
    buffer.truncate(bytes);
    Some(buffer)
}

fn with_tag(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &[0x81, 0, 0, 7], &frame[12..]].concat()
}

#[test]
fn neighbours_answer_requests() {
    for (address, question_bytes) in [("10.0.0.2", 60), ("fd00::2", 86)] {
        let (mut ann, mut bob) = (ann(), bob());
        let (resolution, question) = ann.resolve(ip(address), 0);
        assert_eq!(resolution, Resolution::Asked);
        let question = question.unwrap();
        assert_eq!(question.len(), question_bytes);
        assert!(question[0] & 1 == 1 && question[6..12] == ANN);
        let answer = receive(&mut bob, &question).unwrap();
        assert_eq!((&answer[..6], &answer[6..12]), (&ANN[..], &BOB[..]));
        assert!(answer.len() <= question.len());
        assert_eq!(receive(&mut ann, &answer), None);
        assert_eq!(ann.resolve(ip(address), 10), (Resolution::Known(BOB), None));
        // Bob learns nothing, because he sent no request.
        assert!(bob.table.is_empty());
    }
}

#[test]
fn requests_repeat_and_answers_are_refreshed() {
    let (mut ann, mut bob) = (ann(), bob());
    let asks = |ann: &mut Neighbours, now_ms| ann.resolve(ip("10.0.0.2"), now_ms).1.is_some();
    let times = [5, 6, 1004, 1005, 1006, 2005];
    let asked = times.map(|now_ms| asks(&mut ann, now_ms));
    assert_eq!(asked, [true, false, false, true, false, true]);
    let (_, question) = ann.resolve(ip("10.0.0.2"), 3005);
    let answer = receive(&mut bob, &question.unwrap()).unwrap();
    receive(&mut ann, &answer);
    let asked = [4005, 8004, 8005, 8006].map(|now_ms| asks(&mut ann, now_ms));
    assert_eq!(asked, [false, false, true, false]);
    let (resolution, question) = ann.resolve(ip("10.0.0.2"), 9005);
    assert_eq!(resolution, Resolution::Known(BOB));
    assert!(question.is_some());
}

#[test]
fn unsolicited_answers_are_ignored() {
    for address in ["10.0.0.2", "fd00::2"] {
        let (mut ann, mut bob) = (ann(), bob());
        let (_, question) = ann.resolve(ip(address), 0);
        let answer = receive(&mut bob, &question.unwrap()).unwrap();
        let mut forged = Neighbours::new([2, 0, 0, 0, 0, 66], &bob.addresses, None);
        let (_, question) = Neighbours::new(ANN, &ann.addresses, None).resolve(ip(address), 0);
        let forged = receive(&mut forged, &question.unwrap()).unwrap();
        let mut stranger = Neighbours::new(ANN, &ann.addresses, None);
        receive(&mut stranger, &answer);
        assert!(stranger.table.is_empty());
        receive(&mut ann, &answer);
        receive(&mut ann, &forged);
        assert_eq!(ann.resolve(ip(address), 1), (Resolution::Known(BOB), None));
        // A reply from a VLAN of the link is not accepted either.
        ann.resolve(ip(address), REFRESH_MS);
        receive(&mut ann, &with_tag(&forged));
        assert_eq!(ann.resolve(ip(address), REFRESH_MS + 1).0, Resolution::Known(BOB));
    }
}

#[test]
fn requests_from_a_requested_neighbour_count_as_answers() {
    for (own, address) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
        let (mut ann, mut bob) = (ann(), bob());
        ann.resolve(ip(address), 0);
        let (_, question) = bob.resolve(ip(own), 0);
        assert!(receive(&mut ann, &question.unwrap()).is_some());
        assert_eq!(ann.resolve(ip(address), 1), (Resolution::Known(BOB), None));
    }
}

#[test]
fn requests_on_a_vlan_are_answered_there() {
    for address in ["10.0.0.2", "fd00::2"] {
        let (_, question) = ann().resolve(ip(address), 0);
        let question = question.unwrap();
        let plain = receive(&mut bob(), &question).unwrap();
        let tagged = receive(&mut bob(), &with_tag(&question)).unwrap();
        assert_eq!(tagged, with_tag(&plain));
    }
}

#[test]
fn foreign_and_broken_requests_are_ignored() {
    for address in ["10.0.0.2", "fd00::2"] {
        let (_, question) = ann().resolve(ip(address), 0);
        let mut question = question.unwrap().to_vec();
        for bytes in 0..question.len() {
            let answer = receive(&mut bob(), &question[..bytes]);
            // ARP packets are shorter than their frames.
            assert!(answer.is_none() || (address == "10.0.0.2" && bytes >= 42));
        }
        let other = Neighbours::new(BOB, &[(ip("10.0.0.3"), 24), (ip("fd00::3"), 64)], None);
        assert_eq!(receive(&mut { other }, &question), None);
        // The requester is a group, or has the station's own address.
        question[6] |= 1;
        assert_eq!(receive(&mut bob(), &question), None);
        question[6..12].copy_from_slice(&BOB);
        assert_eq!(receive(&mut bob(), &question), None);
    }
    let (_, question) = ann().resolve(ip("fd00::2"), 0);
    let question = question.unwrap();
    for at in 14..question.len() {
        // No checksum covers the traffic class and the flow.
        if (15..18).contains(&at) {
            continue;
        }
        let mut broken = question.clone();
        broken[at] ^= 0x10;
        assert_eq!(receive(&mut bob(), &broken), None, "{at}");
    }
}

#[test]
fn duplicate_address_detection_is_answered() {
    let mut question = [0; 86];
    let own = "fd00::2".parse().unwrap();
    let unspecified = std::net::Ipv6Addr::UNSPECIFIED;
    question[6..12].copy_from_slice(&ANN);
    let IpAddr::V6(group) = ip("ff02::1:ff00:2") else { unreachable!() };
    icmp::write_message(
        &mut question,
        (unspecified, group, [0x33, 0x33, 0xff, 0, 0, 2]),
        (135, 0, own),
        (14, [1, 2, 3, 4, 5, 6]),
    );
    let answer = receive(&mut bob(), &question).unwrap();
    assert_eq!(answer[..12], [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    assert_eq!(ip("ff02::1"), IpAddr::from(<[u8; 16]>::try_from(&answer[38..54]).unwrap()));
    // The answer is not marked as solicited.
    assert_eq!(answer[58] & 0x40, 0);
    // Duplicate address detection never carries a link address.
    icmp::write_message(
        &mut question,
        (unspecified, group, [0x33, 0x33, 0xff, 0, 0, 2]),
        (135, 0, own),
        (1, ANN),
    );
    assert_eq!(receive(&mut bob(), &question), None);
}

#[test]
fn addresses_outside_of_the_prefixes_use_the_gateway() {
    let mut ann = ann();
    let (resolution, question) = ann.resolve(ip("192.0.2.1"), 0);
    assert_eq!(resolution, Resolution::Asked);
    assert_eq!(question.unwrap()[38..42], [10, 0, 0, 254]);
    // The same request serves other destinations there.
    let others = ann.resolve(ip("192.0.2.77"), 1);
    assert_eq!(others, (Resolution::Asked, None));
    for unreachable in ["fd01::1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::1"] {
        assert_eq!(ann.resolve(ip(unreachable), 0), (Resolution::Unknown, None));
    }
    // Own addresses are never resolved.
    assert_eq!(ann.resolve(ip("10.0.0.1"), 0).0, Resolution::Unknown);
    assert_eq!(bob().resolve(ip("192.0.2.1"), 0).0, Resolution::Unknown);
    assert_eq!(ann.resolve(ip("fe80::7"), 0).0, Resolution::Asked);
}

#[test]
fn the_table_is_bounded_and_replaces_the_oldest_request() {
    let mut station = Neighbours::new(ANN, &[(ip("10.0.0.1"), 8)], None);
    let room = station.table.capacity();
    let peer = |number: usize| IpAddr::from([10, 1, (number >> 8) as u8, number as u8]);
    for number in 0..NEIGHBOURS_MAX + 3 {
        assert!(station.resolve(peer(number), number as u64).1.is_some());
    }
    assert_eq!((station.table.len(), station.table.capacity()), (NEIGHBOURS_MAX, room));
    let now_ms = NEIGHBOURS_MAX as u64 + 3;
    assert!(station.resolve(peer(3), now_ms).1.is_none());
    assert!(station.resolve(peer(2), now_ms).1.is_some());
}

#[test]
fn prefixes_of_every_length() {
    for (address, other, prefix, within) in [
        ("10.0.0.9", "10.0.0.1", 24, true),
        ("10.0.1.9", "10.0.0.1", 24, false),
        ("10.0.0.1", "10.0.0.1", 32, true),
        ("10.0.0.0", "10.0.0.1", 32, false),
        ("200.0.0.1", "10.0.0.1", 0, true),
        ("fd00::1", "fd00::ffff", 112, true),
        ("fd00::1:1", "fd00::ffff", 112, false),
        ("::1", "0.0.0.1", 0, false),
    ] {
        assert_eq!(is_within(ip(address), (ip(other), prefix)), within, "{address} {other}");
    }
}

/// Builds a station's echo request.
fn ping(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (ether, mut ip_header, kind) = match (ip(from), ip(to)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = (28 + payload.len()) as u16;
            let mut header = vec![0x45, 0, 0, 0, 0, 9, 0, 0, 3, 1, 0, 0];
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header.extend([from.octets(), to.octets()].concat());
            icmp::write_checksum(&mut header, 10, 0);
            ([8, 0], header, 8)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, 58, 3];
            header[4..6].copy_from_slice(&(8 + payload.len() as u16).to_be_bytes());
            header.extend([from.octets(), to.octets()].concat());
            ([0x86, 0xdd], header, 128)
        }
        _ => unreachable!(),
    };
    let mut message = vec![kind, 0, 0, 0, 1, 2, 3, 4];
    message.extend(payload);
    let pseudo = match kind {
        128 => pseudo_header_sum((ip(from), ip(to)), 58, message.len()),
        _ => 0,
    };
    icmp::write_checksum(&mut message, 2, pseudo);
    let mut frame = [&BOB[..], &ANN, &ether].concat();
    frame.append(&mut ip_header);
    frame.append(&mut message);
    frame
}

#[test]
fn echo_requests_are_answered() {
    for (own, to, wire) in [("10.0.0.1", "10.0.0.2", 34), ("fd00::1", "fd00::2", 54)] {
        for payload in [&b""[..], b"odd", &[7; 1400]] {
            let request = ping(own, to, payload);
            let answer = receive(&mut bob(), &request).unwrap();
            // Except for type, time to live and checksums, it equals Bob's own request to Ann.
            let mut expected = ping(to, own, payload);
            expected[..12].copy_from_slice(&[ANN, BOB].concat());
            let (kind, hops, sums) = match wire {
                34 => (0, 22, [24..26, 36..38]),
                _ => (129, 21, [56..58, 58..58]),
            };
            (expected[wire], expected[hops]) = (kind, 64);
            for sum in sums {
                expected[sum.clone()].copy_from_slice(&answer[sum]);
            }
            assert_eq!(answer, expected);
            assert_eq!(message_sum(&answer, wire), 0xffff);
        }
    }
}

/// Sums an echo: all ones if its checksums are valid.
fn message_sum(frame: &[u8], wire: usize) -> u16 {
    match wire {
        34 => {
            let found = packet(&frame[14..], 0x0800).ok().unwrap();
            ones_complement_sum(found.body)
        }
        _ => {
            let found = packet(&frame[14..], 0x86dd).ok().unwrap();
            icmp::message_sum(found.addresses(), found.body)
        }
    }
}

#[test]
fn foreign_multicast_and_broken_echo_requests_are_ignored() {
    for (from, to) in [
        ("10.0.0.1", "10.0.0.3"),
        ("10.0.0.1", "10.0.0.255"),
        ("224.0.0.1", "10.0.0.2"),
        ("127.0.0.1", "10.0.0.2"),
        ("10.0.0.2", "10.0.0.2"),
        ("fd00::1", "ff02::1"),
        ("ff02::1", "fd00::2"),
        ("::1", "fd00::2"),
    ] {
        assert_eq!(receive(&mut bob(), &ping(from, to, b"payload")), None);
    }
    for (from, to, wire) in [("10.0.0.1", "10.0.0.2", 34), ("fd00::1", "fd00::2", 54)] {
        let request = ping(from, to, b"payload");
        for at in [wire, wire + 1, wire + 2, wire + 9] {
            let mut broken = request.clone();
            broken[at] ^= 1;
            assert_eq!(receive(&mut bob(), &broken), None);
        }
        for bytes in 0..request.len() {
            assert_eq!(receive(&mut bob(), &request[..bytes]), None);
        }
    }
}

fn port(neighbours: Neighbours) -> FramePort<MemoryQueue> {
    let addresses = neighbours.addresses.iter().map(|(own, _)| *own).collect();
    let local = Local { addresses, ports: 11300..=11301 };
    FramePort::new(MemoryQueue::new(40, 4096, 64), local, 1472).with_neighbours(neighbours)
}

#[test]
fn ports_resolve_neighbours_for_headers() {
    for address in ["10.0.0.2:11300", "[fd00::2]:11300"] {
        let to: SocketAddr = address.parse().unwrap();
        let (mut client, mut server) = (port(ann()), port(bob()));
        assert_eq!(client.header_to(11301, to, 0), Err(NoHeader::Asked));
        server.queue_mut().arriving.extend(client.queue_mut().sent.drain(..));
        assert_eq!(server.recv().unwrap(), 0);
        assert_eq!(server.counters().neighbour_answers, 1);
        client.queue_mut().arriving.extend(server.queue_mut().sent.drain(..));
        assert_eq!(client.recv().unwrap(), 0);
        let header = client.header_to(11301, to, 5).unwrap();
        assert_eq!(header.as_bytes()[..12], [BOB, ANN].concat());
        assert!(client.queue().sent.is_empty());
        for port in [&mut client, &mut server] {
            port.recv().unwrap();
            assert_eq!(port.queue().free_buffers(), 40);
        }
    }
}

#[test]
fn answers_per_burst_are_limited() {
    let (_, question) = ann().resolve(ip("10.0.0.2"), 0);
    let question = question.unwrap().to_vec();
    let mut server = port(bob());
    server.queue_mut().arriving.extend(vec![question; 30]);
    assert_eq!(server.recv().unwrap(), 0);
    assert_eq!(server.queue().sent.len(), crate::limits::NEIGHBOUR_ANSWERS_MAX);
    assert_eq!(server.recv().unwrap(), 0);
    assert_eq!(server.queue().free_buffers(), 40);
}

#[test]
fn ports_without_neighbours_answer_nothing() {
    let (_, question) = ann().resolve(ip("10.0.0.2"), 0);
    let local = Local { addresses: vec![ip("10.0.0.2")], ports: 11300..=11300 };
    let mut port = FramePort::new(MemoryQueue::new(4, 4096, 64), local, 1472);
    port.queue_mut().arriving.push_back(question.unwrap().to_vec());
    assert_eq!(port.recv().unwrap(), 0);
    assert_eq!((port.queue().sent.len(), port.counters().not_ours), (0, 1));
    let to = "10.0.0.1:1".parse().unwrap();
    assert_eq!(port.header_to(11300, to, 0), Err(NoHeader::NoWay));
}
