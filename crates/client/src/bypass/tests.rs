//! Queues in memory, changing next hops, and a server that answers.

use super::Longest;
use super::hops::Hops;
use super::mailbox::{Forwarded, Mailbox};
use super::own_hops::{OwnHops, SharedNeighbours};
use super::socket::FrameSocket;
use super::source::Bound;
use crate::driver::Driver;
use crate::driver::tests::fake::Fake;
use crate::operation::{Operation, Outcome};
use crate::options::{Options, ServerAddress};
use micanite_net::frames::testing::MemoryQueue;
use micanite_net::frames::{
    FramePort, Header, Local, MacAddress, Neighbours, ReceiveChecksums, ReplyTo, parse,
};
use micanite_wire::native::PartitionAccess;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const CLIENT: MacAddress = [2, 0, 0, 0, 0, 1];
const SERVER: MacAddress = [2, 0, 0, 0, 0, 2];
const OTHER: MacAddress = [2, 0, 0, 0, 0, 3];
const FIRST: u16 = 50_000;
const MS: u64 = 1_000_000;

fn address() -> IpAddr {
    "10.0.0.9".parse().unwrap()
}

/// Next hops set by a test.
#[derive(Default)]
struct TestHops {
    mac: Option<MacAddress>,
    /// Datagrams that took the slow path, with their destinations.
    slow: Vec<(SocketAddr, Vec<u8>)>,
    strays: Vec<(Vec<u8>, SocketAddr)>,
}

impl Hops<MemoryQueue> for TestHops {
    fn header(&mut self, _: &mut FramePort<MemoryQueue>, to: SocketAddr, _: u64) -> Option<Header> {
        let from = SocketAddr::new(address(), FIRST);
        self.mac.map(|mac| Header::new((CLIENT, from), (mac, to), None))
    }

    fn send_slowly(&mut self, to: SocketAddr, bytes: &[u8]) -> bool {
        self.slow.push((to, bytes.to_vec()));
        true
    }

    fn suspect_move(&mut self, _: &mut FramePort<MemoryQueue>, _: SocketAddr) -> bool {
        true
    }

    fn take_kernel_datagrams(&mut self, _: u64, mut take: impl FnMut(&[u8], SocketAddr)) -> usize {
        let strays = std::mem::take(&mut self.strays);
        for (bytes, from) in &strays {
            take(bytes, *from);
        }
        strays.len()
    }

    fn bound(&self) -> &[Bound] {
        &[]
    }
}

fn frames(buffers: usize, queues: u16) -> FramePort<MemoryQueue> {
    let local = Local { addresses: vec![address()], ports: FIRST..=FIRST + queues - 1 };
    FramePort::new(MemoryQueue::new(buffers, 4096, 64), local, 1472)
}

struct Client<H> {
    driver: Driver,
    socket: FrameSocket<MemoryQueue, H>,
    now_ns: u64,
    ended: Vec<Outcome>,
}

impl<H: Hops<MemoryQueue>> Client<H> {
    fn new(port: FramePort<MemoryQueue>, hops: H) -> Self {
        let none: Arc<[Mailbox]> = Vec::new().into();
        Self::with_mailboxes(port, hops, 0, (none, Forwarded::default()))
    }

    fn with_mailboxes(
        port: FramePort<MemoryQueue>,
        hops: H,
        number: usize,
        boxes: (Arc<[Mailbox]>, Forwarded),
    ) -> Self {
        let server = ServerAddress { address: server().base, name: "server".to_owned(), weight: 1 };
        Self {
            driver: Driver::new(Options::default(), &[server], 1 + number as u64),
            socket: FrameSocket::new(port, hops, (FIRST, number), boxes),
            now_ns: 1,
            ended: Vec::new(),
        }
    }

