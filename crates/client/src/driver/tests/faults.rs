//! Networks that lose, duplicate and reorder; replies that answer no request.

use super::fake::Fake;
use super::world::World;
use super::{erew, options};
use crate::driver::OWN_TOKEN;
use crate::operation::{Operation, Outcome};
use crate::options::Options;
use micanite_wire::native::{Header, HeaderError, PartitionAccess, Status};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn patient() -> Options {
    Options { deadline_ns: 60_000_000_000, ..options() }
}

fn bad_network(options: Options, fakes: Vec<Fake>) -> World {
    let mut world = World::new(options, fakes);
    (world.loss, world.duplication, world.reordering) = (30, 30, 30);
    world.settle();
    world
}

#[test]
fn increments_are_executed_once() {
    let mut fake = Fake::new("10.0.0.1:1000", 4, 8, PartitionAccess::Erew);
    fake.facts.ids_window = 1024;
    let mut world = bad_network(patient(), vec![fake]);
    let keys: Vec<_> = (0..8).map(|number| format!("counter {number}")).collect();
    for key in &keys {
        world.call(&Operation::set(key.as_bytes(), b"0"));
    }
    world.ended.clear();
    let increments = 10_000;
    for token in 0..increments {
        let key = &keys[token as usize % keys.len()];
        world.submit(&Operation::increment(key.as_bytes(), 1 + token % 3), token);
    }
    world.settle();
    let tokens: HashSet<_> = world.ended.iter().map(|ended| ended.token).collect();
    assert_eq!((tokens.len() as u64, world.ended.len() as u64), (increments, increments));
    assert!(world.ended.iter().all(|ended| ended.outcome == Outcome::Ok));
    let number = |key: &String| -> u64 {
        String::from_utf8_lossy(&world.fakes[0].items[key.as_bytes()].value).parse().unwrap()
    };
    let sum: u64 = keys.iter().map(number).sum();
    assert_eq!(sum, (0..increments).map(|token| 1 + token % 3).sum());
    assert!(world.driver.counters().resent > 100);
    assert!(world.driver.counters().late > 100);
    assert_eq!(world.driver.counters().bogus, 0);
}

#[test]
fn every_first_request_with_an_id_may_get_lost() {
    for seed in 0..200 {
        let mut world = World::connected(patient(), vec![erew()]);
        world.seed(seed);
        world.call(&Operation::set(b"n", b"1"));
        world.submit(&Operation::increment(b"n", 1), 9);
        let lost = world.intercept();
        assert_eq!(lost.len(), 1, "and it never arrives");
        world.loss = 50;
        world.settle();
        let ended = world.ended.last().unwrap();
        assert_eq!((ended.outcome, ended.number), (Outcome::Ok, 2));
    }
}

/// The reply to a request that has introduced the client comes late: the introduction, whose own reply is
/// lost, keeps no place in the window of ids.
#[test]
fn a_needless_introduction_holds_up_no_request() {
    let mut fake = erew();
    fake.facts.ids_window = 2;
    let mut world = World::connected(patient(), vec![fake]);
    world.call(&Operation::set(b"n", b"1"));
    world.submit(&Operation::increment(b"n", 1), 9);
    let sent = world.intercept();
    world.loss = 100;
    world.pass(100_000_000);
    assert_eq!(world.driver.pending(), 2, "it is introduced");
    let (to, request) = &sent[0];
    let late = world.fakes[0].answer(*to, request).unwrap();
    world.show(&late, *to);
    assert_eq!((world.ended.last().unwrap().number, world.driver.pending()), (2, 0));
    assert_eq!(world.driver.submit(world.now_ns, &Operation::increment(b"n", 1), 10), Ok(()));
    world.loss = 0;
    world.settle();
    assert_eq!((world.ended.last().unwrap().number, world.driver.pending()), (3, 0));
}

/// Another request of the driver's own, which shares a datagram with a caller's, is not taken for the
/// introduction, whose end frees its datagram.
#[test]
fn only_the_introduction_ends_as_such() {
    let fake = Fake::new("10.0.0.1:1000", 1, 4, PartitionAccess::Erew);
    let mut world = World::connected(patient(), vec![fake]);
    world.call(&Operation::set(b"n", b"1"));
    world.ended.clear();
    world.driver.cork();
    world.submit(&Operation::noop(), OWN_TOKEN);
    world.submit(&Operation::increment(b"n", 1), 9);
    world.driver.flush();
    let sent = world.intercept();
    assert_eq!(sent.len(), 1, "they share a datagram");
    world.loss = 100;
    world.pass(100_000_000);
    assert_eq!(world.driver.pending(), 3, "the client is introduced");
    let (to, requests) = &sent[0];
    let late = world.fakes[0].answer(*to, requests).unwrap();
    world.show(&late, *to);
    let ended: Vec<_> = world.ended.iter().map(|ended| (ended.token, ended.number)).collect();
    assert_eq!((ended, world.driver.pending()), (vec![(9, 2)], 0));
    world.loss = 0;
    assert_eq!(world.call(&Operation::increment(b"n", 1)).number, 3);
}

