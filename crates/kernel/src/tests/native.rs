//! The native protocol. `crates/server/src/native/tests/kernel.rs` compares replies with those of a
//! server, byte for byte. These tests check required properties of replies.

use micanite_engine::{Config, Expiry, Operation};
use micanite_wire::native::{Header, Opcode, Replies, Reply, ReplyWriter, Request, RequestWriter, Status};

use super::fixture::{CLIENT, Fixture, GENERATION, PASS, SENT, can_load, datagram, payload};

const SERVER: &str = "10.0.0.2:11302";
const PAYLOAD_BYTES: usize = 1472;

fn fixture() -> Fixture {
    Fixture::new(Config { memory_bytes: 16 << 20, ..Config::default() })
}

fn get<'a>(fixture: &Fixture, key: &'a [u8]) -> Request<'a> {
    Request {
        opcode: Opcode::Get,
        wants_cas: false,
        wants_entry: false,
        hash: fixture.cache.hash(key).0,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key,
        value: b"",
    }
}

/// Header of a client that has the cookie, or 0.
fn header(cookie: u64) -> Header {
    Header {
        generation: GENERATION,
        partition: 3,
        sequence: 0x0102_0304,
        client: 77,
        echo: 0x1122_3344_5566_7788,
        cookie,
        ..Header::REQUESTS
    }
}

/// Builds a datagram of these requests, followed by `padding` bytes.
fn ask_of(header: &Header, requests: &[Request<'_>], padding: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let mut writer = RequestWriter::new(&mut bytes);
    for request in requests {
        writer.push(request).unwrap();
    }
    let length = writer.finish(header);
    bytes.truncate(length + padding);
    bytes
}

impl Fixture {
    /// Returns the payload of the reply, or `None` if the program passed the frame on, unchanged.
    fn answer(&self, (from, to): (&str, &str), asked: &[u8]) -> Option<Vec<u8>> {
        let frame = datagram(from, to, asked);
        let (verdict, out) = self.run(&frame);
        match verdict {
            PASS => {
                assert_eq!(out, frame, "the frame was changed although it was passed on");
                None
            }
            SENT => Some(payload(&out).to_vec()),
            other => panic!("verdict {other}"),
        }
    }

    fn native(&self, asked: &[u8]) -> Option<Vec<u8>> {
        self.answer((CLIENT, SERVER), asked)
    }

    /// Returns the cookie of an address.
    fn cookie(&self, from: &str, to: &str) -> u64 {
        let asked = ask_of(&header(0), &[get(self, b"nothing")], 0);
        let reply = self.answer((from, to), &asked).unwrap();
        Header::read(&reply).unwrap().cookie
    }
}

fn replies(datagram: &[u8]) -> Vec<Reply<'_>> {
    let header = Header::read(datagram).unwrap();
    let replies = Replies::new(datagram, header.count).unwrap();
    replies.map(Result::unwrap).collect()
}

fn statuses(datagram: &[u8]) -> Vec<Status> {
    replies(datagram).iter().map(|reply| reply.status).collect()
}

/// Builds a server's reply to gets whose items have these values and flags, `None` for a miss.
fn expected(header: &Header, requests: &[Request<'_>], items: &[Option<(Vec<u8>, u32)>]) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let mut writer = ReplyWriter::new(PAYLOAD_BYTES);
    for (request, item) in requests.iter().zip(items) {
        match item {
            None => {
                let what = (Opcode::Get, Status::NotFound);
                writer.push(&mut bytes, what, request.hash, 0);
            }
            Some((value, flags)) => {
                let what = (Opcode::Get, *flags, request.hash);
                let room = writer.begin_value(&mut bytes, what, None, value.len());
                room.copy_from_slice(value);
                writer.end_value(value.len(), false);
            }
        }
    }
    let header = Header { cookie: 0, ..header.reply(micanite_wire::native::Kind::Replies) };
    let length = writer.finish(&mut bytes, &header);
    bytes.truncate(length);
    bytes
}

#[test]
fn gets_are_answered_like_by_a_server() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    for value_bytes in 0..40 {
        let key = format!("key-{value_bytes}");
        let value = vec![b'v'; value_bytes];
        fixture.set(&key, &value, value_bytes as u32 * 7, Expiry::NEVER);
    }
    for (from, to) in
        [(CLIENT, SERVER), ("[fd00::1]:40000", "[fd00::2]:11300"), ("10.0.0.1:80", "10.0.0.2:11303")]
    {
        let header = header(fixture.cookie(from, to));
        for count in 1..20 {
            let keys: Vec<String> = (0..count).map(|number| format!("key-{}", number * 5)).collect();
            let requests: Vec<_> = keys.iter().map(|key| get(&fixture, key.as_bytes())).collect();
            let item = |number: usize| (number < 8).then(|| (vec![b'v'; number * 5], number as u32 * 35));
            let items: Vec<_> = (0..count).map(item).collect();
            let reply = fixture.answer((from, to), &ask_of(&header, &requests, 0));
            assert_eq!(reply, Some(expected(&header, &requests, &items)), "{count}");
        }
    }
    let counters = fixture.counters();
    assert_eq!(counters.native_hits, 3 * (36 + 11 * 8));
    assert_eq!(counters.native_misses, 3 * (190 - 36 - 11 * 8) + 3);
}

