//! Lists of servers, some of which die.

use super::fake::Fake;
use super::options;
use super::world::World;
use crate::ketama::Continuum;
use crate::operation::{Operation, Outcome};
use crate::options::{OnDead, Options, ServerAddress};
use crate::{SubmitError, driver::Driver};
use micanite_wire::native::{Header, Kind, PartitionAccess, Requests};
use std::collections::HashSet;

fn three() -> Vec<Fake> {
    let fake = |base: &str| Fake::new(base, 2, 4, PartitionAccess::Erew);
    vec![fake("10.0.0.1:1000"), fake("10.0.0.2:1000"), fake("10.0.0.3:1000")]
}

fn key_of(driver: &Driver, server: usize, from: usize) -> String {
    let mut keys = (from..).map(|number| format!("key {number}"));
    keys.find(|key| driver.server_of(key.as_bytes()) == server).unwrap()
}

#[test]
fn keys_are_spread_over_the_list() {
    let mut world = World::connected(options(), three());
    for number in 0..300 {
        let key = format!("key {number}");
        assert_eq!(world.call(&Operation::set(key.as_bytes(), b"")).outcome, Outcome::Ok);
    }
    for (server, fake) in world.fakes.iter().enumerate() {
        assert!(fake.keys().len() > 50);
        let at_home = |key: &Vec<u8>| world.driver.server_of(key) == server;
        assert!(fake.keys().iter().all(at_home));
    }
}

/// Gets that any core may execute went to a silent one in turn with the others.
#[test]
fn a_core_that_does_not_answer_is_asked_for_no_shared_gets() {
    let mut fake = Fake::new("10.0.0.1:1000", 2, 4, PartitionAccess::Crew);
    fake.deaf.insert(1);
    let options = options();
    let deadline_ns = options.deadline_ns;
    let mut world = World::connected(options, vec![fake]);
    let began_ns = world.now_ns;
    (0..200_000_u64).for_each(|number| world.submit(&Operation::get(&number.to_le_bytes()), number));
    world.settle();
    let late = |world: &World| world.ended.iter().filter(|ended| ended.outcome == Outcome::TimedOut).count();
    let of_first = late(&world);
    assert!(of_first > 0 && world.ended.len() == 200_000 && of_first < 100_000, "{of_first} late");
    let took_ns = world.now_ns - began_ns;
    assert!(took_ns < deadline_ns * 5 / 2, "{} ms", took_ns / 1_000_000);
    // Now it gets a datagram at a time, also while the other has no room.
    (0..200_000_u64).for_each(|number| world.submit(&Operation::get(&number.to_le_bytes()), number));
    world.settle();
    let of_second = late(&world) - of_first;
    assert!(of_second < 500, "{of_second} late");
    // The core is asked again, and answers.
    world.fakes[0].deaf.clear();
    world.pass(deadline_ns * 2);
    let before = world.fakes[0].seen[1];
    for number in 0..1_000_u64 {
        assert_eq!(world.call(&Operation::get(&number.to_le_bytes())).outcome, Outcome::NotFound);
    }
    assert!(world.fakes[0].seen[1] > before);
}

/// Errors of a no-op name the server that it goes to, whatever ketama makes of an empty key.
#[test]
fn a_no_op_belongs_to_the_first_server() {
    let list = |number: u8| {
        let server = |last: u8| ServerAddress::resolve(&format!("10.0.{number}.{last}:1000")).unwrap();
        [server(1), server(2), server(3)]
    };
    let of_empty_key = |servers: &[ServerAddress]| {
        Continuum::new(servers.iter().map(|server| (server.name.as_str(), 1))).find(b"")
    };
    let servers = (0..).map(list).find(|servers| of_empty_key(servers) != 0).unwrap();
    let driver = Driver::new(options(), &servers, 1);
    assert_eq!((driver.server_of(b""), driver.server_now(b"")), (0, 0));
}

