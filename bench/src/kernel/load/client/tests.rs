//! The client's steps against answers made by hand, on queues in memory.

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{FramePort, Local, ReplyTo};
use micanite_wire::native::PAYLOAD_BYTES;
use micanite_workload::Values;

use super::*;
use crate::generator::packets::{Protocol, Terms};
use crate::harness::namespace;
use crate::kernel::load::requests::{Drawn, Maker};

const FLOWS: u16 = 4;
const VALUE_BYTES: usize = 12;

fn client() -> Client<MemoryQueue> {
    let queue = || MemoryQueue::new(128, 2048, 256);
    Client::new([queue(), queue()], namespace::way(1), FLOWS).unwrap()
}

fn ring(kinds: &[Kind]) -> Ring {
    let mut maker = Maker::new(Protocol::Memcached, Terms::default(), &namespace::way(1), FLOWS);
    let mut ring = Ring::new(Protocol::Memcached);
    for (item, kind) in kinds.iter().enumerate() {
        let key = format!("key{item:05}");
        let drawn = Drawn { kind: *kind, item: item as u64, key: key.as_bytes(), value_bytes: VALUE_BYTES };
        ring.push(&mut maker, &drawn).unwrap();
    }
    ring
}

/// The answer to a GET, as memcached gives it.
fn value(request: &[u8], of_item: u64) -> Vec<u8> {
    let key = &request[12..20];
    let mut reply = [&request[..8], b"VALUE ", key, b" 0 12\r\n"].concat();
    Values::new(VALUE_BYTES).push(of_item, 0, &mut reply);
    reply.extend(b"\r\nEND\r\n");
    reply
}

/// Answers what was sent, as `answer` says; what it says nothing to is lost. Returns how many were sent.
fn answer(
    client: &mut Client<MemoryQueue>,
    mut answer: impl FnMut(usize, &[u8]) -> Option<Vec<u8>>,
) -> usize {
    let way = namespace::way(1);
    let port = way.server.1.port();
    let local = Local { addresses: vec![way.server.1.ip()], ports: port..=port };
    let mut server = FramePort::new(MemoryQueue::new(64, 4096, 256), local, PAYLOAD_BYTES);
    server.queue_mut().arriving = std::mem::take(&mut client.sends.sent).into();
    let mut sent = 0;
    while server.recv().unwrap() > 0 {
        let (datagrams, mut replies) = server.split();
        for datagram in datagrams {
            if let Some(reply) = answer(sent, datagram.bytes) {
                replies.open(ReplyTo::Datagram(datagram.number));
                replies.slot()[..reply.len()].copy_from_slice(&reply);
                replies.commit(reply.len());
            }
            sent += 1;
        }
        server.send().unwrap();
    }
    let replies = std::mem::take(&mut server.queue_mut().sent);
    client.receives.arriving.extend(replies);
    sent
}

/// Takes all that has arrived.
fn hear(client: &mut Client<MemoryQueue>, ring: &Ring, now_ns: u64, tally: &mut Tally) -> Result<()> {
    loop {
        client.receive()?;
        if client.burst.is_empty() {
            return Ok(());
        }
        client.hear(ring, now_ns, tally)?;
    }
}

/// Sends all that the pace allows.
fn issue(client: &mut Client<MemoryQueue>, ring: &mut Ring, pace: Pace, tally: &mut Tally) {
    for _ in 0..4 {
        client.issue(ring, pace, 1000, tally);
        client.flush().unwrap();
    }
}

#[test]
fn a_window_is_kept_full_and_latencies_count_from_when_a_request_left() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 256]), Tally::default());
    for round in 0..10 {
        issue(&mut client, &mut ring, Pace::Closed(64), &mut tally);
        let sent = answer(&mut client, |at, request| Some(value(request, round * 64 % 256 + at as u64)));
        assert_eq!(sent, 64);
        hear(&mut client, &ring, 3000, &mut tally).unwrap();
        assert_eq!(client.in_air(), 0);
    }
    assert_eq!((tally.sent, tally.gets, tally.hits, tally.lost), (640, 640, 640, 0));
    assert_eq!(tally.mean_us(Kind::Get), 2.0);
}