/// Once with a cache that fits the CPU's cache, and once with a larger one, where the program
/// prefetches.
#[test]
fn a_full_datagram_of_requests_is_answered() {
    if !can_load() {
        return;
    }
    for memory_bytes in [16 << 20, 96 << 20] {
        full_datagrams(Fixture::new(Config { memory_bytes, ..Config::default() }));
    }
}

fn full_datagrams(mut fixture: Fixture) {
    let header = header(fixture.cookie(CLIENT, SERVER));
    for key_bytes in [1, 8, 9, 16, 33, 64, 65, 128, 200, 250] {
        let count = (PAYLOAD_BYTES - 40) / (24 + usize::next_multiple_of(key_bytes, 8));
        let key = |number: usize| {
            let mut key = vec![b'k'; key_bytes];
            key[0] = b'0' + number as u8;
            key
        };
        let keys: Vec<_> = (0..count).map(key).collect();
        for key in &keys {
            fixture.set(std::str::from_utf8(key).unwrap(), b"8 bytes.", 1, Expiry::NEVER);
        }
        let requests: Vec<_> = keys.iter().map(|key| get(&fixture, key)).collect();
        let items = vec![Some((b"8 bytes.".to_vec(), 1)); count];
        let reply = fixture.native(&ask_of(&header, &requests, 0));
        assert_eq!(reply, Some(expected(&header, &requests, &items)), "{key_bytes}");
    }
}

#[test]
fn replies_without_a_cookie_do_not_amplify() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    fixture.set("short", b"12345678", 0, Expiry::NEVER);
    fixture.set("long", &[b'l'; 500], 0, Expiry::NEVER);
    let cookie = fixture.cookie(CLIENT, SERVER);
    let other = fixture.cookie("10.0.0.1:40001", SERVER);
    let later = fixture.cookie("10.0.0.7:40000", SERVER);
    assert!(cookie != other && cookie != later && cookie != 0);
    for wrong in [0, other, later, cookie ^ 1, !cookie] {
        let requests = [get(&fixture, b"short"), get(&fixture, b"long"), get(&fixture, b"nothing")];
        for padding in [0, 8, 100, 471, 472, 1000] {
            let asked = ask_of(&header(wrong), &requests, padding);
            let reply = fixture.native(&asked).unwrap();
            assert!(reply.len() <= asked.len());
            assert_eq!(Header::read(&reply).unwrap().cookie, cookie);
            let long = match padding {
                472 | 1000 => Status::Ok,
                _ => Status::Unproven,
            };
            let expected = [Status::Ok, long, Status::NotFound];
            assert_eq!(statuses(&reply), expected, "{padding}");
        }
    }
    let reply = fixture.native(&ask_of(&header(cookie), &[get(&fixture, b"long")], 0)).unwrap();
    assert_eq!(replies(&reply)[0].value, [b'l'; 500]);
    assert_eq!(Header::read(&reply).unwrap().cookie, 0);
}

#[test]
fn client_hashes_are_trusted_only_in_their_generation() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    fixture.set("key", b"value", 0, Expiry::NEVER);
    let present = header(fixture.cookie(CLIENT, SERVER));
    let wrong = Request { hash: 0x1234_5678_9abc_def0, ..get(&fixture, b"key") };
    let reply = fixture.native(&ask_of(&present, &[wrong], 0)).unwrap();
    assert_eq!(statuses(&reply), [Status::NotFound]);
    let stale = Header { generation: GENERATION - 1, ..present };
    let reply = fixture.native(&ask_of(&stale, &[wrong], 0)).unwrap();
    assert_eq!(statuses(&reply), [Status::Ok]);
    assert_eq!(replies(&reply)[0].hash_low, 0x9abc_def0);
    assert_eq!(Header::read(&reply).unwrap().generation, GENERATION);
    fixture.program.set_generation(GENERATION - 1);
    let reply = fixture.native(&ask_of(&stale, &[wrong], 0)).unwrap();
    assert_eq!(statuses(&reply), [Status::NotFound]);
    assert_eq!(Header::read(&reply).unwrap().generation, GENERATION - 1);
}

