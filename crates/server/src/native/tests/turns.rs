//! A round has a limit of requests and of moved bytes.

use std::net::{SocketAddr, UdpSocket as ClientSocket};

use micanite_net::datagram::{UdpOptions, UdpSocket};
use micanite_wire::native::Request;

use super::*;
use crate::limits::ROUND_REQUESTS_MAX;
use crate::native::SocketPort;
use crate::native::{Sockets, rings};
use crate::session::Context;

const PAYLOAD_BYTES: usize = 1472;
const VALUE_BYTES: usize = 1000;

/// A server with a long value under `a`: appended to piece by piece, for a datagram holds no more.
fn with_long_value(requester: &mut Option<Requester>) -> (NativeBench, usize) {
    let mut bench = NativeBench::new("memory-limit = 64", PAYLOAD_BYTES);
    let mut new = Requester::new(&bench, "10.0.0.1:1000");
    let piece = vec![b'v'; VALUE_BYTES];
    let mut bytes = 0;
    while bytes < 600_000 {
        let opcode = if bytes == 0 { Opcode::Set } else { Opcode::Append };
        let store = Request { id: new.next_id(), ..bench.store(opcode, b"a", &piece) };
        let datagram = new.datagram(&[store]);
        let answers = bench.answers(&[datagram]);
        assert_eq!(answers[0].replies[0].status, Status::Ok);
        bytes += VALUE_BYTES;
    }
    *requester = Some(new);
    (bench, bytes)
}

/// The appends of one round, from several datagrams: some are executed, the others told to slow down; sent
/// again they are executed, each once.
#[test]
fn a_round_moves_no_more_than_a_turn_may() {
    let mut requester = None;
    let (mut bench, bytes) = with_long_value(&mut requester);
    let mut requester = requester.unwrap();
    let ids: Vec<_> = (0..100).map(|_| requester.next_id()).collect();
    let mut left = ids.clone();
    let mut rounds = 0;
    while !left.is_empty() {
        let requests: Vec<_> =
            left.iter().map(|id| Request { id: *id, ..bench.store(Opcode::Append, b"a", b"x") }).collect();
        let burst: Vec<_> = requests.chunks(20).map(|requests| requester.datagram(requests)).collect();
        let answers = bench.answers(&burst);
        let engine = &bench.workers[0].engine;
        let (moved, allowed) = (engine.moved_bytes(), engine.cache().turn_moved_bytes());
        assert!(moved <= allowed + bytes + 1000, "{moved} bytes in a round");
        let told: Vec<_> = answers.iter().flat_map(|answer| &answer.replies).collect();
        assert_eq!(told.len(), left.len());
        let statuses: Vec<_> = told.iter().map(|told| told.status).collect();
        let executed = statuses.iter().take_while(|status| **status == Status::Ok).count();
        assert!(executed > 0, "a round without progress");
        let refused = &statuses[executed..];
        assert!(refused.iter().all(|status| *status == Status::SlowDown), "{refused:?}");
        left.drain(..executed);
        rounds += 1;
        requester.header.resent = true;
    }
    assert!(rounds > 10, "{rounds} rounds");
    let engine = &mut bench.workers[0].engine;
    let length = engine.get_with(b"a", bench.now_s, |value, _| value.len());
    assert_eq!(length, Ok(Some(bytes + ids.len())), "each happened once");
}

/// The rest of a burst waits for the next round, and nothing is lost.
#[test]
fn a_round_ends_within_a_burst() {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = UdpSocket::bind(address, &UdpOptions::default()).unwrap();
    let to = socket.local_addr().unwrap();
    let sockets: Sockets = vec![vec![socket].into()].into();
    let mut bench = NativeBench::new("", PAYLOAD_BYTES);
    let ends = rings(1, PAYLOAD_BYTES).into_iter().next().unwrap();
    let mut port = SocketPort::new(0, sockets, ends, bench.native());
    let client = ClientSocket::bind(address).unwrap();
    let mut requester = Requester::new(&bench, &client.local_addr().unwrap().to_string());
    let get = bench.request(Opcode::Get, b"none");
    let datagrams = 4 * ROUND_REQUESTS_MAX / 32;
    for _ in 0..datagrams {
        let datagram = requester.datagram(&[get; 32]);
        client.send_to(&datagram.bytes, to).unwrap();
    }
    let counted = |bench: &NativeBench| bench.native().counters[0].requests.get() as usize;
    let (mut taken, mut rounds) = (0, 0);
    while taken < datagrams {
        let before = counted(&bench);
        let server = std::sync::Arc::clone(&bench.server);
        let mut context = Context::new(&mut bench.workers[0].engine, &server, bench.now_s);
        let of_round = port.round(&mut context, 1).unwrap();
        assert!(of_round > 0, "the datagrams are there");
        let requests = counted(&bench) - before;
        assert!(requests < ROUND_REQUESTS_MAX + 64, "{requests} in a round");
        taken += of_round;
        rounds += 1;
    }
    assert!(rounds >= 4, "{rounds} rounds");
    assert_eq!(counted(&bench), datagrams * 32);
}
