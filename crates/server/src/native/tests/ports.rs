//! Ports with sockets, driven by hand: what goes through a ring, and where the replies come from.

use std::net::{SocketAddr, UdpSocket as ClientSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_net::datagram::{UdpOptions, UdpSocket};
use micanite_net::{Interest, Poller};
use micanite_wire::native::PAYLOAD_BYTES;

use super::*;
use crate::native::{NativePort, Sockets, rings};
use crate::session::Context;

/// Deadline of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two workers with two addresses each, in one thread.
struct Ports {
    bench: NativeBench,
    ports: Vec<NativePort>,
    sockets: Sockets,
    /// A client of each address.
    clients: [ClientSocket; 2],
    keys: [&'static [u8]; 2],
}

const KEYS: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];

impl Ports {
    fn new(access: &str) -> Self {
        let options = format!("threads = 2\nmemory-limit = 64\naccess = \"{access}\"");
        let bench = NativeBench::new(&options, PAYLOAD_BYTES);
        let open = |_| {
            let socket = |ip: &str| {
                let address = SocketAddr::new(ip.parse().unwrap(), 0);
                UdpSocket::bind(address, &UdpOptions::default()).unwrap()
            };
            ["127.0.0.1", "::1"].map(socket).into()
        };
        let sockets: Vec<Box<[UdpSocket]>> = (0..2).map(open).collect();
        let sockets: Sockets = sockets.into();
        let rings = rings(2, PAYLOAD_BYTES).into_iter().enumerate();
        let port = |(worker, rings)| NativePort::new(worker, Arc::clone(&sockets), rings, bench.native());
        let ports = rings.map(port).collect();
        let client = |ip: &str| {
            let client = ClientSocket::bind((ip, 0)).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client
        };
        let cache = &bench.server.shared.cache;
        let of = |worker| {
            let owns = |key: &&[u8]| {
                let route = cache.route(cache.partition_of(cache.hash(key)));
                route.unwrap().owner == worker
            };
            *KEYS.iter().find(|key| owns(key)).unwrap()
        };
        Self { keys: [of(0), of(1)], bench, ports, sockets, clients: ["127.0.0.1", "::1"].map(client) }
    }

    /// A set of the key of a worker, as the client of an address sends it.
    fn set(&self, of: usize, address: usize) -> Vec<u8> {
        let peer = self.clients[address].local_addr().unwrap();
        let mut requester = Requester::at(&self.bench.server.shared, peer, self.bench.now_s);
        let cache = &self.bench.server.shared.cache;
        requester.header.partition = cache.partition_of(cache.hash(self.keys[of])) as u16;
        let set = self.bench.store(Opcode::Set, self.keys[of], &[7; 100]);
        requester.datagram(&[set]).bytes
    }

    fn send(&self, bytes: &[u8], worker: usize, address: usize) {
        let to = self.sockets[worker][address].local_addr().unwrap();
        self.clients[address].send_to(bytes, to).unwrap();
    }

    /// Returns the statuses that the client of an address receives from a worker's socket.
    fn answer(&self, worker: usize, address: usize) -> Vec<Status> {
        let mut bytes = [0; 2048];
        let (length, from) = self.clients[address].recv_from(&mut bytes).unwrap();
        assert_eq!(from, self.sockets[worker][address].local_addr().unwrap());
        Answer::read(&bytes[..length]).statuses()
    }

    /// A round of a worker; returns the datagrams.
    fn round(&mut self, worker: usize) -> usize {
        let server = &self.bench.server;
        let mut context = Context::new(&mut self.bench.workers[worker].engine, server, self.bench.now_s);
        self.ports[worker].round(&mut context, 1).unwrap()
    }

    /// Rounds of a worker until so many datagrams have come, and no others.
    fn run(&mut self, worker: usize, datagrams: usize) {
        let (mut found, began) = (0, Instant::now());
        while found < datagrams {
            assert!(began.elapsed() < PATIENCE, "{found} of {datagrams}");
            found += self.round(worker);
        }
        assert_eq!(found + self.round(worker), datagrams);
    }

    fn counter(&self, worker: usize, name: &str) -> u64 {
        let mut found = None;
        self.bench.native().counters[worker].each(|this, count| {
            if this == name {
                found = Some(count);
            }
        });
        found.expect("a counter of this name")
    }
}

#[test]
fn a_reply_leaves_by_the_socket_of_its_request() {
    let mut ports = Ports::new("erew");
    for address in 0..2 {
        let set = ports.set(1, address);
        ports.send(&set, 0, address);
        ports.run(0, 1);
        assert!(ports.ports[1].has_forwarded());
        ports.run(1, 1);
        assert!(!ports.ports[1].has_forwarded());
        assert_eq!(ports.answer(0, address), [Status::Ok]);
        ports.send(&set, 1, address);
        ports.run(1, 1);
        assert_eq!(ports.answer(1, address), [Status::Ok]);
    }
    assert_eq!(ports.counter(0, "forwarded"), 2);
    assert_eq!(ports.counter(1, "forwarded_in"), 2);
    assert_eq!(ports.counter(1, "datagrams_received"), 2);
}

/// More than a ring holds: as many as fit are executed once the owner comes, the others are told
/// at once; nobody waits and nothing is lost.
#[test]
fn a_full_ring_refuses_datagrams_and_keeps_its_own() {
    let mut ports = Ports::new("erew");
    let (set, burst) = (ports.set(1, 0), 20);
    let (mut sent, mut refused) = (0, 0);
    while refused == 0 || sent % 7 != 0 {
        for _ in 0..burst {
            ports.send(&set, 0, 0);
        }
        ports.run(0, burst);
        sent += burst as u64;
        let turned_away = ports.counter(0, "ring_full");
        for _ in refused..turned_away {
            assert_eq!(ports.answer(0, 0), [Status::SlowDown]);
        }
        refused = turned_away;
    }
    let kept = ports.counter(0, "forwarded");
    assert_eq!(kept + refused, sent);
    assert_eq!(ports.counter(1, "datagrams_sent"), 0);
    // The client's own socket drops the replies that it has no room for.
    ports.run(1, kept as usize);
    assert!(!ports.ports[1].has_forwarded());
    assert_eq!(ports.counter(1, "datagrams_sent"), kept);
    assert_eq!(ports.answer(0, 0), [Status::Ok]);
    ports.send(&set, 0, 0);
    ports.run(0, 1);
    assert_eq!(ports.counter(0, "ring_full"), refused, "there is room again");
}

#[test]
fn a_worker_that_sleeps_is_woken_once_for_a_burst() {
    let mut ports = Ports::new("erew");
    let set = ports.set(1, 0);
    let mut poller = Poller::new().unwrap();
    let waker = |worker: usize| &ports.bench.server.shared.wakers[worker];
    poller.add(waker(1), 1, Interest::Read).unwrap();
    let mut hand_over = |ports: &mut Ports| {
        for _ in 0..10 {
            ports.send(&set, 0, 0);
        }
        ports.run(0, 10);
        let woken = poller.wait(0).unwrap();
        ports.bench.server.shared.wakers[1].take();
        woken
    };
    assert_eq!(hand_over(&mut ports), 0, "it is awake");
    ports.bench.native().fall_asleep(1);
    assert_eq!(hand_over(&mut ports), 1);
    assert_eq!(hand_over(&mut ports), 0, "it has been woken");
    ports.bench.native().wake_up(1);
    assert_eq!(hand_over(&mut ports), 0);
    ports.run(1, 40);
}

/// A datagram beyond the limit is dropped before it reaches a ring; what follows it in the same super-packet
/// or burst is not.
#[test]
fn too_long_datagrams_do_not_reach_a_ring() {
    let mut ports = Ports::new("erew");
    let set = ports.set(1, 0);
    for bytes in [PAYLOAD_BYTES + 1, 2048, 2100, 30_000, 65_507] {
        let mut long = set.clone();
        long.resize(bytes, 0);
        ports.send(&long, 0, 0);
        ports.send(&set, 0, 0);
        ports.run(0, 2);
        ports.run(1, 1);
        assert_eq!(ports.answer(0, 0), [Status::Ok]);
    }
    assert_eq!(ports.counter(0, "bad_datagrams"), 5);
    assert_eq!(ports.counter(0, "forwarded"), 5);
}

#[test]
fn a_round_that_finds_nothing_says_so() {
    let mut ports = Ports::new("crcw");
    assert_eq!((ports.round(0), ports.round(1)), (0, 0));
    assert_eq!(ports.ports[0].descriptors().len(), 2);
}