    fn poll(&mut self) {
        self.now_ns += MS;
        let ended = &mut self.ended;
        let mut sink = |completion: crate::Completion<'_>| ended.push(completion.outcome);
        let driver = &mut self.driver;
        self.socket.receive(self.now_ns, driver, &mut sink).unwrap();
        driver.on_time(self.now_ns, &mut sink);
        self.socket.transmit(self.now_ns, driver).unwrap();
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.socket.port.queue_mut().sent)
    }

    /// Lets the server answer every frame that was sent to this station; returns their number.
    fn answer(&mut self, fake: &mut Fake, station: MacAddress) -> usize {
        let frames = self.sent();
        for frame in &frames {
            if frame[..6] == station
                && let Some(reply) = answer_frame(fake, frame)
            {
                self.socket.port.queue_mut().arriving.push_back(reply);
            }
        }
        frames.len()
    }

    fn submit(&mut self, operation: &Operation<'_>) {
        self.driver.submit(self.now_ns, operation, 1).unwrap();
    }

    /// Executes one operation.
    fn call(&mut self, fake: &mut Fake, station: MacAddress, operation: &Operation<'_>) -> Outcome {
        self.submit(operation);
        for _ in 0..100 {
            self.poll();
            self.answer(fake, station);
            if let Some(outcome) = self.ended.pop() {
                return outcome;
            }
        }
        panic!("no reply");
    }

    /// Waits until the server's directory is known.
    fn introduce(&mut self, fake: &mut Fake) {
        for _ in 0..100 {
            self.poll();
            self.answer(fake, SERVER);
            if self.driver.is_alive(0) {
                return;
            }
        }
        panic!("no directory");
    }
}

fn server() -> Fake {
    Fake::new("10.0.0.1:1000", 2, 4, PartitionAccess::Erew)
}

fn payload(frame: &[u8]) -> (SocketAddr, SocketAddr, &[u8]) {
    let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
    let start = usize::from(found.payload_start);
    let payload = &frame[start..start + usize::from(found.payload_bytes)];
    (found.source, found.destination, payload)
}

/// Builds the frame of the reply to a request's frame.
fn answer_frame(fake: &mut Fake, frame: &[u8]) -> Option<Vec<u8>> {
    let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
    let (_, to, request) = payload(frame);
    let reply = fake.answer(to, request)?;
    let mut port = frames(1, 1);
    let header = Header::of(frame, &found).flipped();
    let mut replies = port.replies();
    assert!(replies.open(ReplyTo::Header(&header)));
    replies.slot()[..reply.len()].copy_from_slice(&reply);
    replies.commit(reply.len());
    port.send().unwrap();
    port.queue_mut().sent.pop()
}

fn known() -> TestHops {
    TestHops { mac: Some(SERVER), ..TestHops::default() }
}

#[test]
fn operations_use_frames_and_return_all_buffers() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    for number in 0..200 {
        let key = format!("key {number}");
        let set = Operation::set(key.as_bytes(), b"value");
        assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
        let get = Operation::get(key.as_bytes());
        assert_eq!(client.call(&mut fake, SERVER, &get), Outcome::Ok);
    }
    assert_eq!(client.driver.counters().bogus, 0);
    assert!(fake.seen.iter().all(|seen| *seen > 0), "both ports are used");
    let counters = client.socket.counters();
    assert_eq!(counters.copied_frames, client.driver.counters().sent + fake.directory_requests);
    assert_eq!(counters.received_datagrams, counters.received_frames);
    assert_eq!((counters.sent_by_kernel, counters.no_frame), (0, 0));
    client.poll();
    assert_eq!(client.socket.port.queue().free_buffers(), 64);
}