#[test]
fn other_operations_survive_losses() {
    let mut fake = erew();
    fake.cookie = 3;
    // A late duplicate of a set would change the CAS value.
    let mut world = World::new(patient(), vec![fake]);
    world.loss = 30;
    world.settle();
    for round in 0..300_u64 {
        let key = format!("key {round}");
        let value = vec![b'v'; round as usize * 4];
        world.fakes[0].cookie += u64::from(round % 50 == 0);
        assert_eq!(world.call(&Operation::set(key.as_bytes(), &value)).outcome, Outcome::Ok);
        let found = world.call(&Operation::gets(key.as_bytes()));
        assert_eq!((found.outcome, found.value.len()), (Outcome::Ok, value.len()));
        let cas = Operation::cas(key.as_bytes(), b"new", found.cas.unwrap());
        assert_eq!(world.call(&cas).outcome, Outcome::Ok);
        assert_eq!(world.call(&cas).outcome, Outcome::Exists);
    }
}

#[test]
fn owners_change_on_a_bad_network() {
    let mut fake = Fake::new("10.0.0.1:1000", 4, 16, PartitionAccess::Erew);
    fake.facts.ids_window = 1024;
    let mut world = bad_network(patient(), vec![fake]);
    world.call(&Operation::set(b"n", b"0"));
    let mut sum = 0;
    for token in 0..5_000_u64 {
        if token % 100 == 0 {
            let fake = &mut world.fakes[0];
            fake.generation += 1;
            fake.owners.rotate_left(1);
        }
        world.submit(&Operation::increment(b"n", token), token);
        sum += token;
    }
    world.settle();
    assert_eq!(world.fakes[0].items[&b"n"[..]].value, sum.to_string().into_bytes());
    assert!(world.driver.counters().moved > 0);
}

#[test]
fn replies_to_other_requests_end_nothing() {
    let mut world = World::connected(options(), vec![erew()]);
    world.submit(&Operation::get(b"a"), 7);
    let sent = world.intercept();
    let (to, request) = &sent[0];
    let good = world.fakes[0].answer(*to, request).unwrap();

    let elsewhere = "10.0.0.1:999".parse().unwrap();
    let stranger = "10.0.0.2:1000".parse().unwrap();
    world.show(&good, elsewhere);
    world.show(&good, stranger);
    world.show(request, *to);
    world.show(&[], *to);
    // Sequence, client, echo, count; opcode, status and hash of the reply.
    for at in [16, 18, 20, 24, 25, 31, 6, 40, 41, 52, 55] {
        for flip in [1, 0x80] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            world.show(&bad, *to);
        }
    }
    for length in 0..good.len() {
        world.show(&good[..length], *to);
    }
    // Another status may be a valid one. Nothing else was accepted.
    let wrong: Vec<_> = world.ended.iter().filter(|ended| ended.outcome != Outcome::NotFound).collect();
    assert!(wrong.len() <= 1, "{wrong:?}");
    assert!(world.driver.counters().bogus + world.driver.counters().late > 40);
}

#[test]
fn duplicates_of_replies_are_late() {
    let mut world = World::connected(options(), vec![erew()]);
    world.submit(&Operation::get(b"a"), 7);
    let sent = world.intercept();
    let (to, request) = &sent[0];
    let good = world.fakes[0].answer(*to, request).unwrap();
    for _ in 0..3 {
        world.show(&good, *to);
    }
    assert_eq!(world.ended.len(), 1);
    assert_eq!(world.driver.counters().late, 2);
}

#[test]
fn other_versions_are_reported() {
    let mut world = World::connected(options(), vec![erew()]);
    world.submit(&Operation::get(b"a"), 7);
    let sent = world.intercept();
    let (to, request) = &sent[0];
    let mut other = request[..Header::BYTES].to_vec();
    (other[2], other[3], other[4], other[5]) = (9, 2, 0, 9);
    assert!(matches!(Header::read(&other), Err(HeaderError::Refused { .. })));
    world.show(&other, *to);
    assert_eq!(world.ended[0].outcome, Outcome::Version(9));
}

#[test]
fn other_versions_of_the_directory_are_reported() {
    let mut world = World::new(options(), vec![erew()]);
    let sent = world.intercept();
    let (to, request) = &sent[0];
    let mut other = request[..Header::BYTES].to_vec();
    (other[2], other[3], other[4], other[5]) = (9, 4, 0, 9);
    world.show(&other, *to);
    assert_eq!(world.driver.other_version(0), Some(9));
}

