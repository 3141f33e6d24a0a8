//! One-sided reads: when they are used, and what they refuse.

use micanite_chunks::Entry;

use super::client::Client;
use super::server::{FakeServer, LEASE_NS};
use super::world::{MS, server, world};
use crate::driver::SubmitError;
use crate::fabric::counters::REFUSALS;
use crate::fabric::options::{FabricOptions, Reads};
use crate::operation::{Operation, Outcome};

fn client() -> Client {
    Client::new(1, &FabricOptions::default())
}

fn refused(client: &Client, name: &str) -> u64 {
    let place = REFUSALS.iter().position(|known| *known == name).unwrap();
    client.pool.counters().refused[place]
}

/// Proves that the first get asks, and that the second one reads without the server.
#[test]
fn the_second_get_reads_one_sided() {
    let mut client = client();
    client.set(b"key", b"value");
    let first = client.get(b"key");
    assert_eq!((&first.value[..], first.one_sided), (&b"value"[..], false));
    let messages = server(|server, _| server.messages);
    let second = client.get(b"key");
    assert_eq!((&second.value[..], second.one_sided, second.flags), (&b"value"[..], true, 0));
    assert_eq!(server(|server, _| server.messages), messages);
    let counters = client.pool.counters();
    assert_eq!((counters.gets_one_sided, counters.gets_two_sided), (1, 1));
    assert_eq!(client.get(b"missing").outcome, Outcome::NotFound);
}

/// Proves that two-sided gets neither read nor ask for entries.
#[test]
fn two_sided_gets_are_messages() {
    let mut client = Client::new(1, &FabricOptions { reads: Reads::TwoSided, ..FabricOptions::default() });
    client.set(b"key", b"value");
    world(|world| world.push());
    assert!((0..3).all(|_| !client.get(b"key").one_sided));
    assert_eq!(client.pool.counters().bogus, 0);
    assert_eq!((world(|world| world.reads), client.pool.connection(0).entries()), (0, 0));
}

/// Proves that pushes bring the entries of own sets, so that the first get reads one-sided.
#[test]
fn pushes_bring_entries() {
    let mut client = client();
    client.set(b"key", b"value");
    world(|world| world.push());
    client.run(10);
    assert!(client.get(b"key").one_sided);
    assert_eq!(client.pool.counters().entries_pushed, 1);
}

/// Proves that a get behind an unanswered set of its key asks by a message, and that the new value comes.
#[test]
fn an_unanswered_set_makes_its_key_two_sided() {
    let mut client = client();
    client.know(b"key", b"old");
    client.know(b"other", b"value");
    world(|world| world.push());
    client.run(10);
    client.submit(&Operation::set(b"key", b"new")).unwrap();
    world(|world| world.push());
    let get = client.submit(&Operation::get(b"key")).unwrap();
    let other = client.submit(&Operation::get(b"other")).unwrap();
    assert!(client.wait(other).one_sided);
    let got = client.wait(get);
    assert_eq!((&got.value[..], got.one_sided), (&b"new"[..], false));
}

/// Proves that a value is read as long as it is the newest: another client's set kills its chunk.
#[test]
fn a_dead_chunk_is_refused() {
    let mut client = client();
    client.know(b"key", b"old");
    server(|server, now_ns| server.set(b"key", b"new", (3, 0), now_ns));
    let got = client.get(b"key");
    assert_eq!((&got.value[..], got.flags, got.one_sided), (&b"new"[..], 3, false));
    assert_eq!(refused(&client, "version"), 1);
    assert!(client.get(b"key").one_sided);
    assert_eq!(client.pool.counters().retries, 0);
}

/// Proves that forged entries bring no value: those with version 0 and beyond the area are not kept, others
/// are refused.
#[test]
fn forged_entries_bring_no_wrong_value() {
    let mut client = client();
    client.know(b"victim", b"secret");
    client.set(b"key", b"value");
    let forgeries: [fn(Entry) -> Entry; 8] = [
        |entry| Entry { version: 0, ..entry },
        |entry| Entry { offset: 1 << 40, ..entry },
        |entry| Entry { offset: u64::MAX - 63, ..entry },
        |entry| Entry { offset: entry.offset + 8, ..entry },
        |entry| Entry { bytes: 1, ..entry },
        |entry| Entry { bytes: u32::MAX, ..entry },
        |entry| Entry { bytes: entry.bytes + 1, ..entry },
        |entry| Entry { version: entry.version ^ 1, ..entry },
    ];
    for forge in forgeries {
        server(|server, _| server.forge = Some(forge));
        for _ in 0..3 {
            let got = client.get(b"key");
            assert_eq!((&got.value[..], got.one_sided), (&b"value"[..], false));
        }
    }
    assert_eq!(client.pool.counters().entries_bogus, 6 * 3);
    assert!(refused(&client, "version") > 0 && refused(&client, "lengths") > 0);
}

