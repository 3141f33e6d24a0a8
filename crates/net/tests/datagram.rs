//! Datagrams over the loopback interface.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use micanite_net::datagram::{Received, Receiver, Sender, UdpOptions, UdpSocket};
use micanite_net::limits::{DATAGRAM_PAYLOAD_BYTES_MAX, RECEIVE_BYTES_MIN};
use micanite_net::{Interest, Poller};

const V4: &str = "127.0.0.1:0";
const V6: &str = "[::1]:0";
/// Longest wait for an expected event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A socket with its receiver and its sender.
struct End {
    socket: UdpSocket,
    receiver: Receiver,
    sender: Sender,
    poller: Poller,
}

/// A received datagram: peer, payload, whether truncated.
type Arrived = (SocketAddr, Vec<u8>, bool);

impl End {
    fn new(address: &str, options: &UdpOptions, payload_bytes_max: usize) -> Self {
        let socket = UdpSocket::bind(address.parse().unwrap(), options).unwrap();
        let granted = socket.granted();
        assert_eq!((granted.gro, granted.gso), (options.gro, options.gso));
        let poller = Poller::new().unwrap();
        poller.add(&socket, 0, Interest::Read).unwrap();
        Self {
            receiver: Receiver::new(granted.gro, payload_bytes_max),
            sender: Sender::new(granted.gso, payload_bytes_max),
            socket,
            poller,
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn commit(&mut self, peer: SocketAddr, payload: &[u8]) {
        while self.sender.is_full() {
            self.send_all();
        }
        let room = self.sender.begin(peer).unwrap();
        room[..payload.len()].copy_from_slice(payload);
        self.sender.commit(payload.len());
    }

    fn send_all(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.sender.send(&self.socket).unwrap();
            if self.sender.pending() == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "the socket blocks for good");
        }
    }

    /// Waits for one burst.
    fn burst(&mut self) -> Vec<Arrived> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let count = self.receiver.recv(&self.socket).unwrap();
            if count > 0 {
                let datagrams = self.receiver.datagrams();
                assert_eq!(datagrams.len(), count);
                return datagrams
                    .map(|datagram| {
                        let bytes = datagram.bytes.to_vec();
                        (datagram.peer, bytes, datagram.truncated)
                    })
                    .collect();
            }
            assert!(Instant::now() < deadline, "nothing arrived");
            self.poller.wait(100).unwrap();
        }
    }

    fn receive(&mut self, count: usize) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        while arrived.len() < count {
            arrived.extend(self.burst());
        }
        let lengths = arrived.iter().map(|(_, bytes, _)| bytes.len());
        assert_eq!(arrived.len(), count, "{:?}", lengths.collect::<Vec<_>>());
        arrived
    }
}

/// Creates a payload that differs from those of other numbers.
fn payload(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 131 + at * 7 + at / 256) as u8).collect()
}

fn options(gro: bool, gso: bool) -> UdpOptions {
    UdpOptions { gro, gso, receive_buffer_bytes: 8 << 20, ..UdpOptions::default() }
}

/// Combines GRO, GSO and both families in all ways.
fn combinations() -> impl Iterator<Item = (&'static str, bool, bool)> {
    [V4, V6].into_iter().flat_map(|address| {
        [(false, false), (false, true), (true, false), (true, true)].map(|(gro, gso)| (address, gro, gso))
    })
}

/// Sends payloads of these lengths and receives them, those of one length in order.
fn transfer(from: &mut End, to: &mut End, lengths: &[usize]) {
    let peer = to.address();
    for (number, &bytes) in lengths.iter().enumerate() {
        from.commit(peer, &payload(number, bytes));
    }
    from.send_all();
    let mut by_length: HashMap<usize, Vec<Vec<u8>>> = HashMap::new();
    for (sender, bytes, truncated) in to.receive(lengths.len()) {
        assert_eq!((sender, truncated), (from.address(), false));
        by_length.entry(bytes.len()).or_default().push(bytes);
    }
    let mut expected: HashMap<usize, Vec<Vec<u8>>> = HashMap::new();
    for (number, &bytes) in lengths.iter().enumerate() {
        let list = expected.entry(bytes).or_default();
        list.push(payload(number, bytes));
    }
    assert!(by_length == expected, "{lengths:?}");
}

