//! Datagrams of the native protocol are answered without touching the allocator.

mod counting;

use std::net::UdpSocket as ClientSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_engine::{Cache, Worker};
use micanite_net::datagram::{UdpOptions, UdpSocket};
use micanite_server::configuration::{Options, Settings};
use micanite_server::native::{Cookies, NativePort, NativeShared, Sockets, rings};
use micanite_server::session::Context;
use micanite_server::shared;
use micanite_wire::native::{
    CoreEntry, DirectoryRequest, Header, Kind, Opcode, PAYLOAD_BYTES, Request, RequestWriter,
};

const NOW_S: u32 = 1000;
const WORKERS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(60);

/// Two workers in one thread.
struct Server {
    state: shared::Server,
    sockets: Sockets,
    workers: Vec<(Worker, NativePort)>,
}

impl Server {
    fn new() -> Self {
        let options = "threads = 2\nmemory-limit = 64\naccess = \"erew\"";
        let options: Options = toml::from_str(options).unwrap();
        let settings = Settings::of(&options, 1).unwrap();
        let cache = Arc::new(Cache::new(&settings.engine(1)).unwrap());
        let socket = || {
            let address = "127.0.0.1:0".parse().unwrap();
            UdpSocket::bind(address, &UdpOptions::default()).unwrap()
        };
        let sockets: Vec<Box<[UdpSocket]>> = (0..WORKERS).map(|_| [socket()].into()).collect();
        let sockets: Sockets = sockets.into();
        let core = CoreEntry { port: 1, node: 0 };
        let native = NativeShared::new([core; WORKERS].into(), PAYLOAD_BYTES, [1, 2, 3]);
        let rings = rings(WORKERS, PAYLOAD_BYTES).into_iter().enumerate();
        let workers = rings
            .map(|(number, rings)| {
                let port = NativePort::new(number, Arc::clone(&sockets), rings, &native);
                (cache.worker(number).unwrap(), port)
            })
            .collect();
        let state = shared::Server::new(settings, cache, Some(native), NOW_S).unwrap();
        Self { state, sockets, workers }
    }

    /// Rounds of both until so many datagrams were sent; returns the calls of the allocator.
    fn run(&mut self, answers: u64) -> u64 {
        let native = self.state.shared.native.as_ref().unwrap();
        let sent = || -> u64 {
            let counters = native.counters.iter();
            counters.map(|counters| counters.datagrams_sent.get()).sum()
        };
        let goal = sent() + answers;
        let (before, began) = (counting::calls(), Instant::now());
        while sent() < goal {
            assert!(began.elapsed() < PATIENCE, "{} of {goal} answers", sent());
            for (worker, port) in &mut self.workers {
                let mut context = Context::new(worker, &self.state, NOW_S);
                port.round(&mut context, 1).unwrap();
            }
        }
        assert_eq!(sent(), goal);
        counting::calls() - before
    }
}

/// A client that knows everything, and what it asks.
struct Client {
    socket: ClientSocket,
    header: Header,
}

impl Client {
    fn new(server: &Server) -> Self {
        let socket = ClientSocket::bind("127.0.0.1:0").unwrap();
        let native = server.state.shared.native.as_ref().unwrap();
        let peer = socket.local_addr().unwrap();
        let cookie = Cookies::new(native.cookie_key).check(peer, 0, NOW_S);
        let header = Header {
            client: 1,
            generation: native.generation(&server.state.shared.cache),
            cookie: cookie.renewal,
            ..Header::REQUESTS
        };
        Self { socket, header }
    }

    fn datagram(&self, requests: &[Request<'_>], cache: &Cache) -> Vec<u8> {
        let mut bytes = vec![0; PAYLOAD_BYTES];
        let mut writer = RequestWriter::new(&mut bytes);
        for request in requests {
            writer.push(request).unwrap();
        }
        let partition = cache.partition_of(cache.hash(requests[0].key)) as u16;
        let length = writer.finish(&Header { partition, ..self.header });
        bytes.truncate(length);
        bytes
    }

    fn directory(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAYLOAD_BYTES];
        let header = Header { kind: Kind::DirectoryRequest, ..self.header };
        DirectoryRequest { first: 0 }.write(&header, &mut bytes);
        bytes
    }

    /// Sends each datagram to each worker; returns how many that is.
    fn send(&self, server: &Server, datagrams: &[Vec<u8>]) -> u64 {
        for sockets in server.sockets.iter() {
            let to = sockets[0].local_addr().unwrap();
            for datagram in datagrams {
                self.socket.send_to(datagram, to).unwrap();
            }
        }
        (datagrams.len() * server.sockets.len()) as u64
    }
}

fn request<'a>(cache: &Cache, opcode: Opcode, key: &'a [u8], id: u64) -> Request<'a> {
    Request {
        opcode,
        wants_cas: opcode.answers_value(),
        wants_entry: false,
        hash: cache.hash(key).0,
        flags: 0,
        expiry_s: 0,
        argument: u64::from(opcode.has_argument()),
        id: if opcode.has_id() { id } else { 0 },
        key,
        value: if opcode.has_value() { &[b'7'; 15] } else { b"" },
    }
}

// The only test here: another one would count its allocations in.
#[test]
fn datagrams_are_answered_without_an_allocation() {
    let mut server = Server::new();
    let client = Client::new(&server);
    let cache = Arc::clone(&server.state.shared.cache);
    // Every operation for each of many keys, so that both workers hand things over.
    let keys: Vec<String> = (0..20).map(|number| format!("key{number}")).collect();
    let mut id = 0;
    let mut datagrams = Vec::new();
    for key in &keys {
        let requests = Opcode::ALL.map(|opcode| {
            id += u64::from(opcode.has_id());
            let is_noop = opcode == Opcode::Noop;
            let key = if is_noop { b"" } else { key.as_bytes() };
            request(&cache, opcode, key, id)
        });
        datagrams.push(client.datagram(&requests[1..], &cache));
        datagrams.push(client.datagram(&requests[..1], &cache));
    }
    let last = datagrams.len() - 1;
    let good = datagrams[last - 1].clone();
    let with = |at: usize, byte: u8| {
        let mut datagram = good.clone();
        datagram[at] ^= byte;
        datagram
    };
    // Stale, without a cookie, of another version, a wrong count, a wrong hash of the second request.
    datagrams.extend([with(8, 1), with(32, 1), with(2, 1), with(6, 1), with(80, 1)]);
    datagrams.push(client.directory());
    // The ids of a new client are remembered in memory that is taken once.
    let first = request(&cache, Opcode::Append, b"key0", 128);
    let introduction = client.datagram(&[first], &cache);
    let answers = client.send(&server, &[introduction]);
    assert!(server.run(answers) > 0);
    for _ in 0..3 {
        let answers = client.send(&server, &datagrams);
        assert_eq!(server.run(answers), 0, "calls of the allocator");
    }
    let native = server.state.shared.native.as_ref().unwrap();
    let count = |name| {
        let mut sum = 0;
        for counters in &native.counters {
            counters.each(|this, count| sum += if this == name { count } else { 0 });
        }
        sum
    };
    for name in [
        "forwarded",
        "answered_again",
        "stale",
        "unproven",
        "other_versions",
        "bad_datagrams",
        "bad_requests",
        "directories",
    ] {
        assert!(count(name) > 0, "{name}");
    }
    assert_eq!(count("ring_full"), 0);
}