#[test]
fn an_open_loop_sends_what_is_due() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 256]), Tally::default());
    client.issue(&mut ring, Pace::Open(1e9), 20, &mut tally);
    client.flush().unwrap();
    let sent = answer(&mut client, |at, request| Some(value(request, at as u64)));
    assert_eq!((sent, tally.sent), (20, 20));
    hear(&mut client, &ring, 20, &mut tally).unwrap();
    // Due at 1 (for 0), 1, 2, ... 19.
    let expected_ns: u64 = (1..20).map(|due| 20 - due).sum::<u64>() + 19;
    assert_eq!(tally.latency_ns[Kind::Get as usize], expected_ns);
}

#[test]
fn misses_count_as_answers_and_late_requests_as_lost() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 256]), Tally::default());
    issue(&mut client, &mut ring, Pace::Closed(64), &mut tally);
    answer(&mut client, |at, request| match at % 4 {
        0 => None,
        1 => Some([&request[..8], b"END\r\n"].concat()),
        _ => Some(value(request, at as u64)),
    });
    hear(&mut client, &ring, 2000, &mut tally).unwrap();
    assert_eq!((tally.gets, tally.hits, client.in_air()), (48, 32, 16));
    assert_eq!((client.give_up(), client.in_air()), (16, 0));
}

#[test]
fn the_value_of_another_item_ends_the_run() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 8]), Tally::default());
    issue(&mut client, &mut ring, Pace::Closed(1), &mut tally);
    answer(&mut client, |_, request| Some(value(request, 1)));
    assert!(hear(&mut client, &ring, 2000, &mut tally).is_err());
}

#[test]
fn replies_to_others_are_not_counted() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 8]), Tally::default());
    issue(&mut client, &mut ring, Pace::Closed(1), &mut tally);
    let mut other = namespace::way(1);
    std::mem::swap(&mut other.client, &mut other.server);
    other.server.1.set_port(1);
    let frame = FrameMaker::new(&other).frame(&[0; 64]);
    client.receives.arriving.push_back(frame);
    client.receives.arriving.push_back(vec![0; 20]);
    hear(&mut client, &ring, 2000, &mut tally).unwrap();
    assert_eq!((tally.answered(), client.in_air()), (0, 1));
}

#[test]
fn an_answer_of_several_datagrams_is_one_answer() {
    let (mut client, mut ring, mut tally) = (client(), ring(&[Kind::Get; 8]), Tally::default());
    issue(&mut client, &mut ring, Pace::Closed(1), &mut tally);
    let way = namespace::way(1);
    let payload = |sequence: u8| {
        let frame = [0, 0, 0, sequence, 0, 2, 0, 0];
        let text: &[u8] = match sequence {
            0 => b"VALUE key00000 0 12\r\n01234",
            _ => b"5678901\r\nEND\r\n",
        };
        [&frame[..], text].concat()
    };
    for (sequence, answered) in [(0, 0), (1, 1)] {
        let mut back = way;
        std::mem::swap(&mut back.client, &mut back.server);
        let frame = FrameMaker::new(&back).frame(&payload(sequence));
        client.receives.arriving.push_back(frame);
        hear(&mut client, &ring, 2000, &mut tally).unwrap();
        assert_eq!(tally.gets, answered);
    }
}

#[test]
fn a_write_leaves_when_the_get_before_it_is_answered() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = client();
    let writers = Writers::connect(listener.local_addr().unwrap(), 1).unwrap();
    client.writers = Some(writers);
    let mut maker = Maker::new(Protocol::Memcached, Terms::default(), &namespace::way(1), FLOWS);
    let (mut ring, mut tally) = (Ring::new(Protocol::Memcached), Tally::default());
    for kind in [Kind::Get, Kind::Update] {
        let drawn = Drawn { kind, item: 0, key: b"key00000", value_bytes: VALUE_BYTES };
        ring.push(&mut maker, &drawn).unwrap();
    }
    let outstanding = |client: &Client<MemoryQueue>| client.writers.as_ref().map(Writers::outstanding);
    client.issue(&mut ring, Pace::Closed(2), 1000, &mut tally);
    client.flush().unwrap();
    assert_eq!((client.in_air(), outstanding(&client)), (2, Some(0)));
    answer(&mut client, |_, request| Some([&request[..8], b"END\r\n"].concat()));
    hear(&mut client, &ring, 2000, &mut tally).unwrap();
    client.issue_deferred(&ring);
    assert_eq!((client.in_air(), outstanding(&client)), (1, Some(1)));
}
