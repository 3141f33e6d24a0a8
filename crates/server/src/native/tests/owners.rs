//! Several workers: who answers, what is handed over, what is turned away.

use std::sync::atomic::{AtomicBool, Ordering};

use micanite_engine::{Access, Route};
use micanite_wire::native::Request;

use super::*;

/// Two workers, and keys that the first and the second own.
fn bench(access: &str) -> (NativeBench, [&'static [u8]; 2]) {
    let options = format!("threads = 2\nmemory-limit = 64\naccess = \"{access}\"");
    let bench = NativeBench::new(&options, 1472);
    let keys = KEYS.map(|key| (owner(&bench, key), key));
    let of = |worker| keys.iter().find(|(owner, _)| *owner == worker).unwrap().1;
    let keys = [of(0), of(1)];
    (bench, keys)
}

const KEYS: [&[u8]; 12] = [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j", b"k", b"l"];

fn route(bench: &NativeBench, key: &[u8]) -> (usize, Route) {
    let cache = &bench.server.shared.cache;
    let partition = cache.partition_of(cache.hash(key));
    (partition, cache.route(partition).unwrap())
}

fn owner(bench: &NativeBench, key: &[u8]) -> usize {
    route(bench, key).1.owner
}

/// A datagram whose header says where its first key lies.
fn datagram(bench: &NativeBench, requester: &mut Requester, requests: &[Request<'_>]) -> Arrival {
    requester.header.partition = route(bench, requests[0].key).0 as u16;
    requester.datagram(requests)
}

/// Lets a worker take a datagram; returns the owner if that is another worker.
fn elsewhere(bench: &mut NativeBench, worker: usize, arrival: &Arrival) -> Option<usize> {
    let burst = std::slice::from_ref(arrival);
    let sent = bench.round(worker, burst, false);
    check(bench, burst, &sent, false);
    sent.elsewhere.first().map(|(_, owner)| *owner)
}

#[test]
fn requests_forbidden_by_the_mode_are_for_the_owner() {
    // For a get and for a set.
    for (access, expected) in
        [("erew", [Some(1), Some(1)]), ("crew", [None, Some(1)]), ("crcw", [None, None])]
    {
        let (mut bench, keys) = bench(access);
        let mut requester = Requester::new(&bench, "10.0.0.1:1000");
        for stale in [0, 1] {
            requester.header.generation = bench.generation() ^ stale;
            for (opcode, expected) in [Opcode::Get, Opcode::Set].into_iter().zip(expected) {
                let requests = keys.map(|key| bench.request(opcode, key));
                let own = datagram(&bench, &mut requester, &requests[..1]);
                assert_eq!(elsewhere(&mut bench, 0, &own), None);
                let other = datagram(&bench, &mut requester, &requests[1..]);
                let found = elsewhere(&mut bench, 0, &other);
                assert_eq!(found, expected, "{access} {opcode:?}");
                assert_eq!(elsewhere(&mut bench, 1, &other), None);
            }
        }
    }
}

#[test]
fn a_stale_header_does_not_decide_where_a_datagram_goes() {
    let (mut bench, keys) = bench("erew");
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    requester.header.generation ^= 1;
    for (wrong, key) in [(1, keys[0]), (0, keys[1])] {
        let set = bench.store(Opcode::Set, key, b"v");
        let set = Request { hash: !set.hash, ..set };
        requester.header.partition = route(&bench, keys[wrong]).0 as u16;
        let arrival = requester.datagram(&[set]);
        let owner = 1 - wrong;
        assert_eq!(elsewhere(&mut bench, owner, &arrival), None);
        assert_eq!(elsewhere(&mut bench, wrong, &arrival), Some(owner));
    }
    let counters = &bench.native().counters;
    assert_eq!(counters[0].stale.get() + counters[1].stale.get(), 4);
}

/// A partition that does not exist, and no-ops, which have none.
#[test]
fn requests_for_unknown_partitions_stay() {
    let (mut bench, keys) = bench("erew");
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    let noop = bench.request(Opcode::Noop, b"");
    for partition in [1024, u16::MAX] {
        requester.header.partition = partition;
        for (worker, key) in keys.into_iter().enumerate() {
            let arrival = requester.datagram(&[noop]);
            assert_eq!(elsewhere(&mut bench, worker, &arrival), None);
            let arrival = requester.datagram(&[bench.request(Opcode::Get, key)]);
            assert_eq!(elsewhere(&mut bench, worker, &arrival), None);
        }
    }
}

/// The route has changed on the way, or the client has lied: the worker that has the datagram
/// asks the owner, whatever that costs.
#[test]
fn forwarded_datagrams_are_not_forwarded_again() {
    let (mut bench, keys) = bench("erew");
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    let requests = [
        bench.store(Opcode::Set, keys[1], b"10"),
        bench.store(Opcode::Set, keys[0], b"20"),
        Request { id: 1, argument: 5, ..bench.request(Opcode::Increment, keys[1]) },
        bench.request(Opcode::Get, keys[1]),
        bench.request(Opcode::Get, keys[0]),
    ];
    let mut arrival = datagram(&bench, &mut requester, &requests);
    arrival.forwarded = true;
    let burst = [arrival];
    let done = AtomicBool::new(false);
    let (server, time) = (bench.server.clone(), (bench.now_s, 0));
    let [first, second] = bench.workers.as_mut_slice() else {
        unreachable!("two workers");
    };
    let sent = std::thread::scope(|scope| {
        scope.spawn(|| second.serve_while(|| !done.load(Ordering::Acquire)));
        let sent = first.round(&server, time, &burst, false);
        done.store(true, Ordering::Release);
        sent
    });
    check(&bench, &burst, &sent, false);
    let answer = Answer::read(&sent.datagrams[0].1);
    assert_eq!(answer.statuses(), [Status::Ok; 5]);
    let values: Vec<_> = answer.replies.iter().map(|told| &told.value[..]).collect();
    assert_eq!(values[3..], [b"15", b"20"]);
}

#[test]
fn full_rings_answer_moved_to_stale_clients_and_slow_down_to_others() {
    let (mut bench, keys) = bench("erew");
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    let (own, other) = (bench.request(Opcode::Get, keys[0]), bench.store(Opcode::Set, keys[1], b"v"));
    let mut burst = Vec::new();
    for (requests, stale) in
        [(&[own, own][..], 0), (&[other, own, other], 0), (&[own], 0), (&[other], 1), (&[own], 0)]
    {
        requester.header.generation = bench.generation() ^ stale;
        burst.push(datagram(&bench, &mut requester, requests));
    }
    let sent = bench.round(0, &burst, true);
    check(&bench, &burst, &sent, true);
    let read = |(_, bytes): &(_, Vec<u8>)| Answer::read(bytes).statuses();
    let statuses: Vec<_> = sent.datagrams.iter().map(read).collect();
    assert_eq!(statuses[0], [Status::NotFound; 2]);
    assert_eq!(statuses[1], [Status::SlowDown; 3]);
    assert_eq!(statuses[2], [Status::NotFound]);
    assert_eq!(statuses[3], [Status::Moved]);
    assert_eq!(statuses[4], [Status::NotFound]);
    // Nothing of it was executed.
    let get = bench.request(Opcode::Get, keys[1]);
    let arrival = datagram(&bench, &mut requester, &[get]);
    let sent = bench.round(1, &[arrival], false);
    let answer = Answer::read(&sent.datagrams[0].1);
    assert_eq!(answer.statuses(), [Status::NotFound]);
}

/// Ids are the server's, not a worker's: whoever executes a request, the others know.
#[test]
fn a_request_that_one_worker_has_executed_is_answered_by_another_one() {
    let (mut bench, keys) = bench("crew");
    let mut requester = Requester::new(&bench, "10.0.0.1:1000");
    let set = bench.store(Opcode::Set, keys[0], b"1");
    let increment = Request { id: 1, argument: 1, ..bench.request(Opcode::Increment, keys[0]) };
    let first = datagram(&bench, &mut requester, &[set, increment]);
    assert_eq!(elsewhere(&mut bench, 0, &first), None);
    let (partition, _) = route(&bench, keys[0]);
    let route = Route { access: Access::Crew, owner: 1 };
    bench.server.set_route(partition, route).unwrap();
    requester.header.resent = true;
    for generation in [requester.header.generation, bench.generation()] {
        requester.header.generation = generation;
        let again = datagram(&bench, &mut requester, &[increment]);
        assert_eq!(elsewhere(&mut bench, 0, &again), Some(1));
        let sent = bench.round(1, &[again], false);
        let answer = Answer::read(&sent.datagrams[0].1);
        assert_eq!(answer.replies[0].number, 2);
    }
    assert_eq!(bench.native().counters[1].answered_again.get(), 2);
}
