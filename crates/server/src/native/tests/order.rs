//! Any mix of requests is answered as if they were executed one by one, in their order.

use micanite_wire::native::{Header, Request};
use proptest::prelude::*;

use super::twin::Twin;
use super::*;
use crate::native::testing::Sent;

const PAYLOAD_BYTES: usize = 1472;
pub(super) const PEERS: [&str; 4] = ["10.0.0.1:1000", "10.0.0.1:1001", "[2001:db8::1]:1000", "192.168.1.1:1"];
const KEYS: [&[u8]; 5] = [b"a", b"number", b"a-key-of-16-byte", b"long", &[0; 250]];

/// A datagram in numbers.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    peer: usize,
    client: u32,
    pub proven: bool,
    stale: bool,
    resent: bool,
    padding: usize,
    pub requests: Vec<(usize, usize, usize, u64)>,
    /// A byte that is replaced.
    garbled: Option<(prop::sample::Index, u8)>,
    cut: Option<prop::sample::Index>,
}

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let length = prop_oneof![8 => 0usize..12, 1 => 0usize..400, 1 => Just(1300)];
    let request = (0usize..13, 0usize..KEYS.len(), length, 1u64..40);
    let likely = prop::bool::weighted;
    (
        (0usize..PEERS.len(), 1u32..3),
        (likely(0.8), likely(0.1), likely(0.3)),
        prop_oneof![3 => Just(0usize), 1 => 0usize..2000],
        prop::collection::vec(request, 1..100),
    )
        .prop_map(|((peer, client), (proven, stale, resent), padding, requests)| Plan {
            peer,
            client,
            proven,
            stale,
            resent,
            padding,
            requests,
            garbled: None,
            cut: None,
        })
}

/// Some of them wrong.
pub(super) fn damaged_plan() -> impl Strategy<Value = Plan> {
    let garbled = (any::<prop::sample::Index>(), any::<u8>());
    let garbled = prop::option::of(garbled);
    let cut = prop::option::weighted(0.1, any::<prop::sample::Index>());
    (plan(), garbled, cut).prop_map(|(plan, garbled, cut)| Plan { garbled, cut, ..plan })
}

/// The datagram, with as many of its requests as fit.
pub(super) fn arrival(bench: &NativeBench, plan: &Plan) -> Arrival {
    let mut requester = Requester::new(bench, PEERS[plan.peer]);
    requester.header.client = plan.client;
    requester.header.resent = plan.resent;
    requester.header.generation ^= u32::from(plan.stale);
    if !plan.proven {
        requester.header.cookie = 0;
    }
    let numbers = vec![b'7'; 2000];
    let (mut requests, mut bytes) = (Vec::new(), Header::BYTES);
    for (opcode, key, value_bytes, word) in &plan.requests {
        let opcode = Opcode::ALL[*opcode];
        let key = if opcode == Opcode::Noop { b"" } else { KEYS[*key] };
        let value_bytes = if opcode.has_value() { *value_bytes } else { 0 };
        let good = bench.store(opcode, key, &numbers[..value_bytes]);
        let request = Request {
            wants_cas: opcode.answers_value() && word % 2 == 0,
            flags: if opcode.has_flags() { *word as u32 } else { 0 },
            argument: if matches!(opcode, Opcode::Cas) { 0 } else { *word },
            id: if opcode.has_id() { *word } else { 0 },
            hash: good.hash ^ u64::from(*word == 13),
            ..good
        };
        let longest = 24 + 16 + key.len() + 7 + value_bytes + 7;
        if bytes + longest <= PAYLOAD_BYTES {
            bytes += longest;
            requests.push(request);
        }
    }
    requester.padding = plan.padding.min(PAYLOAD_BYTES - bytes);
    let mut arrival = requester.datagram(&requests);
    if let Some((at, byte)) = &plan.garbled {
        let at = at.index(arrival.bytes.len());
        arrival.bytes[at] = *byte;
    }
    if let Some(at) = &plan.cut {
        arrival.bytes.truncate(at.index(arrival.bytes.len()));
    }
    arrival
}

fn bench() -> NativeBench {
    NativeBench::new("memory-limit = 1", PAYLOAD_BYTES)
}

