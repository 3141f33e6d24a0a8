//! The generator's steps against an echo, both on queues in memory.

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Local, ReplyTo};
use micanite_wire::native::PAYLOAD_BYTES;

use super::*;
use crate::bed;
use crate::bypass::throughput::shape;
use crate::packets::{Packets, Terms};

const BUFFERS: usize = 128;

fn generator() -> Generator<MemoryQueue> {
    Generator::new(MemoryQueue::new(BUFFERS, 2048, 256), bed::way(1)).unwrap()
}

fn requests(count: usize) -> Prepared {
    let packets = Packets::new(&shape(95, 1), 1000, Terms::default(), count, 1);
    Prepared::new(packets, &bed::way(1))
}

/// Echoes what was sent, but not what `loses` says, and returns how many frames that were.
fn echo(client: &mut Generator<MemoryQueue>, loses: impl Fn(usize) -> bool) -> usize {
    let way = bed::way(1);
    let local = Local {
        addresses: vec![way.server.1.ip()],
        ports: way.server.1.port()..=way.server.1.port(),
    };
    let mut server = FramePort::new(MemoryQueue::new(64, 4096, 256), local, PAYLOAD_BYTES);
    let sent = std::mem::take(&mut client.queue.sent);
    let frames = sent.into_iter().enumerate();
    let arriving = frames.filter(|(number, _)| !loses(*number));
    server.queue_mut().arriving = arriving.map(|(_, frame)| frame).collect();
    let mut echoed = 0;
    while server.recv().unwrap() > 0 {
        let (datagrams, mut replies) = server.split();
        for datagram in datagrams {
            replies.open(ReplyTo::Datagram(datagram.number));
            replies.slot()[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
            replies.commit(datagram.bytes.len());
            echoed += 1;
        }
        server.send().unwrap();
    }
    let replies = std::mem::take(&mut server.queue_mut().sent);
    client.queue.arriving.extend(replies);
    echoed
}

#[test]
fn frames_made_beforehand_are_taken_by_the_product() {
    let (mut client, mut requests) = (generator(), requests(100));
    assert_eq!(client.add(&mut requests, 100).unwrap(), 100);
    client.flush().unwrap();
    assert_eq!(echo(&mut client, |_| false), 100);
}

#[test]
fn each_reply_becomes_the_next_request() {
    let (mut client, mut requests) = (generator(), requests(1000));
    client.add(&mut requests, 64).unwrap();
    client.flush().unwrap();
    let mut sent = 0;
    for _ in 0..100 {
        sent += echo(&mut client, |_| false);
        loop {
            client.receive().unwrap();
            if client.burst.is_empty() {
                break;
            }
            let heard = client.turn_around(&mut requests, true, usize::MAX).unwrap();
            assert_eq!(heard.succeeded, heard.datagrams as u64);
        }
        client.flush().unwrap();
        assert_eq!(client.queue.sent.len(), 64, "as many as there were replies");
    }
    assert_eq!(sent, 6400);
    assert_eq!(client.queue.free_buffers(), BUFFERS, "none is forgotten");
}

#[test]
fn losses_show_in_the_numbers() {
    let (mut client, mut requests) = (generator(), requests(96));
    client.add(&mut requests, 96).unwrap();
    client.flush().unwrap();
    echo(&mut client, |number| number % 3 == 0);
    let mut numbers = Vec::new();
    for _ in 0..3 {
        client.receive().unwrap();
        client.numbers(requests.reader, true, |number, succeeded| {
            assert_eq!(succeeded, 1);
            numbers.push(number);
        });
    }
    let expected: Vec<_> = (0..96).filter(|number| number % 3 != 0).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn a_frame_for_somebody_else_is_not_counted() {
    let mut client = generator();
    let mut other = bed::way(1);
    std::mem::swap(&mut other.client, &mut other.server);
    other.server.1.set_port(1);
    let frame = FrameMaker::new(&other).frame(&[0; 64]);
    client.queue.arriving.push_back(frame);
    client.queue.arriving.push_back(vec![0; 20]);
    client.receive().unwrap();
    let heard = client.turn_around(&mut requests(1), true, 1).unwrap();
    assert_eq!((heard.datagrams, client.held.len()), (0, 0));
    assert_eq!(client.queue.free_buffers(), BUFFERS);
}

#[test]
fn a_wrong_checksum_ends_the_run() {
    let mut client = generator();
    let mut way = bed::way(1);
    std::mem::swap(&mut way.client, &mut way.server);
    let mut frame = FrameMaker::new(&way).frame(&[0; 64]);
    frame[60] ^= 1;
    let mut found = false;
    for _ in 0..VERIFIED {
        client.queue.arriving.push_back(frame.clone());
        found |= client.receive().is_err();
        let taken = client.burst.drain(..).collect::<Vec<_>>();
        taken.into_iter().for_each(|frame| client.queue.free(frame));
    }
    assert!(found);
}

#[test]
fn a_late_reply_to_what_was_delivered_before_is_nothing_to_what_is_delivered_now() {
    let (mut client, mut before) = (generator(), requests(51));
    client.add(&mut before, 51).unwrap();
    client.flush().unwrap();
    echo(&mut client, |number| number % 50 != 0);
    client.deliver(&mut requests(1)).unwrap();
    assert!(client.queue.arriving.is_empty());
}
