//! Rounds of a worker that a test drives by hand: how many turns they have, and how much they move.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket as ClientSocket};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use micanite_engine::Cache;
use micanite_net::datagram::{UdpOptions, UdpSocket};
use micanite_net::limits::BURST_MESSAGES_MAX;
use micanite_net::tls::{ServerConfig, without_certificate};
use micanite_net::{Poller, Stream};
use micanite_wire::native::{CoreEntry, Opcode, PAYLOAD_BYTES, Request};

use crate::native::testing::{Requester, request, settings};
use crate::native::{NativePort, NativeShared, Sockets, rings};
use crate::shared::Server;
use crate::shared::clock::{Clock, seconds};
use crate::worker::{Incoming, Post, Worker};

const VALUE_BYTES: usize = 900_000;
const CONNECTIONS_MAX: usize = 128;

/// A worker, and the addresses of its native sockets.
pub(super) struct Bench {
    pub worker: Worker<Poller>,
    link: Sender<Post>,
    addresses: Vec<SocketAddr>,
}

impl Bench {
    pub fn new(native_sockets: usize) -> Self {
        Self::with("memory-limit = 64", native_sockets)
    }

    /// The first worker of a server with these options.
    pub fn with(options: &str, native_sockets: usize) -> Self {
        let settings = settings(options);
        let socket = |_| {
            let address = SocketAddr::from(([127, 0, 0, 1], 0));
            UdpSocket::bind(address, &UdpOptions::default()).unwrap()
        };
        let own: Box<[UdpSocket]> = (0..native_sockets).map(socket).collect();
        let address = |socket: &UdpSocket| socket.local_addr().unwrap();
        let addresses: Vec<_> = own.iter().map(address).collect();
        let sockets: Sockets = [own].into();
        let core = CoreEntry { port: addresses.first().map_or(1, SocketAddr::port), node: 0 };
        let native = NativeShared::new([core].into(), PAYLOAD_BYTES, [1, 2, 3]);
        let clock = Clock::start();
        let cache = Arc::new(Cache::new(&settings.engine(1)).unwrap());
        let now_s = seconds(clock.now_ms());
        let server = Arc::new(Server::new(settings, cache, Some(native), now_s).unwrap());
        let rings = rings(server.settings.threads, PAYLOAD_BYTES);
        let rings = rings.into_iter().next().unwrap();
        let native = server.shared.native.as_ref().unwrap();
        let port = (native_sockets > 0).then(|| NativePort::new(0, sockets, rings, native));
        let (link, posts) = channel();
        let streams = Poller::new().unwrap();
        let this = (0, Arc::clone(&server));
        let worker = Worker::new(this, clock, posts, CONNECTIONS_MAX, port, streams).unwrap();
        Self { worker, link, addresses }
    }

    /// One round; events are there already, or it waits for one.
    pub fn round(&mut self) {
        self.worker.round().unwrap();
    }

    /// A new connection that the worker has taken in.
    pub fn connect(&mut self, tls: Option<Arc<ServerConfig>>) -> UnixStream {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let stream = Stream::unix(far).unwrap();
        let incoming = Incoming { stream, tls };
        self.link.send(Post::Connection(incoming)).unwrap();
        let opened = |worker: &Worker<Poller>| worker.counters().connections_opened.get();
        let before = opened(&self.worker);
        self.worker.server.shared.wakers[0].wake();
        while opened(&self.worker) == before || !self.worker.queues.is_empty() {
            self.round();
        }
        near
    }

    /// Stores a long value.
    pub fn store(&mut self, key: &str) {
        let mut client = self.connect(None);
        let mut set = format!("set {key} 0 0 {VALUE_BYTES}\r\n").into_bytes();
        set.resize(set.len() + VALUE_BYTES, b'v');
        set.extend_from_slice(b"\r\n");
        let sending = std::thread::spawn(move || {
            client.write_all(&set).unwrap();
            let mut reply = [0; 8];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(&reply, b"STORED\r\n");
        });
        while !sending.is_finished() {
            self.round();
        }
        sending.join().unwrap();
    }

    fn turn_moved_bytes(&self) -> u64 {
        self.worker.engine.cache().turn_moved_bytes() as u64
    }
}

