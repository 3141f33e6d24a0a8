//! Operations, directories, direction, batches.

use super::fake::Fake;
use super::world::World;
use super::{erew, options};
use crate::operation::{Operation, Outcome};
use crate::options::{Batch, Options};
use crate::{SubmitError, driver::Driver};
use micanite_wire::native::{PartitionAccess, Status};

#[test]
fn operations_end_with_the_servers_status() {
    let mut world = World::connected(options(), vec![erew()]);
    assert_eq!(world.call(&Operation::get(b"a")).outcome, Outcome::NotFound);
    assert_eq!(world.call(&Operation::set(b"a", b"5")).outcome, Outcome::Ok);
    let found = world.call(&Operation::gets(b"a"));
    assert_eq!((found.outcome, &found.value[..]), (Outcome::Ok, &b"5"[..]));
    let unique = found.cas.unwrap();
    assert_eq!(world.call(&Operation::get(b"a")).cas, None);
    assert_eq!(world.call(&Operation::add(b"a", b"6")).outcome, Outcome::NotStored);
    assert_eq!(world.call(&Operation::increment(b"a", 3)).number, 8);
    assert_eq!(world.call(&Operation::append(b"a", b"0")).outcome, Outcome::Ok);
    assert_eq!(world.call(&Operation::cas(b"a", b"1", unique + 99)).outcome, Outcome::Exists);
    assert_eq!(world.call(&Operation::touch(b"a", 9)).outcome, Outcome::Ok);
    assert_eq!(world.call(&Operation::replace(b"a", b"x")).outcome, Outcome::Ok);
    assert_eq!(world.call(&Operation::increment(b"a", 1)).outcome, Outcome::NotANumber);
    assert_eq!(world.call(&Operation::delete(b"a")).outcome, Outcome::Ok);
    assert_eq!(world.call(&Operation::delete(b"a")).outcome, Outcome::NotFound);
    assert_eq!(world.call(&Operation::noop()).outcome, Outcome::Ok);
    assert_eq!(world.fakes[0].misdirected, 0);
    assert_eq!(world.driver.counters().bogus, 0);
    assert_eq!(world.driver.counters().resent, 0);
}

#[test]
fn invalid_operations_are_refused() {
    let mut world = World::connected(options(), vec![erew()]);
    let mut submit = |operation: &Operation<'_>| world.driver.submit(1, operation, 1);
    assert_eq!(submit(&Operation::get(b"")), Err(SubmitError::BadKey));
    assert_eq!(submit(&Operation::get(&[b'k'; 251])), Err(SubmitError::BadKey));
    assert_eq!(submit(&Operation::set(b"k", &[0; 1408])), Err(SubmitError::TooLong));
    assert_eq!(submit(&Operation::set(b"k", &[0; 1400])), Ok(()));
    assert_eq!(world.driver.pending(), 1);
}

#[test]
fn long_directories_are_read_and_reread_after_changes() {
    let mut fake = Fake::new("10.0.0.1:1000", 16, 1024, PartitionAccess::Erew);
    fake.changes_while_read = 3;
    let mut world = World::connected(options(), vec![fake]);
    for number in 0..500 {
        world.submit(&Operation::get(format!("key {number}").as_bytes()), number);
    }
    world.settle();
    assert_eq!(world.fakes[0].changes_while_read, 0);
    assert_eq!(world.fakes[0].misdirected, 0);
    assert!(world.fakes[0].seen.iter().all(|seen| *seen > 0));
}

#[test]
fn servers_with_short_datagrams_are_reached() {
    let mut fake = erew();
    fake.facts.payload_bytes_max = 1232;
    let mut world = World::connected(options(), vec![fake]);
    let long = Operation::set(b"a", &[7; 1100]);
    assert_eq!(world.call(&long).outcome, Outcome::Ok);
    // It restarts with a still lower limit.
    let mut world = World::connected(options(), vec![erew()]);
    world.fakes[0].facts.payload_bytes_max = 1232;
    world.fakes[0].generation += 1;
    world.call(&Operation::get(b"a"));
    world.pass(20_000_000);
    assert_eq!(world.call(&long).outcome, Outcome::Ok);
    assert!(world.driver.is_alive(0));
}