/// Proves that an entry to another key's chunk is refused, whatever its version.
#[test]
fn another_keys_chunk_is_refused() {
    let mut client = client();
    client.set(b"victim", b"secret");
    client.set(b"keykey", b"valuev");
    // The chunk of the victim, in the reply to a get of the key.
    server(|server, now_ns| {
        let entry = server.load(b"victim", now_ns).unwrap();
        VICTIM.with(|victim| victim.set(Some(entry)));
        server.forge = Some(|entry| VICTIM.with(std::cell::Cell::get).unwrap_or(entry));
    });
    for _ in 0..3 {
        let got = client.get(b"keykey");
        assert_eq!((&got.value[..], got.one_sided), (&b"valuev"[..], false));
    }
    assert!(refused(&client, "key") + refused(&client, "void") > 0);
}

thread_local! {
    static VICTIM: std::cell::Cell<Option<Entry>> = const { std::cell::Cell::new(None) };
}

/// Proves that a chunk of another run of the server is refused.
#[test]
fn another_incarnation_is_refused() {
    let mut client = client();
    client.know(b"key", b"value");
    server(|server, _| {
        let geometry = server.area.geometry();
        micanite_chunks::Area::new(server.area.region().clone(), geometry, 99).unwrap();
    });
    assert!(!client.get(b"key").one_sided);
    assert_eq!(refused(&client, "incarnation"), 1);
}

/// Proves that nothing is read that was flushed, at once or at a second that has come.
#[test]
fn flushed_items_are_refused() {
    let mut client = client();
    client.know(b"key", b"value");
    server(|server, _| server.flush());
    assert_eq!(client.get(b"key").outcome, Outcome::NotFound);
    assert_eq!(refused(&client, "void"), 1);
    client.know(b"key", b"value");
    let second = world(|world| world.now_ns / (1000 * MS)) as u32;
    server(|server, _| server.flush_at(second + 5));
    assert!(client.get(b"key").one_sided);
    world(|world| world.now_ns += 4500 * MS);
    client.get(b"key");
    assert_eq!(refused(&client, "flushed"), 1);
}

/// Proves that an item is never read when it may have expired, and until then it is.
#[test]
fn expired_items_are_refused() {
    let mut client = client();
    client.call(&Operation::set(b"key", b"value").with_expiry(5));
    client.get(b"key");
    assert!(client.get(b"key").one_sided);
    world(|world| world.now_ns += 4200 * MS);
    let got = client.get(b"key");
    assert!(!got.one_sided && refused(&client, "expired") == 1);
    world(|world| world.now_ns += 1000 * MS);
    assert_eq!(client.get(b"key").outcome, Outcome::NotFound);
}

/// Proves that a get asks by a message when the client has not heard the server's second for long.
#[test]
fn an_old_second_is_asked_for() {
    let mut client = client();
    client.know(b"key", b"value");
    world(|world| world.now_ns += 11_000 * MS);
    assert!(!client.get(b"key").one_sided);
    assert!(client.get(b"key").one_sided);
    // A client that polls asks before.
    for _ in 0..110 {
        world(|world| world.now_ns += 100 * MS);
        client.run(1);
    }
    client.run(10);
    assert!(client.get(b"key").one_sided && server(|server, _| server.noops) >= 2);
}

/// Proves that a torn read is repeated once, and that a second one makes the get ask.
#[test]
fn torn_reads_are_repeated_once() {
    let mut client = client();
    client.know(b"key", b"value");
    world(|world| world.torn = 1);
    let got = client.get(b"key");
    assert_eq!((&got.value[..], got.one_sided), (&b"value"[..], true));
    world(|world| world.torn = 2);
    let got = client.get(b"key");
    assert_eq!((&got.value[..], got.one_sided), (&b"value"[..], false));
    assert_eq!((refused(&client, "checksum"), client.pool.counters().retries), (3, 2));
}

/// Proves that a read that completes after its lease is refused, even if the client was stopped meanwhile,
/// and that no buffer is used again before its read has completed.
#[test]
fn reads_beyond_their_lease_are_refused() {
    let mut client = client();
    client.know(b"key", b"old");
    // Stopped between post and completion. The chunk is reused meanwhile.
    let get = client.submit(&Operation::get(b"key")).unwrap();
    world(|world| world.now_ns += 2 * LEASE_NS);
    let got = client.wait(get);
    assert_eq!((got.one_sided, refused(&client, "slow"), client.pool.counters().retries), (true, 1, 1));
    // The read hangs: the get asks, and is answered. The bytes of the read come later, and are dropped.
    world(|world| world.holds_reads = true);
    let get = client.submit(&Operation::get(b"key")).unwrap();
    client.run(1);
    world(|world| world.now_ns += LEASE_NS + 1);
    assert!(!client.wait(get).one_sided);
    assert_eq!(client.pool.counters().reads_given_up, 1);
    server(|server, now_ns| server.set(b"key", b"new", (0, 0), now_ns));
    world(|world| world.holds_reads = false);
    client.run(10);
    assert_eq!(client.get(b"key").value, b"new");
}