#[test]
fn datagrams_use_the_slow_path_until_the_next_hop_is_known() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), TestHops::default()), server());
    client.poll();
    assert_eq!(client.sent().len(), 0);
    let (to, bytes) = client.socket.hops.slow.pop().unwrap();
    assert_eq!(to, fake.base);
    // The kernel has resolved the neighbour, and its reply arrives at the port.
    client.socket.hops.mac = Some(SERVER);
    let header = Header::new((SERVER, fake.base), (CLIENT, SocketAddr::new(address(), FIRST)), None);
    let mut port = frames(1, 1);
    let mut replies = port.replies();
    assert!(replies.open(ReplyTo::Header(&header)));
    let reply = fake.answer(to, &bytes).unwrap();
    replies.slot()[..reply.len()].copy_from_slice(&reply);
    replies.commit(reply.len());
    port.send().unwrap();
    let reply = port.queue_mut().sent.pop().unwrap();
    client.socket.port.queue_mut().arriving.push_back(reply);
    client.poll();
    assert!(client.driver.is_alive(0));
    let set = Operation::set(b"key", b"value");
    assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
    assert!(client.socket.hops.slow.is_empty());
    assert_eq!(client.socket.counters().sent_by_kernel, 1);
}

#[test]
fn moved_servers_are_followed() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    let set = Operation::set(b"key", b"value");
    assert_eq!(client.call(&mut fake, SERVER, &set), Outcome::Ok);
    // The kernel knows the new station, and the server is not silent.
    client.socket.hops.mac = Some(OTHER);
    client.now_ns += 300 * MS;
    let get = Operation::get(b"key");
    assert_eq!(client.call(&mut fake, OTHER, &get), Outcome::Ok);
    assert_eq!(client.driver.counters().timed_out, 0);
    assert!(client.socket.hops.slow.is_empty());
}

#[test]
fn reused_queues_restart_their_clock() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.now_ns = 3_600_000 * MS;
    client.introduce(&mut fake);
    let Client { mut socket, .. } = client;
    socket.begin().unwrap();
    let mut next = Client::new(frames(1, 1), TestHops::default());
    next.socket = socket;
    next.introduce(&mut fake);
    next.socket.hops.mac = Some(OTHER);
    next.now_ns += 300 * MS;
    let get = Operation::get(b"key");
    assert_eq!(next.call(&mut fake, OTHER, &get), Outcome::NotFound);
}

#[test]
fn silent_servers_use_the_slow_path_until_they_reply() {
    let (mut client, mut fake) = (Client::new(frames(64, 1), known()), server());
    client.introduce(&mut fake);
    // The station is gone, which the kernel does not know yet.
    client.submit(&Operation::set(b"key", b"value"));
    for _ in 0..1500 {
        client.poll();
    }
    let slow = std::mem::take(&mut client.socket.hops.slow);
    assert!(!slow.is_empty());
    // A datagram from the kernel makes it resolve the neighbour again, and then it knows the new
    // station.
    client.sent();
    client.socket.hops.mac = Some(OTHER);
    let (to, bytes) = slow.last().unwrap();
    let reply = fake.answer(*to, bytes).unwrap();
    client.socket.hops.strays.push((reply, *to));
    client.poll();
    assert_eq!(client.ended.pop(), Some(Outcome::Ok));
    let get = Operation::get(b"key");
    assert_eq!(client.call(&mut fake, OTHER, &get), Outcome::Ok);
    assert_eq!(client.socket.counters().received_by_kernel, 1);
}

#[test]
fn without_frames_datagrams_wait_and_none_is_lost() {
    let (mut client, mut fake) = (Client::new(frames(2, 1), known()), server());
    client.introduce(&mut fake);
    for number in 0..100 {
        let key = format!("key {number}");
        client.submit(&Operation::set(key.as_bytes(), b"value"));
        client.driver.flush();
    }
    for _ in 0..300 {
        client.poll();
        client.answer(&mut fake, SERVER);
    }
    assert_eq!(client.ended, [Outcome::Ok; 100]);
    assert_eq!(client.driver.counters().resent, 0);
    assert!(!client.socket.is_blocked());
    assert_eq!(client.socket.port.queue().free_buffers(), 2);
}

