//! Answers at the limit of their length: each is sent whole, or refused.

use micanite_wire::native::{Header, PAYLOAD_BYTES_MAX, Request};

use super::*;

fn bench(payload_bytes: usize) -> (NativeBench, Requester) {
    let bench = NativeBench::new("", payload_bytes);
    let requester = Requester::new(&bench, "10.0.0.1:1000");
    (bench, requester)
}

/// Stores values of these lengths, in datagrams of their own; returns gets of them.
fn gets<const N: usize>(
    bench: &mut NativeBench,
    requester: &mut Requester,
    values: [(&'static [u8], usize); N],
) -> [Request<'static>; N] {
    for (key, bytes) in values {
        let value = vec![b'v'; bytes];
        let datagram = requester.datagram(&[bench.store(Opcode::Set, key, &value)]);
        assert_eq!(bench.answers(&[datagram])[0].statuses(), [Status::Ok]);
    }
    values.map(|(key, _)| bench.request(Opcode::Get, key))
}

/// Replies to it could be longer than a datagram, and a ring to the owner shorter than it.
#[test]
fn a_datagram_longer_than_the_limit_is_dropped() {
    for (threads, payload_bytes) in [(1, 1472), (2, 1472), (2, 9000)] {
        let options = format!("threads = {threads}\naccess = \"erew\"");
        let mut bench = NativeBench::new(&options, payload_bytes);
        let mut requester = Requester::new(&bench, "10.0.0.1:1000");
        let noops = vec![bench.request(Opcode::Noop, b""); 2727];
        let longest = requester.datagram(&noops);
        requester.padding = payload_bytes + 1 - Header::BYTES - 24;
        let longer = requester.datagram(&noops[..1]);
        requester.padding -= 1;
        let long = requester.datagram(&noops[..1]);
        assert_eq!(long.bytes.len(), payload_bytes);
        for worker in 0..threads {
            let burst = [&longest, &longer, &long].map(Arrival::clone);
            let sent = bench.round(worker, &burst, false);
            check(&bench, &burst, &sent, false);
            let answered = sent.datagrams.len() + sent.elsewhere.len();
            assert_eq!(answered, 1);
            assert_eq!(bench.native().counters[worker].bad_datagrams.get(), 2);
        }
    }
}

#[test]
fn as_many_requests_as_a_datagram_holds_are_answered() {
    let (mut bench, mut requester) = bench(PAYLOAD_BYTES_MAX);
    let [get] = gets(&mut bench, &mut requester, [(b"key", 8)]);
    let increment = Request { id: 1, ..bench.request(Opcode::Increment, b"none") };
    for (request, request_bytes) in [
        (bench.request(Opcode::Noop, b""), 24),
        (get, 32),
        (bench.request(Opcode::Delete, b"none"), 32),
        (increment, 48),
    ] {
        let count = (PAYLOAD_BYTES_MAX - Header::BYTES) / request_bytes;
        for proven in [true, false] {
            let mut requester = requester.clone();
            if !proven {
                requester = requester.unproven();
            }
            let datagram = requester.datagram(&vec![request; count]);
            assert!(datagram.bytes.len() > PAYLOAD_BYTES_MAX - request_bytes);
            let answers = bench.answers(&[datagram]);
            assert_eq!(answers[0].replies.len(), count);
        }
    }
}

#[test]
fn without_a_cookie_a_value_must_fit_the_length_of_the_question() {
    let (mut bench, mut requester) = bench(1472);
    let [short, long] = gets(&mut bench, &mut requester, [(b"short", 16), (b"long", 17)]);
    let mut requester = requester.unproven();
    for (request, padding, status) in [
        (short, 0, Status::Ok),
        (long, 0, Status::Unproven),
        (long, 7, Status::Unproven),
        (long, 8, Status::Ok),
    ] {
        requester.padding = padding;
        let datagram = requester.datagram(&[request]);
        assert_eq!(bench.answers(&[datagram])[0].statuses(), [status]);
    }
    // Room that is left by one reply is another's, but never that of those which follow.
    requester.padding = 0;
    let none = bench.request(Opcode::Get, b"none");
    let datagram = requester.datagram(&[none, none, long, short]);
    let expected = [Status::NotFound, Status::NotFound, Status::Ok, Status::Ok];
    assert_eq!(bench.answers(&[datagram])[0].statuses(), expected);
    assert_eq!(bench.native().counters[0].unproven.get(), 2);
}

#[test]
fn without_a_cookie_nothing_is_written_however_short_the_answer() {
    let (mut bench, mut requester) = bench(1472);
    let [get] = gets(&mut bench, &mut requester, [(b"k", 1)]);
    let mut requester = requester.unproven();
    for opcode in Opcode::ALL.into_iter().filter(|opcode| opcode.writes()) {
        let request = Request { id: u64::from(opcode.has_id()), ..bench.request(opcode, b"k") };
        let request = Request { value: if opcode.has_value() { b"w" } else { b"" }, ..request };
        let datagram = requester.datagram(&[request, get]);
        let answers = bench.answers(&[datagram]);
        let expected = [Status::Unproven, Status::Ok];
        assert_eq!(answers[0].statuses(), expected, "{opcode:?}");
        assert_eq!(answers[0].replies[1].value, b"v");
    }
    // Ids of somebody whose address is not proved are not remembered either.
    let mut proven = Requester::new(&bench, "10.0.0.1:1000");
    proven.header.resent = true;
    let append = Request { id: 1, ..bench.store(Opcode::Append, b"k", b"w") };
    let datagram = proven.datagram(&[append]);
    let answers = bench.answers(&[datagram]);
    assert_eq!(answers[0].statuses(), [Status::Forgotten]);
}

#[test]
fn a_value_that_fits_alone_has_no_room_and_one_that_never_fits_uses_the_stream() {
    let (mut bench, mut requester) = bench(1472);
    // The longest value that a datagram with one reply has room for, and one byte more.
    let longest = 1472 - Header::BYTES - 16;
    let [fits, half] = gets(&mut bench, &mut requester, [(b"fits", longest - 48), (b"half", 700)]);
    // Too long to be stored by one datagram: put together.
    let append = Request { id: requester.next_id(), ..bench.store(Opcode::Append, b"fits", &[b'v'; 48]) };
    let datagram = requester.datagram(&[append]);
    assert_eq!(bench.answers(&[datagram])[0].statuses(), [Status::Ok]);
    let mut statuses = |requests: &[Request<'_>]| {
        let datagram = requester.datagram(requests);
        bench.answers(&[datagram])[0].statuses()
    };
    let gets = Request { wants_cas: true, ..fits };
    assert_eq!(statuses(&[fits]), [Status::Ok]);
    assert_eq!(statuses(&[gets]), [Status::UseStream]);
    assert_eq!(statuses(&[fits, half]), [Status::NoRoom, Status::Ok]);
    assert_eq!(statuses(&[half, fits, half]), [Status::Ok, Status::NoRoom, Status::NoRoom]);
    assert_eq!(statuses(&[half, gets, half]), [Status::Ok, Status::UseStream, Status::NoRoom]);
}

/// The engine stops a batch where a value has no room, and goes on behind it.
#[test]
fn values_without_room_in_the_middle_of_a_batch_keep_their_places() {
    let (mut bench, mut requester) = bench(1472);
    let [long, short] = gets(&mut bench, &mut requester, [(b"long", 1300), (b"short", 3)]);
    let none = bench.request(Opcode::Get, b"none");
    let mut requests = Vec::new();
    for _ in 0..14 {
        requests.extend([none, long, short]);
    }
    let datagrams: Vec<_> = (0..6).map(|_| requester.datagram(&requests)).collect();
    for answer in bench.answers(&datagrams) {
        let expected = [Status::NotFound, Status::NoRoom, Status::Ok].repeat(14);
        assert_eq!(answer.statuses(), expected);
    }
}