#[test]
fn values_without_room_get_a_status() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    let header = header(fixture.cookie(CLIENT, SERVER));
    let whole = PAYLOAD_BYTES - 40 - 16;
    fixture.set("whole", &vec![b'w'; whole], 0, Expiry::NEVER);
    fixture.set("more", &vec![b'm'; whole + 1], 0, Expiry::NEVER);
    fixture.set("much", &vec![b'm'; 100_000], 0, Expiry::NEVER);
    let reply = fixture.native(&ask_of(&header, &[get(&fixture, b"whole")], 0)).unwrap();
    assert_eq!(reply.len(), PAYLOAD_BYTES);
    let requests = [b"whole", b"whole"].map(|key| get(&fixture, key));
    let reply = fixture.native(&ask_of(&header, &requests, 0)).unwrap();
    assert_eq!(statuses(&reply), [Status::NoRoom, Status::NoRoom]);
    for key in [b"more", b"much"] {
        let reply = fixture.native(&ask_of(&header, &[get(&fixture, key)], 0)).unwrap();
        assert_eq!(statuses(&reply), [Status::UseStream]);
    }
    // The datagram may have this length, but an IPv6 frame with it would be too long.
    let (from, to) = ("[fd00::1]:40000", "[fd00::2]:11300");
    let header = Header { cookie: fixture.cookie(from, to), ..header };
    let asked = ask_of(&header, &[get(&fixture, b"whole")], 0);
    assert_eq!(fixture.answer((from, to), &asked), None);
    assert_eq!(fixture.counters().passed_long_reply, 1);
}

#[test]
fn cas_values_are_returned_once_assigned() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    fixture.set("k", b"v", 3, Expiry::NEVER);
    let header = header(fixture.cookie(CLIENT, SERVER));
    let gets = Request { wants_cas: true, ..get(&fixture, b"k") };
    let asked = ask_of(&header, &[gets, get(&fixture, b"k"), gets], 0);
    assert_eq!(fixture.native(&asked), None);
    let (meta, _) = fixture.execute(b"k", Operation::Get { cas: true }).expect("it is there");
    let reply = fixture.native(&asked).unwrap();
    let told: Vec<_> = replies(&reply).iter().map(|reply| (reply.value, reply.flags, reply.cas)).collect();
    let (with, without) = ((&b"v"[..], 3, Some(meta.cas)), (&b"v"[..], 3, None));
    assert_eq!(told, [with, without, with]);
    fixture.set("k", b"w", 3, Expiry::NEVER);
    assert_eq!(fixture.native(&asked), None);
}

#[test]
fn other_requests_are_passed_on_unchanged() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    fixture.set("key", b"value", 0, Expiry::NEVER);
    let header = header(fixture.cookie(CLIENT, SERVER));
    let good = get(&fixture, b"key");
    let asked = ask_of(&header, &[good, good], 0);
    assert!(fixture.native(&asked).is_some());
    let wants_cas = Request { wants_cas: true, ..good };
    assert_eq!(fixture.native(&ask_of(&header, &[good, wants_cas], 0)), None);
    assert_eq!(fixture.counters().passed_cas, 1);
    // Offset of a byte, and a value that it must not have.
    let wrong = [
        (0, b'm'),
        (2, 2),
        (3, 2),
        (3, 3),
        (4, 4),
        (5, 1),
        (6, 0),
        (6, 3),
        (7, 1),
        (15, 1),
        (40, 0),
        (40, 2),
        (40, 12),
        (41, 0),
        (41, 65),
        (41, 250),
        (42, 2),
        (43, 1),
        (44, 1),
        (47, 1),
        (56, 1),
        (60, 1),
        (72, 2),
        (73, 9),
        (74, 4),
    ];
    for (at, byte) in wrong {
        let mut mutated = asked.clone();
        mutated[at] = byte;
        assert_eq!(fixture.native(&mutated), None, "{byte} at {at}");
    }
    for (at, byte) in [(4, 1), (4, 2), (12, 9), (16, 200), (67, 1)] {
        let mut same = asked.clone();
        same[at] = byte;
        assert!(fixture.native(&same).is_some(), "{byte} at {at}");
    }
    for length in 0..asked.len() {
        assert_eq!(fixture.native(&asked[..length]), None, "{length}");
    }
    let padded = ask_of(&header, &[good], PAYLOAD_BYTES - 72);
    assert!(fixture.native(&padded).is_some());
    let longer = ask_of(&header, &[good], PAYLOAD_BYTES - 71);
    assert_eq!(fixture.native(&longer), None);
    let answer = |from, to| fixture.answer((from, to), &asked);
    assert_eq!(answer("10.0.0.1:0", SERVER), None);
    assert_eq!(answer(CLIENT, "10.0.0.2:11299"), None);
    assert_eq!(answer(CLIENT, "10.0.0.2:11304"), None);
    assert_eq!(answer(CLIENT, "10.0.0.3:11300"), None);
}
