//! Servers with several interfaces.

use super::fake::Fake;
use super::options;
use super::world::World;
use crate::operation::{Operation, Outcome};
use crate::options::Options;
use micanite_wire::native::PartitionAccess;
use std::net::IpAddr;

const SECOND_NS: u64 = 1_000_000_000;

/// Creates a server with four cores at two interfaces.
fn two_interfaces(access: PartitionAccess) -> Fake {
    let mut fake = Fake::new("10.0.0.2:1000", 4, 8, access);
    fake.spread(&["10.0.0.2", "10.0.1.2"]);
    fake.cookie = 7;
    fake
}

fn other() -> IpAddr {
    "10.0.1.2".parse().unwrap()
}

/// Sets and gets a number of keys; returns how many requests came to a core that does not own them.
fn misdirected(world: &mut World) -> u64 {
    let before = world.fakes[0].misdirected;
    for number in 0..100 {
        let key = format!("key {number}");
        assert_eq!(world.call(&Operation::set(key.as_bytes(), b"1")).outcome, Outcome::Ok);
        assert_eq!(world.call(&Operation::get(key.as_bytes())).value, b"1");
    }
    world.fakes[0].misdirected - before
}

#[test]
fn requests_go_to_the_interface_of_the_owner() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    assert_eq!(world.driver.counters().paths_found, 1);
    assert_eq!(world.driver.core_address(0, 1), Some("10.0.1.2:1001".parse().unwrap()));
    assert_eq!(world.driver.core_address(0, 2), Some("10.0.0.2:1002".parse().unwrap()));
    assert_eq!(misdirected(&mut world), 0);
    assert!(world.fakes[0].arrived[&other()] > 50);
}

#[test]
fn requests_stay_at_the_given_address_if_they_shall() {
    let options = Options { follow_interfaces: false, ..options() };
    let mut world = World::connected(options, vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    assert!(misdirected(&mut world) > 0);
    assert_eq!((world.driver.counters().probes, world.fakes[0].arrived.get(&other())), (0, None));
}

#[test]
fn requests_stay_at_the_given_address_until_another_one_answers() {
    let mut fake = two_interfaces(PartitionAccess::Erew);
    fake.unreachable.insert(other());
    let mut world = World::connected(options(), vec![fake]);
    world.pass(SECOND_NS);
    assert_eq!(world.driver.core_address(0, 1), Some("10.0.0.2:1000".parse().unwrap()));
    assert!(misdirected(&mut world) > 0, "the server forwards them");
    world.fakes[0].unreachable.clear();
    world.pass(200 * SECOND_NS);
    assert_eq!(misdirected(&mut world), 0);
}

#[test]
fn paths_that_fall_silent_are_left_and_found_again() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    world.fakes[0].unreachable.insert(other());
    assert!(misdirected(&mut world) > 0, "no request fails");
    assert_eq!(world.driver.counters().paths_lost, 1);
    assert_eq!(world.driver.counters().timed_out, 0);
    world.fakes[0].unreachable.clear();
    world.pass(200 * SECOND_NS);
    assert_eq!(misdirected(&mut world), 0);
}

/// Executes requests for all cores again and again for some seconds; returns how often a path was lost.
fn lost_within(world: &mut World, seconds: u64) -> u64 {
    let before = world.driver.counters().paths_lost;
    let until = world.now_ns + seconds * SECOND_NS;
    while world.now_ns < until {
        misdirected(world);
        world.pass(SECOND_NS / 2);
    }
    assert_eq!(world.driver.counters().timed_out, 0);
    world.driver.counters().paths_lost - before
}

/// One core of an interface answers and another one does not.
#[test]
fn interfaces_with_a_silent_core_are_left_until_that_core_answers() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    world.fakes[0].silent.insert(3);
    assert_eq!(lost_within(&mut world, 100), 1);
    // A directory of another generation does not make the client probe the core that answers.
    world.fakes[0].generation += 1;
    assert_eq!(lost_within(&mut world, 100), 0);
    world.fakes[0].silent.clear();
    world.pass(200 * SECOND_NS);
    assert_eq!(misdirected(&mut world), 0);
}

/// A core answers probes and nothing else, as behind a link that loses long datagrams.
#[test]
fn pauses_after_losses_of_a_path_double_until_it_serves() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    world.fakes[0].deaf.insert(3);
    // Pauses of 1, 2, 4 .. 64 s take 127 s in all.
    let lost = lost_within(&mut world, 120);
    assert!((5..=7).contains(&lost), "{lost}");
    world.fakes[0].deaf.clear();
    assert_eq!(lost_within(&mut world, 200), 0);
    assert_eq!(misdirected(&mut world), 0);
    // The path has served since, so the pauses begin anew.
    world.fakes[0].deaf.insert(3);
    let lost = lost_within(&mut world, 10);
    assert!((3..=4).contains(&lost), "{lost}");
}

/// The socket's buffer is full while a probe is due.
#[test]
fn probes_that_could_not_be_sent_do_not_count() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    for _ in 0..1000 {
        world.driver.transmit(world.now_ns, |_, _| false);
    }
    let sent = world.intercept();
    assert_eq!((sent.len(), sent[0].0), (1, "10.0.1.2:1001".parse().unwrap()));
    assert_eq!(world.driver.counters().probes, 1);
}

