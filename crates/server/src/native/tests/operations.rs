//! Every operation with every way that it can end.

use micanite_wire::native::{Directory, DirectoryRequest, Header, Kind, Request};

use super::*;
use crate::native::testing::OwnedReply;

const PAYLOAD_BYTES: usize = 1472;

fn bench() -> (NativeBench, Requester) {
    let bench = NativeBench::new("", PAYLOAD_BYTES);
    let requester = Requester::new(&bench, "10.0.0.1:1000");
    (bench, requester)
}

/// The only reply to the only request of a datagram.
fn ask(bench: &mut NativeBench, requester: &mut Requester, request: Request<'_>) -> OwnedReply {
    let datagram = requester.datagram(&[request]);
    let mut answers = bench.answers(&[datagram]);
    assert_eq!(answers.len(), 1);
    answers.remove(0).replies.remove(0)
}

/// The status of a request, which has an id if its operation has one.
fn status(bench: &mut NativeBench, requester: &mut Requester, mut request: Request<'_>) -> Status {
    if request.opcode.has_id() {
        request.id = requester.next_id();
    }
    ask(bench, requester, request).status
}

#[test]
fn stored_values_are_found_with_flags_and_cas() {
    let (mut bench, mut requester) = bench();
    let set = Request { flags: 77, ..bench.store(Opcode::Set, b"k", b"value") };
    assert_eq!(status(&mut bench, &mut requester, set), Status::Ok);
    let get = bench.request(Opcode::Get, b"k");
    let reply = ask(&mut bench, &mut requester, get);
    assert_eq!((reply.flags, reply.value.as_slice()), (77, &b"value"[..]));
    assert_eq!((reply.cas, reply.number), (None, 0));
    let gets = Request { wants_cas: true, ..get };
    let unique = ask(&mut bench, &mut requester, gets).cas.unwrap();
    let cas = |argument| Request { argument, ..bench.store(Opcode::Cas, b"k", b"second") };
    let (good, bad) = (cas(unique), cas(unique + 1));
    assert_eq!(status(&mut bench, &mut requester, bad), Status::Exists);
    assert_eq!(status(&mut bench, &mut requester, good), Status::Ok);
    assert_eq!(status(&mut bench, &mut requester, good), Status::Exists);
    assert_eq!(ask(&mut bench, &mut requester, get).value, b"second");
}

#[test]
fn every_operation_on_present_and_absent_keys() {
    use Status::{NotFound, NotStored, Ok};
    let values = [
        (Opcode::Set, Ok, Ok),
        (Opcode::Add, Ok, NotStored),
        (Opcode::Replace, NotStored, Ok),
        (Opcode::Append, NotStored, Ok),
        (Opcode::Prepend, NotStored, Ok),
        (Opcode::Cas, NotFound, Status::Exists),
        (Opcode::Noop, Ok, Ok),
        (Opcode::Get, NotFound, Ok),
        (Opcode::GetAndTouch, NotFound, Ok),
        (Opcode::Touch, NotFound, Ok),
        (Opcode::Increment, NotFound, Ok),
        (Opcode::Decrement, NotFound, Ok),
        (Opcode::Delete, NotFound, Ok),
    ];
    assert_eq!(values.len(), Opcode::ALL.len());
    for (opcode, without, with) in values {
        let (mut bench, mut requester) = bench();
        let key: &[u8] = if opcode == Opcode::Noop { b"" } else { b"k" };
        let value: &[u8] = if opcode.has_value() { b"5" } else { b"" };
        let request = bench.store(opcode, key, value);
        let found = status(&mut bench, &mut requester, request);
        assert_eq!(found, without, "{opcode:?} of nothing");
        let set = bench.store(Opcode::Set, b"k", b"10");
        status(&mut bench, &mut requester, set);
        let found = status(&mut bench, &mut requester, request);
        assert_eq!(found, with, "{opcode:?} of something");
        let get = bench.request(Opcode::Get, b"k");
        let value = ask(&mut bench, &mut requester, get).value;
        let expected: &[u8] = match opcode {
            Opcode::Set | Opcode::Replace => b"5",
            Opcode::Append => b"105",
            Opcode::Prepend => b"510",
            Opcode::Delete => b"",
            _ => b"10",
        };
        assert_eq!(value, expected, "{opcode:?}");
    }
}

#[test]
fn numbers_wrap_upwards_stop_at_zero_and_are_numbers() {
    let (mut bench, mut requester) = bench();
    let set = bench.store(Opcode::Set, b"n", b"18446744073709551615");
    status(&mut bench, &mut requester, set);
    for (opcode, argument, number) in [
        (Opcode::Increment, 3, 2),
        (Opcode::Decrement, 3, 0),
        (Opcode::Increment, 40, 40),
        (Opcode::Decrement, 15, 25),
    ] {
        let request = Request { argument, id: requester.next_id(), ..bench.request(opcode, b"n") };
        let reply = ask(&mut bench, &mut requester, request);
        assert_eq!((reply.status, reply.number), (Status::Ok, number));
    }
    let set = bench.store(Opcode::Set, b"n", b"x");
    status(&mut bench, &mut requester, set);
    let increment = bench.request(Opcode::Increment, b"n");
    assert_eq!(status(&mut bench, &mut requester, increment), Status::NotANumber);
}