/// One burst of all, and bursts of one each.
fn in_both_ways(plans: &[Plan]) -> (NativeBench, Vec<Arrival>, Sent) {
    let (mut together, mut apart) = (bench(), bench());
    let burst: Vec<_> = plans.iter().map(|plan| arrival(&together, plan)).collect();
    let sent = together.round(0, &burst, false);
    check(&together, &burst, &sent, false);
    let mut one_by_one = Sent::default();
    for arrival in &burst {
        let sent = apart.round(0, std::slice::from_ref(arrival), false);
        one_by_one.datagrams.extend(sent.datagrams);
    }
    assert_eq!(sent, one_by_one, "a burst is not the sum of its datagrams");
    (together, burst, sent)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_burst_is_answered_as_its_requests_one_by_one(
        plans in prop::collection::vec(plan(), 1..20),
    ) {
        let (bench, burst, sent) = in_both_ways(&plans);
        let mut twin = Twin::default();
        let mut answers = sent.datagrams.iter();
        for arrival in &burst {
            let answer = Answer::read(&answers.next().unwrap().1);
            if answer.header.status == Status::Ok {
                twin.compare(&bench, arrival, &answer);
            } else {
                // Not even the first of its requests fits.
                prop_assert_eq!(arrival.bytes[6], 0);
            }
        }
    }

    #[test]
    fn whatever_a_burst_is_made_of_its_answers_are_whole_and_short(
        plans in prop::collection::vec(damaged_plan(), 1..20),
    ) {
        in_both_ways(&plans);
    }

    #[test]
    fn any_bytes_are_answered_at_most_once_and_not_at_length(
        noise in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..30),
        with_head in any::<bool>(),
    ) {
        let mut bench = bench();
        let arrival = |mut bytes: Vec<u8>| {
            if with_head && bytes.len() > 40 {
                bytes[..4].copy_from_slice(b"Mi\x01\x01");
            }
            let peer = PEERS[0].parse().unwrap();
            Arrival { peer, bytes, forwarded: false }
        };
        let burst: Vec<_> = noise.into_iter().map(arrival).collect();
        let sent = bench.round(0, &burst, false);
        check(&bench, &burst, &sent, false);
    }
}

/// One that is answered at once behind, before and between those that wait in a batch.
#[test]
fn answers_at_once_wait_for_their_turn() {
    let mut bench = bench();
    let mut requester = Requester::new(&bench, PEERS[0]);
    let mut stranger = Requester::new(&bench, PEERS[1]).unproven();
    let set = bench.store(Opcode::Set, b"a", b"1");
    let get = bench.request(Opcode::Get, b"a");
    let noop = bench.request(Opcode::Noop, b"");
    let wrong = Request { hash: !set.hash, ..set };
    let increment = Request { argument: 1, id: 1, ..bench.request(Opcode::Increment, b"a") };
    let mut garbled = requester.datagram(&[get]);
    garbled.bytes[6] = 9;
    let burst = [
        requester.datagram(&[set, noop, get]),
        stranger.datagram(&[get, set, get]),
        garbled,
        requester.datagram(&[noop, increment, wrong, increment, get]),
        requester.datagram(&[increment]),
        stranger.datagram(&[get]),
    ];
    let answers = bench.answers(&burst);
    use Status::{BadRequest, Ok, Unproven};
    let statuses: Vec<_> = answers.iter().map(Answer::statuses).collect();
    assert_eq!(statuses[0], [Ok; 3]);
    assert_eq!(statuses[1], [Ok, Unproven, Ok]);
    assert_eq!(answers[2].header.status, BadRequest);
    assert_eq!(statuses[3], [Ok, Ok, BadRequest, Ok, Ok]);
    let numbers = answers[3].replies.iter().map(|reply| reply.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 2, 0, 2, 0]);
    assert_eq!(answers[4].replies[0].number, 2);
    assert_eq!(answers[5].replies[0].value, b"2");
}

#[test]
fn more_datagrams_than_a_batch_has_requests_are_answered_in_their_order() {
    let mut bench = bench();
    let mut requesters = PEERS.map(|peer| Requester::new(&bench, peer));
    let keys: Vec<_> = (0..300).map(|number| format!("key{number}")).collect();
    let burst = |bench: &NativeBench, requesters: &mut [Requester], opcode, per_datagram: usize| {
        let value: &[u8] = if opcode == Opcode::Set { b"v" } else { b"" };
        let requests: Vec<_> = keys.iter().map(|key| bench.store(opcode, key.as_bytes(), value)).collect();
        let chunks = requests.chunks(per_datagram).enumerate();
        chunks.map(|(number, requests)| requesters[number % 4].datagram(requests)).collect::<Vec<_>>()
    };
    for per_datagram in [1, 3, 16, 33] {
        for opcode in [Opcode::Set, Opcode::Get, Opcode::Delete] {
            let burst = burst(&bench, &mut requesters, opcode, per_datagram);
            let answers = bench.answers(&burst);
            assert_eq!(answers.len(), 300usize.div_ceil(per_datagram));
            for answer in &answers {
                let ok = answer.statuses().iter().all(|status| *status == Status::Ok);
                assert!(ok, "{opcode:?} {per_datagram}");
            }
        }
    }
}

#[test]
fn replies_tell_of_losses() {
    let mut bench = bench();
    let mut requester = Requester::new(&bench, PEERS[0]);
    for pressure in [0, 1, u16::MAX] {
        bench.pressure = pressure;
        let datagram = requester.datagram(&[bench.request(Opcode::Noop, b"")]);
        let header = bench.answers(&[datagram])[0].header;
        assert_eq!((header.pressure, header.slow_down), (pressure, pressure != 0));
    }
}
