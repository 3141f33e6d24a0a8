//! Ports around the kernel, driven by hand over queues in memory: whose frame a reply leaves in, what
//! goes through a ring, and what is told of losses.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{
    FramePort, Header as Headers, Local, MacAddress, ReceiveChecksums, ReplyTo, parse,
};
use micanite_wire::native::{DirectoryRequest, Entry, Header, Kind, Request};

use super::*;
use crate::configuration::NativeInterface;
use crate::native::{BypassPort, NativeShared, rings};
use crate::session::Context;

const CLIENT: (MacAddress, &str) = ([2, 0, 0, 0, 0, 1], "10.0.0.1:4000");
const SERVER_MAC: MacAddress = [2, 0, 0, 0, 0, 2];
const PAYLOAD_BYTES: usize = 1452;
const BASE: u16 = 20_000;

/// Two workers, each with a queue.
struct Queues {
    bench: NativeBench,
    ports: Vec<BypassPort<MemoryQueue>>,
    /// A key of each worker.
    keys: [&'static [u8]; 2],
}

fn queue(room_bytes: usize) -> FramePort<MemoryQueue> {
    let local = Local { addresses: vec!["10.0.0.2".parse().unwrap()], ports: BASE..=BASE + 1 };
    FramePort::new(MemoryQueue::new(64, room_bytes, 64), local, PAYLOAD_BYTES)
}

/// A frame with a datagram from the client to a worker's port.
fn frame(worker: u16, payload: &[u8]) -> Vec<u8> {
    let to = format!("10.0.0.2:{}", BASE + worker).parse().unwrap();
    let headers = Headers::new((CLIENT.0, CLIENT.1.parse().unwrap()), (SERVER_MAC, to), None);
    let mut port = queue(4096);
    let (_, mut replies) = port.split();
    replies.open(ReplyTo::Header(&headers));
    replies.slot()[..payload.len()].copy_from_slice(payload);
    replies.commit(payload.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

impl Queues {
    /// Both workers on one port, or each on its own of two.
    fn new(access: &str, ports: usize) -> Self {
        let options = format!("threads = 2\nmemory-limit = 64\naccess = \"{access}\"");
        let over = |native: NativeShared| {
            let interface = |port: usize| NativeInterface {
                name: format!("port {port}"),
                addresses: vec![IpAddr::from([10, 0, port as u8, 2])],
                workers: port * 2 / ports..(port + 1) * 2 / ports,
            };
            native.over(Vec::new()).at((0..ports).map(interface).collect())
        };
        let bench = NativeBench::with(&options, PAYLOAD_BYTES, over);
        let rings = rings(2, bench.native().ring_datagram_bytes());
        let port = |(worker, rings)| BypassPort::new(worker, queue(4096), rings, bench.native());
        let ports = rings.into_iter().enumerate().map(port).collect();
        let cache = &bench.server.shared.cache;
        let of = |worker| {
            let owns = |key: &&[u8]| {
                let route = cache.route(cache.partition_of(cache.hash(key)));
                route.unwrap().owner == worker
            };
            let keys: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];
            *keys.iter().find(|key| owns(key)).unwrap()
        };
        let keys = [of(0), of(1)];
        Self { keys, bench, ports }
    }

    fn requester(&self) -> Requester {
        Requester::new(&self.bench, CLIENT.1)
    }

    /// A datagram of requests, by the first one's partition.
    fn datagram(&self, requester: &mut Requester, requests: &[Request<'_>]) -> Vec<u8> {
        let cache = &self.bench.server.shared.cache;
        requester.header.partition = cache.partition_of(cache.hash(requests[0].key)) as u16;
        requester.datagram(requests).bytes
    }

    /// Puts a frame to a worker's UDP port into the queue of a worker.
    fn arrive(&mut self, queue: usize, worker: u16, payload: &[u8]) {
        let arriving = &mut self.ports[queue].port().queue_mut().arriving;
        arriving.push_back(frame(worker, payload));
    }

    fn round(&mut self, worker: usize) -> usize {
        let server = &self.bench.server;
        let mut context = Context::new(&mut self.bench.workers[worker].engine, server, self.bench.now_s);
        self.ports[worker].round(&mut context, 1).unwrap()
    }

    /// The replies that a queue has sent: the UDP ports they came from, and what they say.
    fn sent(&mut self, queue: usize) -> Vec<(u16, Answer)> {
        let sent = std::mem::take(&mut self.ports[queue].port().queue_mut().sent);
        let read = |frame: Vec<u8>| {
            let found = parse(&frame, ReceiveChecksums::Unverified).unwrap();
            assert_eq!(found.destination.to_string(), CLIENT.1);
            assert_eq!((&frame[..6], &frame[6..12]), (&CLIENT.0[..], &SERVER_MAC[..]));
            let payload = &frame[usize::from(found.payload_start)..];
            (found.source.port() - BASE, Answer::read(payload))
        };
        sent.into_iter().map(read).collect()
    }

    fn stat(&self, worker: usize, name: &str) -> u64 {
        let mut found = None;
        let mut visit = |this: &str, count| {
            if this == name {
                found = Some(count);
            }
        };
        self.bench.native().counters[worker].each(&mut visit);
        self.bench.native().frames[worker].each(&mut visit);
        found.expect("a counter of this name")
    }
}

/// Values of every length, hits and misses, several requests to a datagram, refusals, directories:
/// whatever was asked, its reply leaves in the frame that it came in.
#[test]
fn all_replies_leave_in_the_frames_of_their_requests() {
    let mut queues = Queues::new("crcw", 1);
    let mut requester = queues.requester();
    let value = vec![7; 1200];
    let mut asked = 0;
    for bytes in (0..1200).step_by(40) {
        let bench = &queues.bench;
        let set = bench.store(Opcode::Set, b"k", &value[..bytes]);
        let get = bench.request(Opcode::Get, b"k");
        let none = bench.request(Opcode::Get, b"none");
        let datagrams = [
            queues.datagram(&mut requester, &[set]),
            queues.datagram(&mut requester, &[none, get, none]),
            queues.datagram(&mut requester.clone().unproven(), &[get; 8]),
            queues.datagram(&mut requester, &[get])[..60].to_vec(),
        ];
        for datagram in &datagrams {
            queues.arrive(0, 0, datagram);
        }
        asked += datagrams.len();
        while queues.round(0) > 0 {}
    }
    let replies = queues.sent(0);
    assert_eq!(replies.len(), asked);
    for (burst, (_, answer)) in replies.iter().enumerate().skip(1).step_by(4) {
        assert_eq!(answer.replies[1].value.len(), burst / 4 * 40);
    }
    assert_eq!(queues.stat(0, "replies_reused"), asked as u64);
    assert_eq!(queues.stat(0, "datagrams_sent"), asked as u64);
    assert_eq!(queues.stat(0, "replies_copied"), 0);
    assert_eq!(queues.stat(0, "replies_no_frame"), 0);
}

#[test]
fn the_owner_answers_from_the_port_of_the_request() {
    let mut queues = Queues::new("erew", 1);
    let mut requester = queues.requester();
    let set = queues.bench.store(Opcode::Set, queues.keys[1], &[7; 100]);
    let datagram = queues.datagram(&mut requester, &[set]);
    for asked in 0..2 {
        queues.arrive(0, asked, &datagram);
        assert_eq!(queues.round(0), 1);
        assert!(queues.sent(0).is_empty());
        assert!(queues.ports[1].has_forwarded());
        assert_eq!(queues.round(1), 1);
        assert!(!queues.ports[1].has_forwarded());
        let replies = queues.sent(1);
        assert_eq!(replies.len(), 1);
        assert_eq!(replies[0].0, asked);
        assert_eq!(replies[0].1.statuses(), [Status::Ok]);
    }
    assert_eq!(queues.stat(0, "forwarded"), 2);
    assert_eq!(queues.stat(1, "forwarded_in"), 2);
    assert_eq!(queues.stat(1, "replies_copied"), 2);
    assert_eq!(queues.ports[0].port().queue().free_buffers(), 64 - 1);
}

/// More than a ring holds, in bursts: what fits is answered by the owner, the rest at once.
#[test]
fn a_full_ring_turns_away_in_the_frame_that_came() {
    let mut queues = Queues::new("erew", 1);
    let mut requester = queues.requester();
    let set = queues.bench.store(Opcode::Set, queues.keys[1], &[7; 1000]);
    let datagram = queues.datagram(&mut requester, &[set]);
    let mut sent = 0;
    while queues.stat(0, "ring_full") == 0 {
        for _ in 0..20 {
            queues.arrive(0, 0, &datagram);
        }
        sent += queues.round(0);
    }
    let refused = queues.sent(0);
    assert_eq!(refused.len() as u64, queues.stat(0, "ring_full"));
    for (_, answer) in &refused {
        assert_eq!(answer.statuses(), [Status::SlowDown]);
    }
    let mut answered = 0;
    while queues.ports[1].has_forwarded() {
        answered += queues.round(1);
        assert!(queues.sent(1).iter().all(|(_, it)| it.statuses() == [Status::Ok]));
    }
    assert_eq!(answered + refused.len(), sent);
    assert_eq!(queues.stat(1, "replies_no_frame"), 0);
}

/// Workers on different ports: nobody's replies can leave through the other one's, so each executes
/// what it gets, and clients are told of ports that they reach.
#[test]
fn workers_of_another_port_hand_nothing_over() {
    let mut queues = Queues::new("erew", 2);
    let mut requester = queues.requester();
    let key = queues.keys[1];
    let set = queues.bench.store(Opcode::Set, key, b"v");
    let datagram = queues.datagram(&mut requester, &[set]);
    queues.arrive(0, 0, &datagram);
    let done = AtomicBool::new(false);
    let (server, now_s) = (queues.bench.server.clone(), queues.bench.now_s);
    let [first, second] = queues.bench.workers.as_mut_slice() else {
        unreachable!("two workers");
    };
    let port = &mut queues.ports[0];
    std::thread::scope(|scope| {
        scope.spawn(|| second.serve_while(|| !done.load(Ordering::Acquire)));
        let mut context = Context::new(&mut first.engine, &server, now_s);
        assert_eq!(port.round(&mut context, 1).unwrap(), 1);
        done.store(true, Ordering::Release);
    });
    assert_eq!(queues.sent(0)[0].1.statuses(), [Status::Ok]);
    assert_eq!((queues.stat(0, "forwarded"), queues.stat(0, "crossed")), (0, 1));
    assert_eq!(queues.stat(0, "replies_reused"), 1);
    for worker in 0..2 {
        assert_eq!(directory_ports(&mut queues, worker), [BASE + worker; 2]);
    }
}

/// The UDP port of each core, as a worker tells it.
fn directory_ports(queues: &mut Queues, worker: u16) -> Vec<u16> {
    let header = Header { kind: Kind::DirectoryRequest, ..queues.requester().header };
    let mut ask = vec![0; PAYLOAD_BYTES];
    DirectoryRequest { first: 0 }.write(&header, &mut ask);
    queues.arrive(usize::from(worker), worker, &ask);
    assert_eq!(queues.round(usize::from(worker)), 1);
    let frame = queues.ports[usize::from(worker)].port().queue_mut().sent.pop().unwrap();
    let found = parse(&frame, ReceiveChecksums::Unverified).unwrap();
    let payload = &frame[usize::from(found.payload_start)..];
    let (directory, _, entries) = micanite_wire::native::Directory::read(payload).unwrap();
    let cores = entries.chunks(4).take(usize::from(directory.cores));
    let port = |(number, bytes): (usize, &[u8])| match directory.entry(number as u32, bytes) {
        Some(Entry::Core(core)) => core.port,
        _ => panic!("no core"),
    };
    cores.enumerate().map(port).collect()
}

#[test]
fn frames_that_are_lost_slow_clients_down() {
    let mut queues = Queues::new("crcw", 1);
    let mut requester = queues.requester();
    let get = queues.bench.request(Opcode::Get, b"k");
    let datagram = queues.datagram(&mut requester, &[get]);
    queues.arrive(0, 0, &datagram);
    queues.ports[0].port().queue_mut().lost = 1;
    queues.round(0);
    let (_, answer) = queues.sent(0).pop().unwrap();
    assert!(answer.header.slow_down);
    assert_eq!(answer.header.pressure, u16::MAX / 2);
    assert_eq!((queues.stat(0, "frames_lost"), queues.stat(0, "dropped_by_kernel")), (1, 1));
}

#[test]
fn frames_for_others_are_counted_and_not_answered() {
    let mut queues = Queues::new("crcw", 1);
    let mut requester = queues.requester();
    let get = queues.bench.request(Opcode::Get, b"k");
    let datagram = queues.datagram(&mut requester, &[get]);
    queues.arrive(0, 7, &datagram);
    queues.arrive(0, 0, &datagram);
    let last = queues.ports[0].port().queue_mut().arriving.back_mut().unwrap();
    last[60] ^= 1;
    assert_eq!(queues.round(0), 0);
    assert!(queues.sent(0).is_empty());
    assert_eq!(queues.stat(0, "frames_received"), 2);
    assert_eq!(queues.stat(0, "frames_not_ours"), 1);
    assert_eq!(queues.stat(0, "frames_bad_checksums"), 1);
}