#[test]
fn new_generations_are_fetched_while_the_old_one_is_used() {
    let mut world = World::connected(options(), vec![erew()]);
    for moved in [true, false] {
        let fake = &mut world.fakes[0];
        fake.says_moved = moved;
        fake.generation += 1;
        fake.owners.iter_mut().for_each(|entry| entry.owner = 1 - entry.owner);
        let (asked, misdirected) = (fake.directory_requests, fake.misdirected);
        for number in 0..50_u64 {
            let value = [b'v'; 9];
            let key = format!("key {number}");
            assert_eq!(world.call(&Operation::set(key.as_bytes(), &value)).outcome, Outcome::Ok);
        }
        let fake = &world.fakes[0];
        assert_eq!(fake.directory_requests, asked + 1);
        assert!(fake.misdirected > misdirected);
        let misdirected = fake.misdirected;
        world.pass(20_000_000);
        world.call(&Operation::get(b"key 1"));
        assert_eq!(world.fakes[0].misdirected, misdirected, "the new directory is used");
    }
    assert!(world.driver.counters().moved > 0);
}

#[test]
fn keys_are_rehashed_after_a_seed_change() {
    let mut world = World::connected(options(), vec![erew()]);
    let fake = &mut world.fakes[0];
    (fake.facts.hash_seed, fake.generation) = (99, 77);
    for number in 0..20 {
        let key = format!("key {number}");
        assert_eq!(world.call(&Operation::set(key.as_bytes(), b"")).outcome, Outcome::Ok);
    }
    assert_eq!(world.fakes[0].keys().len(), 20);
    let misdirected = world.fakes[0].misdirected;
    for number in 0..20 {
        world.call(&Operation::get(format!("key {number}").as_bytes()));
    }
    assert_eq!(world.fakes[0].misdirected, misdirected);
}

#[test]
fn plain_gets_under_crew_go_round_the_cores_of_a_node() {
    for (node, expected) in [(None, [true, true, true, true]), (Some(1), [false, false, true, true])] {
        let mut fake = Fake::new("10.0.0.1:1000", 4, 4, PartitionAccess::Crew);
        fake.nodes = vec![0, 0, 1, 1];
        let options = Options { numa_node: node, ..options() };
        let mut world = World::connected(options, vec![fake]);
        for number in 0..200 {
            world.call(&Operation::get(format!("key {number}").as_bytes()));
        }
        let seen: Vec<_> = world.fakes[0].seen.iter().map(|seen| *seen > 0).collect();
        assert_eq!(seen, expected);
        let most = *world.fakes[0].seen.iter().max().unwrap();
        assert!(most <= 110);
        for number in 0..50 {
            world.call(&Operation::gets(format!("key {number}").as_bytes()));
            world.call(&Operation::set(format!("key {number}").as_bytes(), b""));
        }
        assert_eq!(world.fakes[0].misdirected, 0);
    }
}

/// Returns the sizes of the datagrams for so many gets of one core, submitted at once.
fn batches(batch: Batch, requests: u64, corked: bool) -> Vec<u16> {
    let fake = Fake::new("10.0.0.1:1000", 1, 1, PartitionAccess::Erew);
    let mut world = World::connected(Options { batch, ..options() }, vec![fake]);
    if corked {
        world.driver.cork();
    }
    for token in 0..requests {
        world.submit(&Operation::get(b"12345678"), token);
        if !corked {
            world.step();
        }
    }
    world.driver.flush();
    world.settle();
    assert_eq!(world.ended.len() as u64, requests);
    world.fakes[0].batches.iter().copied().collect()
}