#[test]
fn every_length_arrives_whole_with_and_without_super_packets() {
    let mixed: Vec<_> = (0..200).map(|number| number % 7 * 13).collect();
    for (address, gro, gso) in combinations() {
        let mut from = End::new(address, &options(gro, gso), 1472);
        let mut to = End::new(address, &options(gro, gso), 1472);
        for lengths in [
            vec![1],
            vec![0, 0, 0],
            vec![32; 64],
            vec![33; 65],
            vec![7; 130],
            [vec![48; 31], vec![5]].concat(),
            vec![1471, 1472, 1472, 1471, 1, 1472],
            vec![1472; 100],
            mixed.clone(),
        ] {
            transfer(&mut from, &mut to, &lengths);
        }
        assert_eq!(from.sender.sent().super_packets > 0, gso);
        assert_eq!(to.receiver.received().super_packets > 0, gro && gso);
    }
}

#[test]
fn longest_datagrams_arrive_if_requested() {
    for (address, gro, gso) in combinations() {
        let mut from = End::new(address, &options(gro, gso), DATAGRAM_PAYLOAD_BYTES_MAX);
        let mut to = End::new(address, &options(gro, gso), DATAGRAM_PAYLOAD_BYTES_MAX);
        let lengths = [DATAGRAM_PAYLOAD_BYTES_MAX, 30_001, 30_001, 9000, 9000, 9000];
        transfer(&mut from, &mut to, &lengths);
        // As long as a super-packet can be.
        transfer(&mut from, &mut to, &[32_753, 32_753, 1]);
        assert_eq!(from.sender.sent().failed, 0);
        assert_eq!(from.sender.sent().gso_refused, 0);
    }
}

#[test]
fn a_super_packet_crosses_the_stack_once() {
    let mut from = End::new(V4, &options(true, true), 1472);
    let mut to = End::new(V4, &options(true, true), 1472);
    transfer(&mut from, &mut to, &[40; 32]);
    let sent = from.sender.sent();
    assert_eq!((sent.calls, sent.messages, sent.super_packets), (1, 1, 1));
    let received = to.receiver.received();
    let expected = Received {
        calls: received.calls,
        messages: 1,
        super_packets: 1,
        datagrams: 32,
        ..Received::default()
    };
    assert_eq!(received, expected);
}

#[test]
fn datagrams_begin_aligned_where_the_layout_allows_it() {
    let mut from = End::new(V4, &options(true, true), 1472);
    for gro in [false, true] {
        let mut to = End::new(V4, &options(gro, true), 1472);
        let peer = to.address();
        for number in 0..10 {
            from.commit(peer, &payload(number, 40));
        }
        from.send_all();
        let mut count = 0;
        while count < 10 {
            count += to.burst().len();
            for datagram in to.receiver.datagrams() {
                assert_eq!(datagram.bytes.as_ptr().align_offset(8), 0);
            }
        }
    }
}

#[test]
fn echo_serves_many_alternating_peers() {
    for (address, gro, gso) in combinations() {
        let mut server = End::new(address, &options(gro, gso), 1472);
        let mut clients: Vec<_> = (0..12).map(|_| End::new(address, &options(gro, gso), 1472)).collect();
        let rounds = 20;
        for round in 0..rounds {
            for (number, client) in clients.iter_mut().enumerate() {
                client.commit(server.address(), &payload(number, 20 + number * (round % 3)));
                client.send_all();
            }
        }
        for (peer, bytes, _) in server.receive(rounds * clients.len()) {
            server.commit(peer, &bytes);
        }
        server.send_all();
        for (number, client) in clients.iter_mut().enumerate() {
            let mut replies: Vec<_> = client.receive(rounds);
            replies.sort_by_key(|(_, bytes, _)| bytes.len());
            let mut lengths: Vec<_> = (0..rounds).map(|round| round % 3).collect();
            lengths.sort_unstable();
            for ((peer, bytes, _), length) in replies.into_iter().zip(lengths) {
                assert_eq!(peer, server.address());
                assert_eq!(bytes, payload(number, 20 + number * length));
            }
        }
    }
}