#[test]
fn expiries_count_from_now_and_zero_is_never() {
    let (mut bench, mut requester) = bench();
    let with = |expiry_s, request| Request { expiry_s, ..request };
    for (key, expiry_s) in [(b"a", 10), (b"b", 0), (b"c", u32::MAX)] {
        let set = with(expiry_s, bench.store(Opcode::Set, key, b"v"));
        assert_eq!(status(&mut bench, &mut requester, set), Status::Ok);
    }
    let touch = with(100, bench.request(Opcode::Touch, b"a"));
    assert_eq!(status(&mut bench, &mut requester, touch), Status::Ok);
    bench.now_s += 50;
    let touch = with(100, bench.request(Opcode::GetAndTouch, b"a"));
    assert_eq!(ask(&mut bench, &mut requester, touch).value, b"v");
    for (after_s, found) in [(99, Status::Ok), (2, Status::NotFound)] {
        bench.now_s += after_s;
        requester.header.cookie = bench.cookie(requester.peer);
        let get = bench.request(Opcode::Get, b"a");
        assert_eq!(status(&mut bench, &mut requester, get), found);
    }
    for key in [b"b", b"c"] {
        let get = bench.request(Opcode::Get, key);
        assert_eq!(status(&mut bench, &mut requester, get), Status::Ok);
    }
}

#[test]
fn too_large_values_are_refused_with_the_limit() {
    let mut bench = NativeBench::new("max-item-size = \"2k\"", 65_507);
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    let set = bench.store(Opcode::Set, b"k", &[7; 4000]);
    let reply = ask(&mut bench, &mut requester, set);
    assert_eq!(reply.status, Status::TooLarge);
    let limit_bytes = bench.server.shared.cache.value_bytes_max();
    assert_eq!(reply.limit_bytes as usize, limit_bytes);
    let value = vec![7; limit_bytes];
    let set = bench.store(Opcode::Set, b"k", &value);
    assert_eq!(status(&mut bench, &mut requester, set), Status::Ok);
}

#[test]
fn a_write_with_a_wrong_hash_is_refused_alone_and_a_get_misses() {
    let (mut bench, mut requester) = bench();
    let set = bench.store(Opcode::Set, b"k", b"v");
    let wrong = |request: Request<'static>| Request { hash: request.hash ^ 1, ..request };
    let (delete, get) = (bench.request(Opcode::Delete, b"k"), bench.request(Opcode::Get, b"k"));
    let datagram = requester.datagram(&[set, wrong(delete), get]);
    let answers = bench.answers(&[datagram]);
    let expected = [Status::Ok, Status::BadRequest, Status::Ok];
    assert_eq!(answers[0].statuses(), expected);
    assert_eq!(bench.native().counters[0].bad_requests.get(), 1);
    // All bits of the hash that the engine looks at.
    let other = Request { hash: !get.hash, ..get };
    assert_eq!(status(&mut bench, &mut requester, other), Status::NotFound);
}

#[test]
fn a_stale_client_is_served_in_spite_of_its_hashes() {
    let (mut bench, mut requester) = bench();
    requester.header.generation ^= 1;
    let zero = |request: Request<'static>| Request { hash: 0, ..request };
    let set = zero(bench.store(Opcode::Set, b"k", b"v"));
    let get = zero(bench.request(Opcode::Get, b"k"));
    let noop = bench.request(Opcode::Noop, b"");
    let datagram = requester.datagram(&[set, get, noop]);
    let answers = bench.answers(&[datagram]);
    assert_eq!(answers[0].statuses(), [Status::Ok; 3]);
    assert_eq!(answers[0].replies[1].value, b"v");
    assert_eq!(bench.native().counters[0].stale.get(), 1);
}

#[test]
fn datagrams_that_are_wrong_are_answered_by_a_header_or_not_at_all() {
    let (mut bench, mut requester) = bench();
    let get = bench.request(Opcode::Get, b"k");
    let good = requester.datagram(&[get]);
    let with = |at: usize, byte: u8| {
        let mut arrival = good.clone();
        arrival.bytes[at] = byte;
        arrival
    };
    let cut = |bytes: usize| {
        let mut arrival = good.clone();
        arrival.bytes.truncate(bytes);
        arrival
    };
    let refused = [
        (with(2, 9), Status::Version),
        (with(4, 0x80), Status::BadRequest),
        (with(5, 1), Status::BadRequest),
        (with(6, 0), Status::BadRequest),
        (with(6, 2), Status::BadRequest),
        (with(14, 1), Status::BadRequest),
        (with(40, 13), Status::BadRequest),
        (with(41, 251), Status::BadRequest),
        (with(42, 2), Status::BadRequest),
        (cut(40), Status::BadRequest),
        (cut(good.bytes.len() - 8), Status::BadRequest),
        (with(3, 3), Status::BadRequest),
    ];
    for (number, (arrival, status)) in refused.into_iter().enumerate() {
        let answers = bench.answers(&[arrival]);
        assert_eq!(answers.len(), 1, "{number}");
        assert_eq!(answers[0].header.status, status, "{number}");
    }
    let mut from_nowhere = good.clone();
    from_nowhere.peer.set_port(0);
    for (number, arrival) in
        [cut(0), cut(39), with(0, b'm'), with(3, 0), with(3, 2), with(3, 4), with(3, 5), from_nowhere]
            .into_iter()
            .enumerate()
    {
        assert_eq!(bench.answers(&[arrival]).len(), 0, "{number}");
    }
    let counters = &bench.native().counters[0];
    assert_eq!(counters.not_ours.get(), 8);
    assert_eq!(counters.other_versions.get(), 1);
    assert_eq!(counters.bad_datagrams.get(), 11);
    assert_eq!(counters.requests.get(), 0);
}

