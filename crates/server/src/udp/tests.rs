//! Datagrams and their replies, without sockets.

use micanite_wire::memcache::binary::{self, HEADER_BYTES, REPLY_MAGIC, REQUEST_MAGIC};
use micanite_wire::memcache::udp::Frame;

use super::{Answer, UdpCounters, answer};
use crate::limits::{INPUT_BYTES, UDP_REPLY_BYTES_MAX};
use crate::testing::Bench;

struct Udp {
    bench: Bench,
    counters: UdpCounters,
    room: Vec<u8>,
}

impl Udp {
    fn new(options: &str) -> Self {
        Self {
            bench: Bench::new(options),
            counters: UdpCounters::default(),
            room: vec![0; UDP_REPLY_BYTES_MAX],
        }
    }

    fn answer(&mut self, datagram: &[u8]) -> Option<Answer> {
        let (counters, room) = (&self.counters, &mut self.room);
        self.bench.with_context(|context| answer(datagram, room, counters, context))
    }

    /// The reply to a request of one datagram.
    fn ask(&mut self, requests: impl AsRef<[u8]>) -> String {
        String::from_utf8_lossy(self.ask_bytes(requests)).into_owned()
    }

    fn ask_bytes(&mut self, requests: impl AsRef<[u8]>) -> &[u8] {
        let frame = Frame { request_id: 0x1234, sequence: 0, total: 1 };
        let datagram = [&frame.to_bytes()[..], requests.as_ref()].concat();
        let answer = self.answer(&datagram).expect("a request");
        assert_eq!(answer.request_id, 0x1234);
        &self.room[..answer.reply_bytes]
    }
}

fn binary_request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![REQUEST_MAGIC, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend(*b"opaq\0\0\0\0\0\0\0\0");
    for part in [extras, key, value] {
        bytes.extend_from_slice(part);
    }
    bytes
}

#[test]
fn a_datagram_is_a_conversation() {
    let mut udp = Udp::new("");
    assert_eq!(udp.ask("set a 5 0 2\r\nxy\r\n"), "STORED\r\n");
    assert_eq!(udp.ask("get a none\r\n"), "VALUE a 5 2\r\nxy\r\nEND\r\n");
    assert_eq!(udp.ask("set a 0 0 1 noreply\r\nz\r\n"), "");
    let two = udp.ask("get a\r\nget none\r\nbogus\r\n");
    assert_eq!(two, "VALUE a 0 1\r\nz\r\nEND\r\nEND\r\nERROR\r\n");
    assert_eq!(udp.ask("quit\r\n"), "");
    assert_eq!(udp.ask("get a\r\nquit\r\nget a\r\n"), "VALUE a 0 1\r\nz\r\nEND\r\n");
    assert_eq!(udp.ask(""), "");
    assert_eq!(udp.counters.incomplete.get(), 0);
}

#[test]
fn nothing_is_kept_between_datagrams() {
    let mut udp = Udp::new("");
    let bad_chunk = "CLIENT_ERROR bad data chunk\r\n";
    assert_eq!(udp.ask("set a 0 0 10\r\nx"), bad_chunk);
    assert_eq!(udp.ask("get a\r\n"), "END\r\n");
    assert_eq!(udp.ask("set a 0 0 10 noreply\r\nx"), "");
    assert_eq!(udp.ask("get a"), "");
    // Too long for a block, which a stream would wait for.
    let long = format!("set a 0 0 {}\r\nx", 2 * INPUT_BYTES);
    assert_eq!(udp.ask(&long), bad_chunk);
    assert_eq!(udp.counters.incomplete.get(), 4);
    // Longer than values may be, so that it does not matter that the rest is missing.
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(udp.ask("set a 0 0 2000000\r\nx"), too_large);
    assert_eq!(udp.ask("get a\r\n"), "END\r\n");
    assert_eq!(udp.counters.incomplete.get(), 4);
}