#[test]
fn drops_of_the_socket_are_counted() {
    let small = UdpOptions { receive_buffer_bytes: 16 << 10, ..options(false, false) };
    let mut from = End::new(V4, &options(false, false), 1472);
    let mut to = End::new(V4, &small, 1472);
    let peer = to.address();
    assert_eq!(to.receiver.dropped(), 0);
    let sent = 400;
    for number in 0..sent {
        from.commit(peer, &payload(number, 500));
    }
    from.send_all();
    // The first datagrams had room, and their number is unknown. The last ones may still be on
    // their way.
    let deadline = Instant::now() + TIMEOUT;
    let (mut arrived, mut dropped) = (0, 0);
    while arrived + dropped as usize != sent {
        assert!(Instant::now() < deadline, "{arrived} {dropped}");
        if to.receiver.recv(&to.socket).unwrap() > 0 {
            arrived += to.receiver.datagrams().len();
        }
        dropped = to.socket.receive_queue().unwrap().dropped;
    }
    assert!((1..sent).contains(&arrived), "{arrived}");
    // The next datagram carries the number of drops.
    from.commit(peer, b"more");
    from.send_all();
    assert_eq!(to.receive(1)[0].1, b"more");
    assert_eq!(to.receiver.dropped(), dropped);
}

#[test]
fn datagrams_longer_than_the_buffer_are_truncated() {
    let mut from = End::new(V4, &options(false, true), 9000);
    let mut to = End::new(V4, &options(false, false), 100);
    let peer = to.address();
    for (number, bytes) in [(0, RECEIVE_BYTES_MIN), (1, 5000), (2, 9)] {
        from.commit(peer, &payload(number, bytes));
        from.send_all();
    }
    let arrived = to.receive(3);
    let whole = |number, bytes| (from.address(), payload(number, bytes), false);
    assert_eq!(arrived[0], whole(0, RECEIVE_BYTES_MIN));
    let (_, bytes, truncated) = &arrived[1];
    assert_eq!((bytes.len(), truncated), (RECEIVE_BYTES_MIN, &true));
    assert_eq!(*bytes, payload(1, 5000)[..RECEIVE_BYTES_MIN]);
    assert_eq!(arrived[2], whole(2, 9));
    assert_eq!(to.receiver.received().truncated, 1);
}

#[test]
fn a_closed_port_does_not_hold_up_other_peers() {
    for (address, gro, gso) in combinations() {
        // Accepts datagrams only from itself, and keeps the port from other tests.
        let deaf = std::net::UdpSocket::bind(address).unwrap();
        let closed = deaf.local_addr().unwrap();
        deaf.connect(closed).unwrap();
        let mut from = End::new(address, &options(gro, gso), 1472);
        let mut to = End::new(address, &options(gro, gso), 1472);
        let open = to.address();
        for round in 0..3 {
            for number in 0..10 {
                from.commit(closed, &payload(number, 24));
                from.commit(open, &payload(number, 24 + round));
            }
            from.send_all();
            assert_eq!(to.receive(10).len(), 10);
            assert_eq!(from.receiver.recv(&from.socket).unwrap(), 0);
        }
    }
}

#[test]
fn unreachable_peers_are_counted_and_do_not_hold_up_others() {
    let mut from = End::new(V4, &options(true, true), 1472);
    let mut to = End::new(V4, &options(true, true), 1472);
    let open = to.address();
    let other_family = "[::1]:9".parse().unwrap();
    let no_port = "127.0.0.1:0".parse().unwrap();
    for number in 0..5 {
        from.commit(other_family, &payload(number, 24));
        from.commit(open, &payload(number, 24));
        from.commit(no_port, &payload(number, 24));
    }
    from.send_all();
    let arrived = to.receive(5);
    for (number, (_, bytes, _)) in arrived.into_iter().enumerate() {
        assert_eq!(bytes, payload(number, 24));
    }
    let sent = from.sender.sent();
    assert_eq!((sent.datagrams, sent.failed), (5, 10));
}