/// Handshakes have a queue of their own: a connection with more to do goes on in every round.
#[test]
fn handshakes_do_not_take_the_turns_of_others() {
    const SHAKERS: usize = 60;
    const ROUNDS: u64 = 30;
    let mut bench = Bench::new(0);
    let mut client = bench.connect(None);
    let config = without_certificate();
    let mut shakers: Vec<_> = (0..SHAKERS).map(|_| bench.connect(Some(Arc::clone(&config)))).collect();
    for shaker in &mut shakers {
        shaker.write_all(b"\x16\x03\x01").unwrap();
    }
    client.write_all(&b"mn\r\n".repeat(64 * (ROUNDS as usize + 4))).unwrap();
    bench.round();
    for round in 1..=ROUNDS {
        let before = bench.worker.counters().conn_yields.get();
        bench.round();
        let turns = bench.worker.counters().conn_yields.get() - before;
        assert!(turns >= 1, "no turn in round {round}");
        assert!(!bench.worker.queues.is_empty());
    }
    // The connections in a handshake had one turn in each round.
    for _ in 0..SHAKERS {
        bench.round();
    }
    assert!(bench.worker.queues.is_empty());
}

/// However many connections ask for much at the same time, a round moves as much as two turns at most, and
/// each connection gets its turn.
#[test]
fn a_round_moves_no_more_than_a_turn_may_and_one_turn() {
    const APPENDERS: usize = 50;
    let mut bench = Bench::new(0);
    bench.store("a");
    let mut light = bench.connect(None);
    let mut appenders: Vec<_> = (0..APPENDERS).map(|_| bench.connect(None)).collect();
    let one_turn_bytes = 2 * VALUE_BYTES as u64 + 10_000;
    let allowed_bytes = bench.turn_moved_bytes() + one_turn_bytes;
    for pass in 0..3 {
        for appender in &mut appenders {
            appender.write_all(b"append a 0 0 1\r\nx\r\nappend a 0 0 1\r\nx\r\n").unwrap();
        }
        let mut rounds = 0;
        loop {
            let before = bench.worker.engine.moved_total_bytes();
            bench.round();
            let moved_bytes = bench.worker.engine.moved_total_bytes() - before;
            assert!(moved_bytes <= allowed_bytes, "{moved_bytes} bytes");
            rounds += 1;
            if bench.worker.queues.is_empty() {
                break;
            }
            if pass > 0 {
                // All appenders are known to be heavy: a short request is answered in the round of its event.
                light.write_all(b"mn\r\n").unwrap();
                bench.round();
                light.set_nonblocking(true).unwrap();
                let mut reply = [0; 4];
                light.read_exact(&mut reply).expect("a reply at once");
                light.set_nonblocking(false).unwrap();
            }
        }
        assert!(rounds >= APPENDERS / 4, "{rounds} rounds");
        for appender in &mut appenders {
            let mut replies = [0; 16];
            appender.read_exact(&mut replies).unwrap();
            assert_eq!(&replies, b"STORED\r\nSTORED\r\n");
        }
    }
}

/// The native rounds between two looks at the streams end by what all their sockets have moved together.
#[test]
fn native_rounds_count_what_all_sockets_have_moved() {
    let mut bench = Bench::new(2);
    bench.store("a");
    let client = ClientSocket::bind("127.0.0.1:0").unwrap();
    let now_s = seconds(bench.worker.clock.now_ms());
    let server = Arc::clone(&bench.worker.server);
    let mut requester = Requester::at(&server.shared, client.local_addr().unwrap(), now_s);
    requester.header.partition = server.shared.cache.partition_of(server.shared.cache.hash(b"a")) as u16;
    let get = request(&server.shared.cache, Opcode::Get, b"none");
    // The second socket has something for as many bursts as the first, and moves nothing.
    const BURSTS: usize = 3;
    for _ in 0..BURSTS * BURST_MESSAGES_MAX {
        let append = Request {
            value: b"x",
            id: requester.next_id(),
            ..request(&server.shared.cache, Opcode::Append, b"a")
        };
        for (request, address) in [append, get].iter().zip(&bench.addresses) {
            let datagram = requester.datagram(std::slice::from_ref(request)).bytes;
            client.send_to(&datagram, address).unwrap();
        }
    }
    let received = || {
        let counters = &server.shared.native.as_ref().unwrap().counters[0];
        counters.datagrams_received.get() as usize
    };
    let allowed_bytes = bench.turn_moved_bytes() + VALUE_BYTES as u64 + 10_000;
    let first = bench.worker.engine.moved_total_bytes();
    while received() < 2 * BURSTS * BURST_MESSAGES_MAX {
        let before = bench.worker.engine.moved_total_bytes();
        bench.worker.native_is_busy();
        bench.worker.serve_native().unwrap();
        let moved_bytes = bench.worker.engine.moved_total_bytes() - before;
        assert!(moved_bytes <= allowed_bytes, "{moved_bytes} bytes");
    }
    let all_bytes = bench.worker.engine.moved_total_bytes() - first;
    assert!(all_bytes >= BURSTS as u64 * bench.turn_moved_bytes());
}