#[test]
fn dead_servers_do_not_block_others_and_are_retried() {
    let mut world = World::connected(options(), three());
    world.fakes[1].is_down = true;
    let lost = key_of(&world.driver, 1, 0);
    let kept = key_of(&world.driver, 2, 0);
    world.submit(&Operation::get(lost.as_bytes()), 1);
    world.submit(&Operation::get(kept.as_bytes()), 2);
    while world.ended.is_empty() {
        world.step();
    }
    assert_eq!(world.ended[0].token, 2, "the other one does not wait");
    world.settle();
    assert_eq!(world.ended[1].outcome, Outcome::TimedOut);
    assert!(world.driver.is_dead(1));
    let refused = world.driver.submit(world.now_ns, &Operation::get(lost.as_bytes()), 3);
    assert_eq!(refused, Err(SubmitError::ServerDown { server: 1 }));

    world.fakes[1].is_down = false;
    while !world.driver.is_alive(1) {
        assert!(world.step());
    }
    assert_eq!(world.call(&Operation::get(lost.as_bytes())).outcome, Outcome::NotFound);
}

/// A loaded server may need longer for its directory than all attempts and any wait between two.
#[test]
fn directories_are_waited_for_until_the_deadline() {
    let second_ns = 1_000_000_000;
    let options = Options { deadline_ns: 30 * second_ns, ..options() };
    let mut world = World::new(options.clone(), three());
    world.delay_ns = 2 * second_ns;
    world.settle();
    assert!((0..3).all(|server| world.driver.is_alive(server)));

    let mut world = World::new(options, three());
    world.fakes.iter_mut().for_each(|fake| fake.is_down = true);
    world.pass(29 * second_ns);
    assert!(!world.driver.is_dead(1));
    world.pass(2 * second_ns);
    assert!(world.driver.is_dead(1));
}

/// A list is not kept waiting by one dead server, however long the deadline.
#[test]
fn a_dead_server_beside_others_is_found_soon() {
    let second_ns = 1_000_000_000;
    let mut world = World::new(Options { deadline_ns: 60 * second_ns, ..options() }, three());
    world.fakes[1].is_down = true;
    world.pass(3 * second_ns);
    assert!(world.driver.is_dead(1) && world.driver.is_alive(2));
}

/// Values that are too long for a datagram went to the dead server, and gets to the one that stands in.
#[test]
fn long_values_go_where_gets_go() {
    for on_dead in [OnDead::FailFast, OnDead::MoveOn] {
        let mut world = World::connected(Options { on_dead, ..options() }, three());
        let key = key_of(&world.driver, 1, 0);
        assert_eq!(world.driver.server_now(key.as_bytes()), 1);
        world.fakes[1].is_down = true;
        world.submit(&Operation::get(key.as_bytes()), 1);
        world.settle();
        assert!(world.driver.is_dead(1));
        let now = world.driver.server_now(key.as_bytes());
        assert_eq!(now != 1, on_dead == OnDead::MoveOn);
    }
}

/// The server excludes a second execution for a minute only.
#[test]
fn no_request_is_sent_again_after_a_minute() {
    let mut world = World::connected(Options { deadline_ns: 600_000_000_000, ..options() }, three());
    world.fakes[1].is_down = true;
    let key = key_of(&world.driver, 1, 0);
    let began_ns = world.now_ns;
    world.submit(&Operation::increment(key.as_bytes(), 1), 1);
    while world.ended.is_empty() {
        world.step();
    }
    assert!(world.now_ns - began_ns <= 61_000_000_000);
}

/// A request that was sent may be executed by a server that was only slow: it does not end as one that was
/// not.
#[test]
fn requests_to_a_dead_server_end() {
    let mut world = World::connected(options(), three());
    world.fakes[0].is_down = true;
    let key = key_of(&world.driver, 0, 0);
    let set = |world: &mut World, token: u64| {
        let value = token.to_le_bytes().repeat(25);
        world.driver.submit(world.now_ns, &Operation::set(key.as_bytes(), &value), token).is_ok()
    };
    let token = (0..500).take_while(|token| set(&mut world, *token)).count() as u64;
    assert!(token > 100);
    let (mut sent, mut submitted) = (HashSet::new(), token);
    while world.driver.pending() > 0 {
        for (_, message) in world.intercept() {
            let header = Header::read(&message).unwrap();
            let requests = (header.kind == Kind::Requests).then(|| Requests::check(&message, header.count));
            let values = requests.into_iter().flat_map(|requests| requests.unwrap()).map(|one| one.value);
            sent.extend(values.filter_map(|value| Some(u64::from_le_bytes(*value.first_chunk()?))));
        }
        if submitted == token && world.ended.is_empty() {
            world.driver.cork();
            submitted += u64::from(set(&mut world, token));
        }
        assert!(world.step());
    }
    assert_eq!((world.ended.len() as u64, world.driver.counters().servers_lost), (submitted, 1));
    for ended in &world.ended {
        let outcomes = [Outcome::TimedOut, Outcome::ServerDown];
        assert!(outcomes.contains(&ended.outcome), "{ended:?}");
        assert!(ended.outcome == Outcome::TimedOut || !sent.contains(&ended.token), "{ended:?}");
    }
    let last = world.ended.iter().find(|ended| ended.token == token);
    assert!(last.is_some_and(|last| last.outcome == Outcome::ServerDown), "{last:?}");
}

