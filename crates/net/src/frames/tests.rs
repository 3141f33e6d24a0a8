//! Frames in, frames out, over a queue in memory.

use std::net::SocketAddr;

use super::testing::MemoryQueue;
use super::*;

const CLIENT: MacAddress = [2, 0, 0, 0, 0, 1];
const SERVER: MacAddress = [2, 0, 0, 0, 0, 2];
const PAIRS: [(&str, &str, Option<u16>); 4] = [
    ("10.0.0.1:4000", "10.0.0.2:11300", None),
    ("10.0.0.1:4000", "10.0.0.2:11300", Some(7)),
    ("[fd00::1]:4000", "[fd00::2]:11300", None),
    ("[fd00::1]:4000", "[fd00::2]:11300", Some(4094)),
];

fn local() -> Local {
    Local { addresses: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()], ports: 11300..=11303 }
}

/// Builds a frame with a datagram, as another port would send it.
fn frame((from, to, vlan): (&str, &str, Option<u16>), payload: &[u8]) -> Vec<u8> {
    let mut port = FramePort::new(MemoryQueue::new(1, 4096, 64), local(), 1472);
    let header = Header::new((CLIENT, from.parse().unwrap()), (SERVER, to.parse().unwrap()), vlan);
    let (_, mut replies) = port.split();
    replies.open(ReplyTo::Header(&header));
    replies.slot()[..payload.len()].copy_from_slice(payload);
    replies.commit(payload.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

#[test]
fn replies_leave_in_the_flipped_frame_of_the_request() {
    for pair in PAIRS {
        let mut port = FramePort::new(MemoryQueue::new(4, 4096, 64), local(), 1472);
        let payload: Vec<u8> = (0..1472).map(|byte| byte as u8).collect();
        port.queue_mut().arriving.push_back(frame(pair, &payload));
        assert_eq!(port.recv().unwrap(), 1);
        let (datagrams, mut replies) = port.split();
        for datagram in datagrams {
            assert_eq!(datagram.bytes, payload);
            replies.open(ReplyTo::Datagram(datagram.number));
            replies.slot()[..5].copy_from_slice(b"reply");
            replies.commit(5);
            // The request is still intact.
            assert_eq!(datagram.bytes, payload);
        }
        port.send().unwrap();
        assert_eq!((port.counters().reused, port.counters().copied), (1, 0));
        let reply = port.queue_mut().sent.pop().unwrap();
        let found = parse(&reply, ReceiveChecksums::Unverified).unwrap();
        assert_eq!(found.source, pair.1.parse::<SocketAddr>().unwrap());
        assert_eq!(found.destination, pair.0.parse::<SocketAddr>().unwrap());
        assert_eq!(&reply[usize::from(found.payload_start)..], b"reply");
        assert_eq!((&reply[..6], &reply[6..12]), (&CLIENT[..], &SERVER[..]));
        assert_eq!(port.recv().unwrap(), 0);
        assert_eq!(port.queue().free_buffers(), 4);
    }
}

#[test]
fn replies_without_room_get_their_own_frame() {
    let mut port = FramePort::new(MemoryQueue::new(2, 2048, 64), local(), 1472);
    port.queue_mut().arriving.push_back(frame(PAIRS[0], &[1; 1000]));
    assert_eq!(port.recv().unwrap(), 1);
    let (datagrams, mut replies) = port.split();
    for datagram in datagrams {
        replies.open(ReplyTo::Datagram(datagram.number));
        replies.slot().fill(3);
        replies.commit(1472);
    }
    port.send().unwrap();
    assert_eq!((port.counters().reused, port.counters().copied), (0, 1));
    let reply = port.queue_mut().sent.pop().unwrap();
    let found = parse(&reply, ReceiveChecksums::Unverified).unwrap();
    assert_eq!((found.payload_bytes, reply.len()), (1472, 1514));
    assert_eq!(port.recv().unwrap(), 0);
    assert_eq!(port.queue().free_buffers(), 2);
}

#[test]
fn abandoned_frames_are_freed() {
    let mut port = FramePort::new(MemoryQueue::new(2, 4096, 64), local(), 1472);
    let header =
        Header::new((SERVER, PAIRS[0].1.parse().unwrap()), (CLIENT, PAIRS[0].0.parse().unwrap()), None);
    for _ in 0..3 {
        port.split().1.open(ReplyTo::Header(&header));
        port.send().unwrap();
        assert_eq!(port.queue().free_buffers(), 2);
    }
}

#[test]
fn unsent_replies_leave_at_the_next_receive() {
    let mut port = FramePort::new(MemoryQueue::new(80, 4096, 64), local(), 1472);
    for _ in 0..3 {
        let request = frame(PAIRS[0], b"request");
        port.queue_mut().arriving.extend(vec![request; 32]);
        assert_eq!(port.recv().unwrap(), 32);
        let (datagrams, mut replies) = port.split();
        for datagram in datagrams {
            replies.open(ReplyTo::Datagram(datagram.number));
            replies.commit(0);
        }
    }
    port.recv().unwrap();
    assert_eq!(port.queue().sent.len(), 96);
    assert_eq!(port.queue().free_buffers(), 80);
}