#[test]
fn datagrams_of_other_threads_are_forwarded() {
    let boxes = [Mailbox::new().unwrap(), Mailbox::new().unwrap()];
    let (mailboxes, forwarded): (Vec<_>, Vec<_>) = boxes.into_iter().unzip();
    let mailboxes: Arc<[Mailbox]> = mailboxes.into();
    let mut clients: Vec<_> = forwarded
        .into_iter()
        .enumerate()
        .map(|(number, forwarded)| {
            let boxes = (Arc::clone(&mailboxes), forwarded);
            Client::with_mailboxes(frames(64, 2), known(), number, boxes)
        })
        .collect();
    let mut fake = server();
    // The test's hops send from the first port. Everything for the second one is rewritten below.
    for _ in 0..10 {
        for client in &mut clients {
            client.poll();
        }
        let requests: Vec<_> = clients.iter_mut().map(Client::sent).collect();
        for (number, frames) in requests.iter().enumerate() {
            for frame in frames {
                let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
                let (_, to, request) = payload(frame);
                let reply = fake.answer(to, request).unwrap();
                let from = SocketAddr::new(address(), FIRST + number as u16);
                let header = Header::new((CLIENT, from), (SERVER, found.destination), None);
                let other = &mut clients[1 - number].socket.port;
                let wrong = frame_of(&header.flipped(), &reply);
                other.queue_mut().arriving.push_back(wrong);
            }
        }
    }
    for client in &mut clients {
        assert!(client.driver.is_alive(0));
        assert!(client.socket.counters().passed_on > 0);
        assert_eq!(client.driver.counters().bogus, 0);
    }
}

#[test]
fn datagrams_to_servers_of_ipv6_leave_room_for_its_headers() {
    let server = |address: &str| ServerAddress {
        address: address.parse().unwrap(),
        name: address.to_owned(),
        weight: 1,
    };
    let (v4, v6) = (server("10.0.0.1:11300"), server("[fd00::1]:11300"));
    // An MTU of 1,500.
    let longest = Longest::new(1472, 1452);
    assert_eq!(longest.to(std::slice::from_ref(&v4)), 1472);
    assert_eq!(longest.to(&[v4, v6]), 1452);
}

fn frame_of(header: &Header, bytes: &[u8]) -> Vec<u8> {
    let mut port = frames(1, 1);
    let mut replies = port.replies();
    assert!(replies.open(ReplyTo::Header(header)));
    replies.slot()[..bytes.len()].copy_from_slice(bytes);
    replies.commit(bytes.len());
    port.send().unwrap();
    port.queue_mut().sent.pop().unwrap()
}

#[test]
fn own_neighbours_are_resolved_and_shared_between_queues() {
    let addresses = [(address(), 24)];
    let neighbours = || Neighbours::new(CLIENT, &addresses, None);
    let shared = SharedNeighbours::default();
    let client = || {
        let hops = OwnHops::new(neighbours(), FIRST, shared.clone());
        Client::new(frames(64, 1).with_neighbours(neighbours()), hops)
    };
    let (mut first, mut second, mut fake) = (client(), client(), server());
    first.poll();
    second.poll();
    let questions = [first.sent(), second.sent()];
    for question in &questions {
        assert_eq!(question.len(), 1, "one question, and no datagram");
        assert_eq!(question[0][12..14], [0x08, 0x06], "ARP");
    }
    // The server's station answers. Both answers arrive at the first queue.
    let station = [("10.0.0.1".parse().unwrap(), 24)];
    let mut station = Neighbours::new(SERVER, &station, None);
    for mut frame in questions.into_iter().flatten() {
        let bytes = frame.len();
        frame.resize(128, 0);
        let bytes = station.receive(&mut frame, bytes).unwrap();
        frame.truncate(bytes);
        first.socket.port.queue_mut().arriving.push_back(frame);
    }
    first.introduce(&mut fake);
    second.introduce(&mut fake);
    let set = Operation::set(b"key", b"value");
    assert_eq!(second.call(&mut fake, SERVER, &set), Outcome::Ok);
}