#[test]
fn a_datagram_takes_values_that_are_longer_than_a_block() {
    let mut udp = Udp::new("");
    let value = "v".repeat(65_000);
    let set = format!("set long 0 0 65000\r\n{value}\r\n");
    assert!(set.len() > 3 * INPUT_BYTES);
    assert_eq!(udp.ask(&set), "STORED\r\n");
    let reply = format!("VALUE long 0 65000\r\n{value}\r\nEND\r\n");
    assert_eq!(udp.ask("get long\r\n"), reply);
    let set = binary_request(1, &[0; 8], b"long", &[b'w'; 60_000]);
    assert_eq!(udp.ask(&set).as_bytes()[7], 0);
    assert!(udp.ask("get long\r\n").starts_with("VALUE long 0 60000\r\nwww"));
}

#[test]
fn a_reply_is_the_largest_value_or_an_error() {
    let mut udp = Udp::new("memory-limit = 64\nmax-item-size = \"2m\"");
    let allowed = 1 << 20;
    for bytes in [allowed, 2 * allowed] {
        let value = "v".repeat(bytes);
        let set = format!("set v{bytes} 0 0 {bytes}\r\n{value}\r\n");
        assert_eq!(udp.bench.replies(set.as_bytes()), b"STORED\r\n");
    }
    let reply = udp.ask(format!("get v{allowed}\r\n"));
    assert_eq!(reply.len(), format!("VALUE v{allowed} 0 {allowed}\r\n\r\nEND\r\n").len() + allowed);
    let too_long = "SERVER_ERROR reply too long for UDP\r\n";
    assert_eq!(udp.ask(format!("get v{}\r\n", 2 * allowed)), too_long);
    // The whole reply counts, not its longest part.
    assert_eq!(udp.ask(format!("get a v{allowed} v{allowed}\r\n")), too_long);
    let twice = format!("get v{allowed}\r\n").repeat(2);
    assert_eq!(udp.ask(twice), too_long);
    assert_eq!(udp.counters.too_long.get(), 3);

    let get = binary_request(0, &[], format!("v{}", 2 * allowed).as_bytes(), &[]);
    udp.ask(get);
    assert_eq!(udp.room[..8], [REPLY_MAGIC, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(&udp.room[12..16], b"opaq");
}

#[test]
fn a_reply_that_takes_several_turns_is_too_long() {
    let mut udp = Udp::new("memory-limit = 64");
    for number in 0..20_000 {
        udp.ask(format!("set k{number} 0 0 1 noreply\r\nx\r\n"));
    }
    for request in ["lru_crawler metadump all\r\n", "stats sizes\r\n"] {
        assert_eq!(udp.ask(request), "SERVER_ERROR reply too long for UDP\r\n");
        // Nothing of it is left over.
        assert_eq!(udp.ask("mn\r\n"), "MN\r\n");
    }
}

#[test]
fn the_first_byte_selects_the_protocol() {
    let mut udp = Udp::new("");
    let set = binary_request(1, &[0; 8], b"key", b"value");
    udp.ask(&set);
    assert_eq!(udp.room[..2], [REPLY_MAGIC, 1]);
    assert_eq!(udp.ask("get key\r\n"), "VALUE key 0 5\r\nvalue\r\nEND\r\n");
    // A quiet miss, and the noop that tells of its end.
    let getq = binary_request(9, &[], b"none", b"");
    let noop = binary_request(10, &[], b"", b"");
    let reply = udp.ask_bytes([getq, noop].concat());
    assert_eq!((reply.len(), &reply[..2]), (HEADER_BYTES, &[REPLY_MAGIC, 10][..]));
    // A request that is cut off in its body gets an error; one that is cut off in its header gets none.
    let invalid = binary::reply::Status::Invalid as u8;
    udp.ask(&set[..set.len() - 1]);
    assert_eq!(udp.room[..8], [REPLY_MAGIC, 1, 0, 0, 0, 0, 0, invalid]);
    for bytes in 1..HEADER_BYTES {
        assert_eq!(udp.ask(&set[..bytes]), "", "{bytes} bytes");
    }
}

#[test]
fn wrong_frames_get_no_reply() {
    let mut udp = Udp::new("");
    for datagram in
        [&b""[..], b"\0\x01\0\0\0\x01\0", b"\0\x01\0\0\0\x02\0\0get a\r\n", b"\0\x01\0\0\0\x00\0\0get a\r\n"]
    {
        assert_eq!(udp.answer(datagram), None, "{datagram:?}");
    }
    assert_eq!(udp.counters.bad_frames.get(), 4);
}

/// A datagram has one turn: what it asks for beyond that is refused, and not executed.
#[test]
fn a_datagram_moves_no_more_than_a_turn_may() {
    let mut udp = Udp::new("memory-limit = 64");
    let bytes = 1_000_000;
    let set = format!("set a 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes));
    assert_eq!(udp.bench.replies(set.as_bytes()), b"STORED\r\n");
    let too_much = "SERVER_ERROR too many requests for one datagram\r\n";
    let append = binary_request(0x19, &[], b"a", b"x");
    for (request, count) in
        [(&b"append a 0 0 1 noreply\r\nx\r\n"[..], 2400), (b"append a 0 0 1\r\nx\r\n", 2400), (&append, 60)]
    {
        let length = |udp: &mut Udp| {
            let reply = udp.bench.replies(b"mg a s\r\n");
            let digits = reply[4..].iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'))
        };
        let before = length(&mut udp);
        let reply = udp.ask_bytes(request.repeat(count)).to_vec();
        let (moved, allowed) = udp.bench.with_context(|context| {
            let cache = context.worker.cache();
            (context.worker.moved_bytes(), cache.turn_moved_bytes())
        });
        let executed = length(&mut udp) - before;
        assert!(moved <= allowed + bytes + 10_000, "{moved} bytes");
        assert!(executed > 0 && executed * bytes <= allowed + bytes, "{executed}");
        if request[0] == REQUEST_MAGIC {
            let last = &reply[reply.len() - HEADER_BYTES - "Too many requests for one datagram".len()..];
            assert_eq!(last[..8], [REPLY_MAGIC, 0x19, 0, 0, 0, 0, 0, 0x85]);
        } else {
            let reply = String::from_utf8(reply).unwrap();
            let stored = if request.ends_with(b"noreply\r\nx\r\n") { 0 } else { executed };
            assert_eq!(reply, "STORED\r\n".repeat(stored) + too_much);
        }
    }
    assert_eq!(udp.counters.too_much.get(), 3);
}

/// An ordinary datagram is executed whole, whatever `-R` says of the turns of streams.
#[test]
fn a_datagram_is_executed_whole_whatever_a_turn_has() {
    for options in ["", "max-requests-per-event = 1"] {
        let mut udp = Udp::new(options);
        assert_eq!(udp.ask("set n 0 0 1\r\n0\r\n"), "STORED\r\n");
        let mut sum = 0;
        for count in [65, 200, 2500] {
            assert_eq!(udp.ask("incr n 1 noreply\r\n".repeat(count)), "");
            sum += count;
            let value = udp.ask("get n\r\n");
            assert_eq!(value.lines().nth(1), Some(&*sum.to_string()));
        }
        assert_eq!(udp.ask("mn\r\n".repeat(16_000)), "MN\r\n".repeat(16_000));
        let keys = format!("get{}\r\n", " k".repeat(30_000));
        assert_eq!(udp.ask(keys), "END\r\n");
        assert_eq!(udp.counters.too_much.get(), 0);
    }
}

/// Requests beyond the limit are refused, and so are commands of administration, of which a datagram has few.
#[test]
fn a_datagram_has_a_limit_of_requests_and_of_administration() {
    let mut udp = Udp::new("");
    let too_much = "SERVER_ERROR too many requests for one datagram\r\n";
    let reply = udp.ask("mn\r\n".repeat(16_385));
    assert_eq!(reply, "MN\r\n".repeat(16_384) + too_much);
    let flushes = udp.ask("flush_all noreply\r\n".repeat(1000));
    assert_eq!(flushes, too_much);
    assert!((1..=16).contains(&udp.bench.server.shared.counters[0].cmd_flush.get()));
    assert_eq!(udp.counters.too_much.get(), 2);
}

/// Commands of administration are as few where values may be long.
#[test]
fn a_datagram_has_as_few_commands_of_administration_whatever_values_may_be() {
    for options in ["", "memory-limit = 256\nmax-item-size = \"8m\""] {
        let mut udp = Udp::new(options);
        udp.ask("flush_all noreply\r\n".repeat(1000));
        let executed = udp.bench.server.shared.counters[0].cmd_flush.get();
        assert!((1..=16).contains(&executed), "{executed} with {options:?}");
    }
}

/// A port that loopback may ask, and a client that asks it.
fn port(bench: &Bench) -> (super::UdpPort, std::net::UdpSocket) {
    use micanite_net::datagram::{UdpOptions, UdpSocket};
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = UdpSocket::bind(address, &UdpOptions::default()).unwrap();
    let client = std::net::UdpSocket::bind(address).unwrap();
    client.connect(socket.local_addr().unwrap()).unwrap();
    let allowed = bench.server.settings.udp.as_ref().unwrap().allow.clone();
    (super::UdpPort::new(0, [socket].into(), allowed), client)
}

/// A reply that was too long to be sent has cost its writing: it counts in a port's turn.
#[test]
fn replies_that_are_refused_count_as_written() {
    let mut bench = Bench::new("udp-port = 11211\nudp-allow = \"127.0.0.1\"\nmemory-limit = 64");
    let bytes = 900_000;
    let set = format!("set long 0 0 {bytes}\r\n{}\r\n", "v".repeat(bytes));
    assert_eq!(bench.replies(set.as_bytes()), b"STORED\r\n");
    let (mut port, client) = port(&bench);
    let sent = 64;
    for _ in 0..sent {
        client.send(b"\0\x01\0\0\0\x01\0\0get long long\r\n").unwrap();
    }
    let refused = |bench: &Bench| {
        let counters = &bench.server.shared.udp.as_ref().unwrap().counters[0];
        counters.too_long.get()
    };
    let mut before = refused(&bench);
    while before < sent {
        bench.with_context(|context| port.turn(context)).unwrap();
        let answered = refused(&bench) - before;
        assert!((1..=2).contains(&answered), "{answered} in one turn");
        before += answered;
    }
}

/// Empty datagrams, and those that are refused, count as requests of a port's turn.
#[test]
fn a_turn_takes_no_more_datagrams_than_requests() {
    let mut bench = Bench::new("udp-port = 11211\nudp-allow = \"127.0.0.1\"");
    for datagram in [&b""[..], b"\0\x01\0\0", b"\0\x01\0\0\0\x01\0\0version\r\n"] {
        let (mut port, client) = port(&bench);
        let sent = 150;
        for _ in 0..sent {
            client.send(datagram).unwrap();
        }
        let received = |bench: &Bench| {
            let counters = &bench.server.shared.udp.as_ref().unwrap().counters[0];
            counters.bad_frames.get() + counters.datagrams_sent.get()
        };
        let (mut turns, mut before) = (0, received(&bench));
        let first = before;
        while received(&bench) - first < sent {
            bench.with_context(|context| port.turn(context)).unwrap();
            let taken = received(&bench) - before;
            assert!((1..=64).contains(&taken), "{taken} datagrams in one turn");
            before += taken;
            turns += 1;
        }
        assert_eq!(turns, 3);
    }
}