/// A server that was dead for hours is asked at each of its ports in turn, as at the beginning.
#[test]
fn a_server_that_was_dead_for_long_is_asked_at_all_its_ports() {
    let mut world =
        World::connected(options(), vec![Fake::new("10.0.0.1:1000", 4, 4, PartitionAccess::Erew)]);
    world.fakes[0].is_down = true;
    assert_eq!(world.call(&Operation::get(b"key")).outcome, Outcome::TimedOut);
    assert!(world.driver.is_dead(0));
    world.pass(600 * options().dead_for_ns);
    for core in 0..4 {
        let fake = &mut world.fakes[0];
        (fake.is_down, fake.silent) = (false, (0..4).filter(|other| *other != core).collect());
        world.pass(40 * options().dead_for_ns);
        assert!(world.driver.is_alive(0), "{core}");
        world.fakes[0].is_down = true;
        world.call(&Operation::get(b"key"));
        world.pass(600 * options().dead_for_ns);
        assert!(world.driver.is_dead(0));
    }
}

/// A client that was told to try a dead server at once sent it a datagram with each look at the time.
#[test]
fn a_dead_server_is_not_flooded() {
    let options = Options { dead_for_ns: 0, ..options() };
    let mut world = World::new(options, vec![Fake::new("10.0.0.1:1000", 1, 4, PartitionAccess::Erew)]);
    world.fakes[0].is_down = true;
    world.settle();
    assert!(world.driver.is_dead(0));
    let began_ns = world.now_ns;
    let mut sent = 0;
    for number in 0..1_000 {
        world.now_ns = began_ns + number * 1_000;
        sent += world.intercept().len();
    }
    assert!(sent <= 1, "{sent} requests within a millisecond");
}

/// The jitter of a pause without an end made it overflow.
#[test]
fn a_dead_server_may_stay_dead_for_good() {
    let mut world = World::new(Options { dead_for_ns: u64::MAX, ..options() }, three());
    world.fakes[1].is_down = true;
    world.settle();
    assert!(world.driver.is_alive(0) && world.driver.is_dead(1) && world.driver.is_alive(2));
    world.fakes[1].is_down = false;
    world.pass(1_000_000_000_000);
    assert!(world.driver.is_dead(1));
}

#[test]
fn another_server_stands_in_if_configured() {
    let on_dead = OnDead::MoveOn;
    let mut world = World::connected(Options { on_dead, ..options() }, three());
    world.fakes[1].is_down = true;
    let lost = key_of(&world.driver, 1, 0);
    assert_eq!(world.call(&Operation::get(lost.as_bytes())).outcome, Outcome::TimedOut);
    assert_eq!(world.call(&Operation::set(lost.as_bytes(), b"1")).outcome, Outcome::Ok);
    assert_eq!(world.call(&Operation::get(lost.as_bytes())).value, b"1");
}

#[test]
fn unreachable_servers_are_found_later() {
    let mut fakes = three();
    fakes[2].is_down = true;
    let mut world = World::connected(options(), fakes);
    assert!(world.driver.is_dead(2) && world.driver.is_alive(1));
    world.fakes[2].is_down = false;
    while !world.driver.is_alive(2) {
        assert!(world.step());
    }
    let key = key_of(&world.driver, 2, 0);
    assert_eq!(world.call(&Operation::get(key.as_bytes())).outcome, Outcome::NotFound);
}