#[test]
fn datagrams_have_the_chosen_number_of_requests() {
    assert_eq!(batches(Batch::Fixed(1), 8, true), [1; 8]);
    assert_eq!(batches(Batch::Fixed(4), 10, true), [4, 4, 2]);
    assert_eq!(batches(Batch::Full, 60, true), [44, 16]);
    assert_eq!(batches(Batch::Adaptive, 60, true), [44, 16]);
    assert_eq!(batches(Batch::Adaptive, 8, false), [1; 8], "a low rate");
}

#[test]
fn partly_filled_datagrams_leave_in_time() {
    let batch = Batch::Fixed(16);
    let options = Options { batch, linger_ns_max: 300_000, ..options() };
    let mut world = World::connected(options, vec![erew()]);
    let began = world.now_ns;
    let ended = world.call(&Operation::get(b"alone"));
    let waited = ended.at_ns - began;
    assert!((400_000..500_000).contains(&waited), "{waited}");
}

#[test]
fn gathers_more_at_a_high_rate() {
    let fake = Fake::new("10.0.0.1:1000", 1, 1, PartitionAccess::Erew);
    let mut world = World::connected(options(), vec![fake]);
    // 1 M requests per second and 100 us of round trip: 1 + 0.2 * 100.
    for token in 0..30_000 {
        let until = world.now_ns + 1_000;
        world.submit(&Operation::get(b"12345678"), token);
        world.pass(until.saturating_sub(world.now_ns));
    }
    world.settle();
    let batches: Vec<_> = world.fakes[0].batches.iter().copied().collect();
    let late = &batches[batches.len() - 50..batches.len() - 2];
    assert!(late.iter().all(|batch| (15..=30).contains(batch)), "{late:?}");
}

#[test]
fn values_without_room_come_in_other_datagrams() {
    let mut world = World::connected(options(), vec![erew()]);
    let keys: Vec<_> = (0..40).map(|number| format!("key {number}")).collect();
    for key in &keys {
        world.call(&Operation::set(key.as_bytes(), &[b'v'; 700]));
    }
    world.ended.clear();
    for (token, key) in keys.iter().enumerate() {
        world.submit(&Operation::get(key.as_bytes()), token as u64);
    }
    world.settle();
    assert!(world.driver.counters().no_room > 0);
    assert_eq!(world.ended.len(), 40);
    for ended in &world.ended {
        assert_eq!((ended.outcome, ended.value.len()), (Outcome::Ok, 700));
    }
    // The driver has shared to expect replies of that length.
    let no_room = world.driver.counters().no_room;
    for keys in keys.chunks(8).cycle().take(50) {
        for key in keys {
            world.submit(&Operation::get(key.as_bytes()), 1);
        }
        world.settle();
    }
    let more = world.driver.counters().no_room - no_room;
    assert!(more < 40, "{more} of 400");
}

#[test]
fn long_values_need_the_stream() {
    let mut world = World::connected(options(), vec![erew()]);
    world.call(&Operation::set(b"long", &[b'v'; 1392]));
    assert_eq!(world.call(&Operation::get(b"long")).value.len(), 1392);
    world.call(&Operation::append(b"long", &[b'v'; 100]));
    assert_eq!(world.call(&Operation::get(b"long")).outcome, Outcome::UseStream);
}

#[test]
fn requests_that_were_not_executed_are_sent_again() {
    let mut world = World::connected(options(), vec![erew()]);
    for status in [Status::SlowDown, Status::Moved, Status::NoRoom] {
        world.fakes[0].refuse = vec![status; 5];
        let ended = world.call(&Operation::set(b"a", b"1"));
        assert_eq!(ended.outcome, Outcome::Ok);
        assert!(world.fakes[0].refuse.is_empty());
    }
    assert_eq!(world.driver.counters().slow_downs, 5);
    world.fakes[0].refuse = vec![Status::OutOfSpace];
    assert_eq!(world.call(&Operation::set(b"a", b"1")).outcome, Outcome::OutOfSpace);
    world.fakes[0].refuse = vec![Status::Forgotten];
    assert_eq!(world.call(&Operation::increment(b"a", 1)).outcome, Outcome::Unknown);
}