/// Proves that gets ask when reads that hang have all buffers, and that submission is refused while buffers
/// will become free.
#[test]
fn hanging_reads_do_not_stop_gets() {
    let mut client = client();
    client.know(b"key", b"value");
    world(|world| world.holds_reads = true);
    let gets: Vec<_> = (0..16).map(|_| client.submit(&Operation::get(b"key")).unwrap()).collect();
    assert_eq!(client.submit(&Operation::get(b"key")), Err(SubmitError::Full));
    client.run(1);
    world(|world| world.now_ns += LEASE_NS + 1);
    client.run(1);
    for get in gets {
        assert_eq!(client.wait(get).value, b"value");
    }
    assert!(!client.get(b"key").one_sided);
    world(|world| world.holds_reads = false);
    client.run(10);
    assert!(client.get(b"key").one_sided);
}

/// Proves that a long value is accepted if its header is the same afterwards, and not if the chunk died
/// between the two reads.
#[test]
fn long_values_need_their_header_again() {
    let mut client = client();
    let value: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();
    client.know(b"long", &value);
    assert_eq!(client.pool.counters().second_headers, 1);
    let get = client.submit(&Operation::get(b"long")).unwrap();
    // Slow links may read long values.
    world(|world| world.now_ns += 3 * LEASE_NS);
    let got = client.wait(get);
    assert!(got.one_sided && got.value == value);
    world(|world| {
        world.between = Some(|server: &mut FakeServer, now_ns| {
            server.set(b"long", &[7; 100_000], (0, 0), now_ns);
        })
    });
    let got = client.get(b"long");
    assert_eq!((got.value == [7; 100_000], got.one_sided), (true, false));
    assert_eq!(refused(&client, "second_header"), 1);
}

/// Proves that a busy endpoint delays reads and messages, and loses none.
#[test]
fn a_busy_endpoint_is_tried_again() {
    let mut client = client();
    client.know(b"key", b"value");
    let long = vec![7; 100_000];
    client.know(b"long", &long);
    for busy in 1..10 {
        world(|world| world.busy = busy);
        assert_eq!(client.get(b"key").value, b"value");
        world(|world| world.busy = busy);
        assert_eq!(client.get(b"long").value, long);
        world(|world| world.busy = busy);
        client.set(b"other", b"value");
    }
    assert_eq!(client.pool.counters().reconnects, 0);
}

/// Proves that the server hears how often each key was read, and only if it shall.
#[test]
fn one_sided_reads_are_reported() {
    for history in [true, false] {
        let mut client = Client::new(1, &FabricOptions { history, ..FabricOptions::default() });
        world(|world| world.servers.last_mut().unwrap().history.clear());
        client.know(b"key", b"value");
        client.know(b"other", b"value");
        (0..4).for_each(|_| assert!(client.get(b"key").one_sided));
        world(|world| world.now_ns += 100 * MS);
        client.run(2);
        let reported = server(|server, _| server.history.get(&FakeServer::hash(b"key").0).copied());
        assert_eq!(reported, history.then_some(5));
        world(|world| world.servers.clear());
    }
}

/// Proves that the age of the server's second is counted from the first hello, whose reply may be the one
/// that comes after the hello was repeated.
#[test]
fn a_late_reply_brings_an_old_second() {
    let mut client = Client::unconnected(1, &FabricOptions::default());
    // The first hello is sent 10 ms before a second ends.
    world(|world| world.now_ns += 990 * MS);
    world(|world| world.holds_hellos = true);
    for _ in 0..10 {
        client.run(4);
        world(|world| world.now_ns += 18 * MS);
    }
    world(|world| world.holds_hellos = false);
    client.run(4);
    assert!(server(|server, _| server.nonces.len()) > 2 && world(|world| world.opened) == 1);
    server(|server, now_ns| server.set(b"key", b"value", (0, 1), now_ns));
    world(|world| world.push());
    client.run(4);
    assert_eq!(client.pool.connection(0).entries(), 1);
    // Now the item has expired, and the first hello, but none of the others, is older than a second.
    world(|world| world.now_ns = 1_002_040 * MS);
    assert_eq!(client.get(b"key").outcome, Outcome::NotFound);
    assert_eq!(refused(&client, "expired"), 1);
}
