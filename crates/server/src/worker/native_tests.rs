//! Workers that run, with sockets on the loopback interface.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket as ClientSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use micanite_engine::Cache;
use micanite_net::datagram::{UdpOptions, UdpSocket};
use micanite_net::{Poller, Stream};
use micanite_wire::native::{CoreEntry, Opcode, PAYLOAD_BYTES, Request, Status};

use crate::native::testing::{Answer, Requester, request, settings};
use crate::native::{NativePort, NativeShared, Sockets, rings};
use crate::shared::clock::{Clock, seconds};
use crate::shared::{self, Ending};
use crate::worker::{Incoming, Post, Worker};

/// Longest wait of a test for a reply or an event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Running workers.
struct Server {
    state: Arc<shared::Server>,
    clock: Clock,
    links: Vec<Sender<Post>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    addresses: Vec<SocketAddr>,
}

impl Server {
    fn start(options: &str) -> Self {
        let settings = settings(options);
        let workers = settings.threads;
        let socket = |_| {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            [UdpSocket::bind(address, &UdpOptions::default()).unwrap()].into()
        };
        let sockets: Vec<Box<[UdpSocket]>> = (0..workers).map(socket).collect();
        let sockets: Sockets = sockets.into();
        let of = |sockets: &[UdpSocket]| sockets[0].local_addr().unwrap();
        let addresses: Vec<_> = sockets.iter().map(|sockets| of(sockets)).collect();
        let core = |address: &SocketAddr| CoreEntry { port: address.port(), node: 0 };
        let cores = addresses.iter().map(core).collect();
        let native = NativeShared::new(cores, PAYLOAD_BYTES, [1, 2, 3]);
        let clock = Clock::start();
        let now_s = seconds(clock.now_ms());
        let cache = Arc::new(Cache::new(&settings.engine(1)).unwrap());
        let state = Arc::new(shared::Server::new(settings, cache, Some(native), now_s).unwrap());
        let (mut links, mut threads) = (Vec::new(), Vec::new());
        for (number, rings) in rings(workers, PAYLOAD_BYTES).into_iter().enumerate() {
            let (posts, receiver) = channel();
            links.push(posts);
            let native = state.shared.native.as_ref().unwrap();
            let port = NativePort::new(number, Arc::clone(&sockets), rings, native);
            let state = Arc::clone(&state);
            let streams = Poller::new().unwrap();
            let this = (number, state);
            let worker = Worker::new(this, clock, receiver, 16, Some(port), streams).unwrap();
            threads.push(std::thread::spawn(move || worker.run()));
        }
        Self { state, clock, links, threads, addresses }
    }

    /// A new connection of a worker.
    fn connect(&self, worker: usize) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(PATIENCE)).unwrap();
        let stream = Stream::unix(far).unwrap();
        self.links[worker].send(Post::Connection(Incoming::plain(stream))).unwrap();
        self.state.shared.wakers[worker].wake();
        near
    }

    fn client(&self) -> Client<'_> {
        let socket = ClientSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let peer = socket.local_addr().unwrap();
        let now_s = seconds(self.clock.now_ms());
        Client { requester: Requester::at(&self.state.shared, peer, now_s), socket, server: self }
    }

    fn end(&self, how: Ending) {
        self.state.end(how);
        self.state.shared.wakers.iter().for_each(|waker| waker.wake());
    }

    fn join(self) {
        for thread in self.threads {
            thread.join().unwrap().unwrap();
        }
    }
}

struct Client<'a> {
    requester: Requester,
    socket: ClientSocket,
    server: &'a Server,
}

impl Client<'_> {
    fn owner(&self, key: &[u8]) -> (u16, usize) {
        let cache = &self.server.state.shared.cache;
        let partition = cache.partition_of(cache.hash(key));
        (partition as u16, cache.route(partition).unwrap().owner)
    }

    /// A key that a worker owns.
    fn key_of(&self, worker: usize) -> &'static [u8] {
        let keys: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"];
        let own = keys.iter().find(|key| self.owner(key).1 == worker);
        own.expect("each worker owns one of many")
    }

    fn send(&mut self, to: usize, requests: &[Request<'_>]) {
        self.requester.header.partition = self.owner(requests[0].key).0;
        let datagram = self.requester.datagram(requests);
        let address = self.server.addresses[to];
        self.socket.send_to(&datagram.bytes, address).unwrap();
    }

    /// The next answer, and the worker whose socket it came from.
    fn receive(&self) -> (usize, Answer) {
        let mut bytes = [0; 2048];
        let (length, from) = self.socket.recv_from(&mut bytes).expect("an answer");
        let addresses = &self.server.addresses;
        let from = addresses.iter().position(|address| *address == from);
        (from.expect("one of ours"), Answer::read(&bytes[..length]))
    }

    /// The only reply to a request that a worker's port is asked.
    fn ask(&mut self, to: usize, request: Request<'_>) -> Answer {
        self.send(to, &[request]);
        let (from, answer) = self.receive();
        assert_eq!(from, to, "the reply comes from the port that was asked");
        answer
    }

    fn set(&self, key: &'static [u8]) -> Request<'static> {
        Request { value: b"0", ..request(&self.server.state.shared.cache, Opcode::Set, key) }
    }
}

const TWO: &str = "threads = 2\nmemory-limit = 64\naccess = \"erew\"";

#[test]
fn every_port_answers_for_every_key_also_from_sleep() {
    let server = Server::start(TWO);
    let mut client = server.client();
    for round in 0..200 {
        for (key_of, to) in [(0, 0), (0, 1), (1, 1), (1, 0)] {
            let set = client.set(client.key_of(key_of));
            assert_eq!(client.ask(to, set).statuses(), [Status::Ok], "{round}");
        }
    }
    let counters = &server.state.shared.native.as_ref().unwrap().counters;
    // A datagram counts after it was forwarded, so its reply may come first.
    let began = Instant::now();
    while counters.iter().any(|each| each.forwarded.get() < 200) && began.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(counters[0].forwarded.get(), 200);
    assert_eq!(counters[1].forwarded.get(), 200);
    assert_eq!(counters[0].forwarded_in.get(), 200);
    server.end(Ending::AtOnce);
    server.join();
}

/// A worker without connections has nothing to finish, but others may have: until then it is
/// the owner of its partitions, for clients of the native protocol as for other workers.
#[test]
fn a_worker_that_waits_for_the_end_of_others_answers_datagrams() {
    let server = Server::start(TWO);
    let mut client = server.client();
    let mut stream = server.connect(0);
    const BYTES: usize = 500_000;
    const GETS: usize = 40;
    let value = vec![b'v'; BYTES];
    stream.write_all(format!("set k 0 0 {BYTES}\r\n").as_bytes()).unwrap();
    stream.write_all(&value).unwrap();
    stream.write_all(b"\r\n").unwrap();
    let mut reply = [0; 8];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"STORED\r\n");
    // More than the sockets hold: the first worker has replies to send until they are taken.
    stream.write_all(&b"get k\r\n".repeat(GETS)).unwrap();
    let mut replies = vec![0; 5];
    stream.read_exact(&mut replies).unwrap();
    server.end(Ending::Gracefully);
    for _ in 0..50 {
        for (key_of, to) in [(1, 1), (1, 0), (0, 1), (0, 0)] {
            let set = client.set(client.key_of(key_of));
            assert_eq!(client.ask(to, set).statuses(), [Status::Ok]);
        }
    }
    stream.read_to_end(&mut replies).unwrap();
    let one = [format!("VALUE k 0 {BYTES}\r\n").as_bytes(), &value, b"\r\nEND\r\n"].concat();
    assert!(replies == one.repeat(GETS), "{} bytes", replies.len());
    server.join();
}