/// A server that stands still as a whole keeps its paths.
#[test]
fn paths_of_a_silent_server_are_kept() {
    for pause in [0, 7, 13, 26, 49] {
        let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
        world.pass(SECOND_NS);
        world.fakes[0].is_down = true;
        for number in 0..50 {
            let key = format!("key {number}");
            world.submit(&Operation::get(key.as_bytes()), number);
        }
        world.pass(SECOND_NS + pause * SECOND_NS / 100);
        world.fakes[0].is_down = false;
        world.settle();
        assert_eq!(world.driver.counters().paths_lost, 0, "{pause}");
        assert_eq!(misdirected(&mut world), 0);
    }
}

/// Another generation of the same server keeps the paths that are known.
#[test]
fn moved_partitions_are_followed_to_their_interface() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    let probes = world.driver.counters().probes;
    let fake = &mut world.fakes[0];
    fake.generation += 1;
    for partition in &mut fake.owners {
        partition.owner = (partition.owner + 1) % 4;
    }
    world.call(&Operation::get(b"key"));
    world.pass(SECOND_NS);
    assert_eq!(misdirected(&mut world), 0);
    assert_eq!(world.driver.counters().probes, probes);
}

/// A server that draws another seed, or a generation far away, is another one: its addresses have to answer
/// again. The seed stays with an image.
#[test]
fn restarted_servers_prove_their_addresses_again() {
    for (generations, seeds) in [(1, 1), (1 << 30, 0), (u32::MAX, 0)] {
        let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
        world.pass(SECOND_NS);
        let probes = world.driver.counters().probes;
        let fake = &mut world.fakes[0];
        fake.generation = fake.generation.wrapping_add(generations);
        fake.facts.hash_seed += seeds;
        world.call(&Operation::get(b"key"));
        world.pass(SECOND_NS);
        assert!(world.driver.counters().probes > probes);
        assert_eq!(misdirected(&mut world), 0);
    }
}

/// A hostile server names the address of a third party, in ever new directories.
#[test]
fn addresses_that_do_not_answer_get_few_short_datagrams() {
    let mut fake = two_interfaces(PartitionAccess::Crcw);
    fake.unreachable.insert(other());
    let mut world = World::connected(options(), vec![fake]);
    for number in 0..200_u64 {
        world.fakes[0].generation += 1;
        let ip = IpAddr::from([10, 1, number as u8, 1]);
        world.fakes[0].interfaces[1] = ip;
        world.fakes[0].unreachable.insert(ip);
        world.call(&Operation::get(b"key"));
        world.pass(SECOND_NS / 200);
    }
    let probes = world.driver.counters().probes;
    assert!((20..=3 * 128).contains(&probes), "{probes}");
    assert_eq!(world.driver.counters().paths_found, 0);
}

/// An address answers as a server, but as another one.
fn is_not_used(stranger: Fake) {
    let mut fake = two_interfaces(PartitionAccess::Erew);
    fake.unreachable.insert(other());
    let mut world = World::connected(options(), vec![fake]);
    // The world passes datagrams to the first server that has the address.
    world.fakes.insert(0, stranger);
    world.pass(10 * SECOND_NS);
    assert!(world.fakes[0].directory_requests > 0, "it was asked");
    assert_eq!(world.driver.counters().paths_found, 0);
    assert_eq!(world.driver.core_address(0, 1), Some("10.0.0.2:1000".parse().unwrap()));
}

#[test]
fn addresses_of_another_server_are_not_used() {
    let mut stranger = Fake::new("10.0.1.2:1001", 4, 8, PartitionAccess::Erew);
    stranger.facts = two_interfaces(PartitionAccess::Erew).facts;
    stranger.facts.hash_seed = 8;
    is_not_used(stranger);
}

/// Servers that were started from copies of one image have one seed.
#[test]
fn addresses_of_a_server_on_a_copy_of_the_image_are_not_used() {
    let mut twin = Fake::new("10.0.1.2:1001", 4, 8, PartitionAccess::Erew);
    twin.facts = two_interfaces(PartitionAccess::Erew).facts;
    twin.generation = 0x9e37_79b9;
    is_not_used(twin);
}

/// A probe is answered before the client knows of a new generation.
#[test]
fn addresses_that_answer_by_a_newer_directory_are_used_once_it_is_known() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.fakes[0].generation += 1;
    world.pass(SECOND_NS);
    assert_eq!(world.driver.counters().paths_found, 1);
    assert_eq!((world.driver.counters().directories, misdirected(&mut world)), (2, 0));
}

/// The address of the client may differ by interface, and so does its proof.
#[test]
fn each_path_has_a_cookie_of_its_own() {
    let mut world = World::connected(options(), vec![two_interfaces(PartitionAccess::Erew)]);
    world.pass(SECOND_NS);
    world.fakes[0].cookies.insert(other(), 99);
    // The proof of the path has become invalid, and the next reply brings another one.
    misdirected(&mut world);
    let unproven = world.driver.counters().unproven;
    assert_eq!(misdirected(&mut world), 0);
    assert_eq!(world.driver.counters().unproven, unproven);
}