#[test]
fn windows_close_under_pressure_and_open_again() {
    let mut world = World::connected(options(), vec![erew()]);
    world.fakes[0].pressure = u16::MAX / 3;
    for token in 0..20_000 {
        world.submit(&Operation::get(format!("key {token}").as_bytes()), token);
        world.driver.flush();
        world.step();
    }
    world.settle();
    assert!(world.driver.counters().window_cuts > 3);
    let in_flight = |world: &mut World| {
        for token in 0..5_000 {
            let _ = world.driver.submit(world.now_ns, &Operation::set(b"key", &[0; 1000]), token);
        }
        world.intercept().len()
    };
    assert!(in_flight(&mut world) < 8);
    world.fakes[0].pressure = 0;
    world.settle();
    for token in 0..50_000 {
        world.submit(&Operation::set(b"key", &[0; 1000]), token);
    }
    world.settle();
    assert!(in_flight(&mut world) > 16);
}

/// Passes a datagram to the driver, whose sink panics with the second completion. Returns the tokens of both.
fn show_and_panic(world: &mut World, reply: &[u8], from: std::net::SocketAddr) -> Vec<u64> {
    let mut tokens = Vec::new();
    let (now_ns, driver) = (world.now_ns, &mut world.driver);
    let shown = catch_unwind(AssertUnwindSafe(|| {
        driver.on_datagram(now_ns, reply, from, &mut |completion: crate::Completion<'_>| {
            tokens.push(completion.token);
            assert!(tokens.len() < 2, "meant");
        });
    }));
    assert!(shown.is_err());
    tokens
}

/// Requests behind one whose sink has panicked were ended by the next reply once more, or corrupted lists.
#[test]
fn a_sink_that_panics_gets_no_completion_twice() {
    // All are answered, or the datagram is refused as a whole.
    for is_refused in [false, true] {
        let fake = Fake::new("10.0.0.1:1000", 1, 4, PartitionAccess::Erew);
        let mut world = World::connected(patient(), vec![fake]);
        world.call(&Operation::set(b"n", b"1"));
        world.ended.clear();
        world.driver.cork();
        (0..4).for_each(|token| world.submit(&Operation::increment(b"n", 1), token));
        world.driver.flush();
        let sent = world.intercept();
        assert_eq!(sent.len(), 1, "they share a datagram");
        let (to, requests) = &sent[0];
        let mut reply = world.fakes[0].answer(*to, requests).unwrap();
        if is_refused {
            // The header's status.
            reply[5] = Status::BadRequest as u8;
        }
        let mut tokens = show_and_panic(&mut world, &reply, *to);
        assert_eq!((tokens.len(), world.driver.pending()), (2, 2));
        world.show(&reply, *to);
        assert!(world.ended.is_empty(), "the reply is late");
        world.settle();
        tokens.extend(world.ended.iter().map(|ended| ended.token));
        tokens.sort_unstable();
        assert_eq!(tokens, [0, 1, 2, 3], "the others end by an error");
        assert!(world.ended.iter().all(|ended| ended.outcome == Outcome::TimedOut));
        assert_eq!(world.call(&Operation::increment(b"n", 1)).number, 6);
    }
}

/// A server whose end the sink did not survive was never tried again.
#[test]
fn a_sink_that_panics_at_a_dead_server_leaves_no_request() {
    let mut world = World::connected(options(), vec![erew()]);
    world.fakes[0].is_down = true;
    (0..200).for_each(|token: u64| world.submit(&Operation::set(&token.to_le_bytes(), &[b'v'; 300]), token));
    let (mut ended, mut panics) = (HashSet::new(), 0);
    while world.driver.pending() > 0 {
        world.intercept();
        world.now_ns = world.now_ns.max(world.driver.next_time().unwrap()) + 1;
        let (now_ns, driver) = (world.now_ns, &mut world.driver);
        let looked = catch_unwind(AssertUnwindSafe(|| {
            driver.on_time(now_ns, &mut |completion: crate::Completion<'_>| {
                assert!(ended.insert(completion.token), "a token ends once");
                assert!(ended.len() % 7 != 0, "meant");
            });
        }));
        panics += usize::from(looked.is_err());
    }
    assert_eq!((ended.len(), panics), (200, 200 / 7));
    assert!(world.driver.is_dead(0));
    world.fakes[0].is_down = false;
    while !world.driver.is_alive(0) {
        assert!(world.step());
    }
    assert_eq!(world.call(&Operation::set(b"key", b"value")).outcome, Outcome::Ok);
}