#[test]
fn datagrams_that_do_not_end_do_not_keep_a_server_from_ending() {
    for how in [Ending::Gracefully, Ending::AtOnce] {
        let server = Server::start(TWO);
        let mut client = server.client();
        let (first, second) = (client.key_of(0), client.key_of(1));
        let (first, second) = (client.set(first), client.set(second));
        client.ask(0, first);
        let flood = client.socket.try_clone().unwrap();
        let addresses = server.addresses.clone();
        let arrivals = [first, second].map(|set| client.requester.datagram(&[set]).bytes);
        let (stop, stopped) = channel::<()>();
        let flooding = std::thread::spawn(move || {
            // Errors of sending are ignored, because the server may have ended.
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                for (bytes, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    let _ = flood.send_to(&arrivals[bytes], addresses[to]);
                }
            }
        });
        for _ in 0..1000 {
            client.receive();
        }
        server.end(how);
        server.join();
        drop(stop);
        flooding.join().unwrap();
    }
}

/// Requests of a window, each up to three times, at random ports: with EREW the owner executes
/// them all, with CRCW both workers at the same time.
#[test]
fn increments_are_exact_however_often_and_wherever_they_arrive() {
    for access in ["erew", "crcw"] {
        let server = Server::start(&format!("threads = 2\nmemory-limit = 64\naccess = \"{access}\""));
        let mut client = server.client();
        let (mut random, mut id) = (1u64, 0);
        let keys = [b"n0", b"n1"];
        let mut seen = HashMap::new();
        for key in keys {
            let zero = client.set(key);
            client.ask(0, zero);
        }
        for round in 0..60 {
            let mut arrivals = Vec::new();
            for _ in 0..48 {
                id += 1;
                let copies = 1 + below(&mut random, 3);
                arrivals.extend(std::iter::repeat_n(id, copies));
            }
            for last in (1..arrivals.len()).rev() {
                arrivals.swap(last, below(&mut random, last + 1));
            }
            if round == 0 {
                // The server knows a client from its first request that was not sent again.
                arrivals.retain(|id| *id != 1);
                arrivals.insert(0, 1);
            }
            for (place, id) in arrivals.iter().enumerate() {
                client.requester.header.echo = *id;
                client.requester.header.resent = arrivals[..place].contains(id);
                let key = keys[(*id % 2) as usize];
                let increment = Request {
                    argument: 1,
                    id: *id,
                    ..request(&server.state.shared.cache, Opcode::Increment, key)
                };
                client.send(below(&mut random, 2), &[increment]);
                if (round, place) == (0, 0) {
                    let (_, answer) = client.receive();
                    assert_eq!(answer.replies[0].number, 1);
                    seen.insert(1, 1);
                }
            }
            let open = arrivals.len() - usize::from(round == 0);
            for _ in 0..open {
                let (_, answer) = client.receive();
                let told = &answer.replies[0];
                if told.status == Status::SlowDown {
                    continue; // the other worker was just executing it
                }
                assert_eq!(told.status, Status::Ok);
                let number = seen.entry(answer.header.echo).or_insert(told.number);
                assert_eq!(*number, told.number);
            }
        }
        for (which, key) in keys.into_iter().enumerate() {
            let own = seen.iter().filter(|(id, _)| (**id % 2) as usize == which);
            let mut numbers: Vec<_> = own.map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            let expected: Vec<u64> = (1..=id / 2).collect();
            assert_eq!(numbers, expected, "{access}");
            let get = request(&server.state.shared.cache, Opcode::Get, key);
            let value = client.ask(0, get).replies[0].value.clone();
            assert_eq!(value, (id / 2).to_string().into_bytes());
        }
        server.end(Ending::AtOnce);
        server.join();
    }
}

fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) as usize % bound
}
