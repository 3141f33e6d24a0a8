//! The generator's steps against an echo, both on queues in memory.

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Local, ReplyTo};
use micanite_wire::native::{Kind, PAYLOAD_BYTES};
use micanite_workload::Popularity;

use super::*;
use crate::generator::frames::{FrameMaker, Frames, VERIFIED};
use crate::generator::packets::{Protocol, Shape};
use crate::generator::replies::KIND_AT;
use crate::harness::namespace;

const BUFFERS: usize = 128;

type Client = Generator<Frames<MemoryQueue>>;

fn client() -> Client {
    let queue = MemoryQueue::new(BUFFERS, 2048, 256);
    Generator::new(Frames::new(queue, namespace::way(1)).unwrap())
}

fn requests(count: usize) -> Packets {
    let shape = Shape {
        protocol: Protocol::Native,
        batch: 1,
        get_percent: 95,
        popularity: Popularity::Uniform,
        partition: None,
    };
    Packets::new(&shape, 1000, Terms::default(), count, 1).framed(&namespace::way(1))
}

fn send(client: &mut Client, requests: &mut Packets, count: usize) {
    for _ in 0..count {
        assert!(client.port.push(requests).unwrap().is_some());
    }
    client.port.flush(true).unwrap();
}

/// Takes all replies; `each` as in [`Port::receive`]. Each of them must be a success.
fn receive_all(client: &mut Client, requests: &mut Packets, mut each: impl FnMut(u16) -> bool) -> Result<()> {
    let reader = requests.reader;
    while client.port.receive(Some(requests), |reply| {
        let answer = reader.answer(reply, true);
        assert_eq!((answer.succeeded, answer.is_last), (1, true));
        each(answer.number)
    })? > 0
    {}
    client.port.flush(true)
}

/// Sends back what was sent as replies, but not what `loses` says, and returns how many frames that were.
fn echo(client: &mut Client, loses: impl Fn(usize) -> bool) -> usize {
    let way = namespace::way(1);
    let local =
        Local { addresses: vec![way.server.1.ip()], ports: way.server.1.port()..=way.server.1.port() };
    let mut server = FramePort::new(MemoryQueue::new(64, 4096, 256), local, PAYLOAD_BYTES);
    let sent = std::mem::take(&mut client.port.queue.sent);
    let frames = sent.into_iter().enumerate();
    let arriving = frames.filter(|(number, _)| !loses(*number));
    server.queue_mut().arriving = arriving.map(|(_, frame)| frame).collect();
    let mut echoed = 0;
    while server.recv().unwrap() > 0 {
        let (datagrams, mut replies) = server.split();
        for datagram in datagrams {
            replies.open(ReplyTo::Datagram(datagram.number));
            let slot = &mut replies.slot()[..datagram.bytes.len()];
            slot.copy_from_slice(datagram.bytes);
            slot[KIND_AT] = Kind::Replies as u8;
            replies.commit(datagram.bytes.len());
            echoed += 1;
        }
        server.send().unwrap();
    }
    let replies = std::mem::take(&mut server.queue_mut().sent);
    client.port.queue.arriving.extend(replies);
    echoed
}

#[test]
fn frames_made_beforehand_are_taken_by_the_product() {
    let (mut client, mut requests) = (client(), requests(100));
    send(&mut client, &mut requests, 100);
    assert_eq!(echo(&mut client, |_| false), 100);
}

#[test]
fn each_reply_becomes_the_next_request() {
    let (mut client, mut requests) = (client(), requests(1000));
    send(&mut client, &mut requests, 64);
    let mut sent = 0;
    for _ in 0..100 {
        sent += echo(&mut client, |_| false);
        receive_all(&mut client, &mut requests, |_| true).unwrap();
        let next = client.port.queue.sent.len();
        assert_eq!(next, 64, "as many as there were replies");
    }
    assert_eq!(sent, 6400);
    let free = client.port.queue.free_buffers();
    assert_eq!(free, BUFFERS, "none is forgotten");
}

#[test]
fn losses_show_in_the_numbers() {
    let (mut client, mut requests) = (client(), requests(96));
    send(&mut client, &mut requests, 96);
    echo(&mut client, |number| number % 3 == 0);
    let mut numbers = Vec::new();
    receive_all(&mut client, &mut requests, |number| {
        numbers.push(number);
        false
    })
    .unwrap();
    let expected: Vec<_> = (0..96).filter(|number| number % 3 != 0).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn a_frame_for_somebody_else_is_not_counted() {
    let mut client = client();
    let mut other = namespace::way(1);
    std::mem::swap(&mut other.client, &mut other.server);
    other.server.1.set_port(1);
    let frame = FrameMaker::new(&other).frame(&[0; 64]);
    client.port.queue.arriving.push_back(frame);
    client.port.queue.arriving.push_back(vec![0; 20]);
    receive_all(&mut client, &mut requests(1), |_| panic!("not for us")).unwrap();
    assert!(client.port.queue.sent.is_empty());
    assert_eq!(client.port.queue.free_buffers(), BUFFERS);
}

#[test]
fn a_wrong_checksum_ends_the_run() {
    let mut client = client();
    let mut way = namespace::way(1);
    std::mem::swap(&mut way.client, &mut way.server);
    let mut frame = FrameMaker::new(&way).frame(&[0; 64]);
    frame[60] ^= 1;
    let mut found = false;
    for _ in 0..VERIFIED {
        client.port.queue.arriving.push_back(frame.clone());
        found |= client.port.receive(None, |_| false).is_err();
    }
    assert!(found);
}

#[test]
fn late_replies_to_an_earlier_delivery_are_ignored() {
    let (mut client, mut before) = (client(), requests(51));
    send(&mut client, &mut before, 51);
    echo(&mut client, |number| number % 50 != 0);
    client.deliver(&mut requests(1)).unwrap();
    assert!(client.port.queue.arriving.is_empty());
}