#[test]
fn addresses_are_proved_again_when_the_cookie_changes() {
    let mut fake = erew();
    fake.cookie = 5;
    let mut world = World::connected(options(), vec![fake]);
    world.call(&Operation::set(b"a", &[b'v'; 500]));
    assert_eq!(world.driver.counters().unproven, 1, "the directory brought the cookie");
    world.fakes[0].cookie = 6;
    assert_eq!(world.call(&Operation::get(b"a")).value.len(), 500);
    world.fakes[0].cookie = 7;
    assert_eq!(world.call(&Operation::set(b"a", b"")).outcome, Outcome::Ok);
    assert_eq!(world.driver.counters().unproven, 3);
}

/// One cookie for all cores was that of the last reply: two cores whose replies came in turns refused each
/// other's until the deadline.
#[test]
fn a_client_whose_address_differs_by_port_proves_each() {
    let mut fake = erew();
    fake.cookie = 5;
    let base = fake.base.port();
    fake.port_cookies = (0..fake.facts.cores).map(|core| (base + core, 100 + u64::from(core))).collect();
    let mut world = World::connected(options(), vec![fake]);
    let mut unproven = 0;
    for round in 0..20 {
        for number in 0..200_u32 {
            world.submit(&Operation::set(&number.to_le_bytes(), b"v"), u64::from(number));
        }
        world.settle();
        let ended = std::mem::take(&mut world.ended);
        assert_eq!(ended.len(), 200);
        assert!(ended.iter().all(|ended| ended.outcome == Outcome::Ok), "round {round}");
        let proofs = std::mem::replace(&mut unproven, world.driver.counters().unproven);
        assert!(round < 2 || proofs == unproven, "round {round}: proofs were asked for again");
    }
}

#[test]
fn clients_prove_their_address_for_the_directory() {
    let mut fake = Fake::new("10.0.0.1:1000", 4, 1024, PartitionAccess::Erew);
    fake.cookie = 5;
    let mut world = World::connected(options(), vec![fake]);
    let pages = world.fakes[0].directory_requests;
    assert!(pages > 1, "the directory has several pages");
    assert_eq!(world.fakes[0].challenges, 1);
    // It asked again at once: a round trip for the challenge and one for each page.
    assert!(world.now_ns < (pages + 2) * 2 * world.delay_ns, "{}", world.now_ns);
    // After a restart of the server the old cookie is invalid.
    world.fakes[0].cookie = 6;
    world.fakes[0].generation += 1;
    world.call(&Operation::get(b"a"));
    world.pass(20_000_000);
    assert_eq!(world.fakes[0].directory_requests, 2 * pages);
    assert!(world.driver.is_alive(0));
}

#[test]
fn endless_challenges_do_not_loop() {
    let mut fake = erew();
    fake.cookie = 5;
    fake.changes_cookies = true;
    let mut world = World::new(options(), vec![fake]);
    world.pass(1_000_000_000);
    let challenges = world.fakes[0].challenges;
    assert!((2..100).contains(&challenges), "{challenges}");
    assert!(!world.driver.is_alive(0));
}

#[test]
fn callers_are_pushed_back_when_everything_is_full() {
    let datagrams = 32;
    let mut world = World::connected(Options { datagrams, ..options() }, vec![erew()]);
    let mut taken = 0;
    while world.driver.submit(world.now_ns, &Operation::get(b"12345678"), taken) == Ok(()) {
        taken += 1;
        assert!(taken < 32 * 60);
    }
    assert!(world.driver.counters().pushed_back == 1);
    world.settle();
    assert_eq!(world.ended.len() as u64, taken);
    assert_eq!(Driver::pending(&world.driver), 0);
}