#[test]
fn a_refused_datagram_is_told_the_cookie_as_well() {
    let (mut bench, requester) = bench();
    let mut requester = requester.unproven();
    let get = bench.request(Opcode::Get, b"k");
    let mut datagram = requester.datagram(&[get]);
    datagram.bytes[6] = 2;
    let answers = bench.answers(&[datagram]);
    assert_eq!(answers[0].header.status, Status::BadRequest);
    assert_eq!(answers[0].header.cookie, bench.cookie(requester.peer));
}

/// A directory request from the requester's address.
fn directory_request(requester: &Requester, cookie: u64, first: u32, bytes: usize) -> Arrival {
    let mut datagram = vec![0; bytes];
    let header = Header { kind: Kind::DirectoryRequest, cookie, ..requester.header };
    DirectoryRequest { first }.write(&header, &mut datagram);
    Arrival { peer: requester.peer, bytes: datagram, forwarded: false }
}

#[test]
fn the_directory_comes_in_pieces_no_longer_than_the_request() {
    let mut bench = NativeBench::new("threads = 1", PAYLOAD_BYTES);
    let requester = Requester::new(&bench, "10.0.0.1:1000");
    for (first, bytes) in [(0, 88), (0, 1472), (1, 100), (u32::MAX, 88)] {
        let arrival = directory_request(&requester, requester.header.cookie, first, bytes);
        let sent = bench.round(0, std::slice::from_ref(&arrival), false);
        check(&bench, &[arrival], &sent, false);
        let (directory, told, entries) = Directory::read(&sent.datagrams[0].1).unwrap();
        assert_eq!(directory.payload_bytes_max as usize, PAYLOAD_BYTES);
        assert_eq!(directory.hash_seed, bench.server.shared.cache.seed());
        assert_eq!(told, first.min(directory.entries()));
        let room = (bytes / 8 * 8 - 80) as u32 / 4;
        let expected = room.min(directory.entries() - told);
        assert_eq!(entries.len() as u32, 4 * expected);
    }
    assert_eq!(bench.native().counters[0].directories.get(), 4);
}

/// A client finds the request that a refusal belongs to by its kind.
#[test]
fn a_refusal_has_the_kind_of_its_request() {
    let mut bench = NativeBench::new("threads = 1", PAYLOAD_BYTES);
    let requester = Requester::new(&bench, "10.0.0.1:1000");
    let directory = directory_request(&requester, requester.header.cookie, 0, 88);
    let mut requests = directory.clone();
    requests.bytes[3] = Kind::Requests as u8;
    for (arrival, kind) in [(directory, Kind::DirectoryReply), (requests, Kind::Replies)] {
        let mut arrival = arrival;
        arrival.bytes[2] = 9;
        let sent = bench.round(0, std::slice::from_ref(&arrival), false);
        let header = Header::read(&sent.datagrams[0].1).unwrap();
        assert_eq!((header.kind, header.status), (kind, Status::Version));
    }
}

#[test]
fn an_unproved_address_is_not_told_the_seed() {
    let mut bench = NativeBench::new("threads = 1", PAYLOAD_BYTES);
    let requester = Requester::new(&bench, "10.0.0.1:1000");
    let elsewhere = Requester::new(&bench, "10.0.0.2:1000");
    for cookie in [0, 1, elsewhere.header.cookie] {
        let arrival = directory_request(&requester, cookie, 0, 1472);
        let sent = bench.round(0, std::slice::from_ref(&arrival), false);
        check(&bench, &[arrival], &sent, false);
        let answer = &sent.datagrams[0].1;
        assert_eq!(answer.len(), Header::BYTES);
        let header = Header::read(answer).unwrap();
        assert_eq!(header.kind, Kind::DirectoryReply);
        assert_eq!(header.status, Status::Unproven);
        assert_eq!(header.cookie, requester.header.cookie);
    }
    let counters = &bench.native().counters[0];
    assert_eq!(counters.directories.get(), 0);
    assert_eq!(counters.unproven.get(), 3);
}
