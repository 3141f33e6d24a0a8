//! Messages: gathering, ids, limits, refusals.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::client::{Client, Got};
use super::world::{MS, server, world};
use crate::driver::SubmitError;
use crate::fabric::options::FabricOptions;
use crate::operation::{Operation, Outcome};

fn client() -> Client {
    Client::new(1, &FabricOptions::default())
}

/// Proves that requests gather while a message is outstanding, and that `Full` ends with the next reply.
#[test]
fn requests_gather_while_one_message_is_outstanding() {
    let mut client = client();
    let before = server(|server, _| server.messages);
    let mut tokens = vec![client.submit(&Operation::set(b"first", b"1")).unwrap()];
    client.run(1);
    let keys: Vec<_> = (0..200).map(|number| format!("key {number}").into_bytes()).collect();
    for key in &keys {
        match client.submit(&Operation::set(key, key)) {
            Ok(token) => tokens.push(token),
            Err(error) => {
                assert_eq!((error, tokens.len()), (SubmitError::Full, 1 + 128));
                break;
            }
        }
    }
    assert_eq!(client.pool.counters().pushed_back, 1);
    for token in tokens {
        assert_eq!(client.wait(token).outcome, Outcome::Ok);
    }
    assert_eq!(server(|server, _| server.messages) - before, 2);
}

/// Proves that values that do not fit one reply come in several.
#[test]
fn long_values_come_in_several_replies() {
    let mut client = client();
    let keys: Vec<_> = (0..40_u8).map(|number| [b'k', number]).collect();
    for key in &keys {
        client.set(key, &vec![key[1]; 200_000]);
    }
    for no_room_max in [40, 4] {
        let before = client.pool.counters().no_room;
        let mut gets = Vec::new();
        for key in &keys {
            let get = loop {
                match client.submit(&Operation::gets(key)) {
                    Ok(get) => break get,
                    Err(error) => assert_eq!(error, SubmitError::Full),
                }
                client.run(1);
            };
            gets.push(get);
        }
        for (key, get) in keys.iter().zip(gets) {
            assert_eq!(client.wait(get).value, vec![key[1]; 200_000]);
        }
        // The second time the client expects such values.
        let no_room = client.pool.counters().no_room - before;
        assert!(no_room <= no_room_max && (no_room > 4 || no_room_max == 4), "{no_room}");
    }
}

/// Proves that requests are sent again that the server had no time for.
#[test]
fn slow_downs_are_sent_again() {
    let mut client = client();
    client.set(b"number", b"1");
    server(|server, _| server.slow_downs = 3);
    let got = client.call(&Operation::increment(b"number", 1));
    assert_eq!((got.outcome, got.number, got.resent), (Outcome::Ok, 2, false));
    assert_eq!(client.pool.counters().slow_downs, 3);
}

/// Proves that only what does not fit the server's messages is too long.
#[test]
fn values_are_as_long_as_a_message() {
    let mut client = client();
    let longest = vec![7; (1 << 20) - 40 - 24 - 8];
    assert_eq!(client.call(&Operation::set(b"key", &longest)).outcome, Outcome::Ok);
    let longer = vec![7; longest.len() + 1];
    assert_eq!(client.submit(&Operation::set(b"key", &longer)), Err(SubmitError::TooLong));
    assert_eq!(client.submit(&Operation::get(&[b'k'; 251])), Err(SubmitError::BadKey));
    assert_eq!(client.submit(&Operation::get(b"")), Err(SubmitError::BadKey));
    assert_eq!(client.call(&Operation::noop()).outcome, Outcome::Ok);
}

/// Proves that a request whose reply was lost is sent again under its id, and executed once.
#[test]
fn lost_replies_do_not_execute_twice() {
    let mut client = client();
    client.set(b"number", b"1");
    world(|world| world.loses_replies = true);
    let increment = client.submit(&Operation::increment(b"number", 1)).unwrap();
    let get = client.submit(&Operation::get(b"number")).unwrap();
    client.run(2);
    let later = client.submit(&Operation::increment(b"number", 10)).unwrap();
    world(|world| {
        world.loses_replies = false;
        world.cut();
    });
    let got = client.wait(increment);
    assert_eq!((got.outcome, got.number, got.resent), (Outcome::Ok, 2, true));
    assert!(client.wait(get).resent);
    // Requests that were not sent are not resent.
    let got = client.wait(later);
    assert_eq!((got.number, got.resent), (12, false));
    let counters = client.pool.counters();
    assert_eq!((counters.reconnects, counters.resent), (1, 2));
    assert_eq!(server(|server, _| server.resent), 2);
}

/// Proves that a server that owes a reply is connected to anew, and that operations end at their deadline.
#[test]
fn silence_ends_a_session_and_deadlines_end_operations() {
    let mut client = client();
    client.set(b"number", b"1");
    world(|world| world.loses_replies = true);
    let increment = client.submit(&Operation::increment(b"number", 1)).unwrap();
    client.run(2);
    world(|world| world.loses_replies = false);
    world(|world| world.now_ns += 1001 * MS);
    let got = client.wait(increment);
    assert_eq!((got.number, got.resent, client.pool.counters().reconnects), (2, true, 1));

    world(|world| world.is_silent = true);
    let set = client.submit(&Operation::set(b"number", b"5")).unwrap();
    let get = client.submit(&Operation::get(b"number")).unwrap();
    client.run(2);
    world(|world| world.now_ns += 2001 * MS);
    client.run(3);
    assert_eq!(client.wait(set).outcome, Outcome::TimedOut);
    assert_eq!(client.wait(get).outcome, Outcome::TimedOut);
    assert_eq!(client.pool.counters().timed_out, 2);
}

/// Proves that the key of a lost write asks by a message once, although its entry is known.
#[test]
fn a_lost_write_makes_its_key_two_sided() {
    let mut client = client();
    client.know(b"key", b"value");
    world(|world| world.is_silent = true);
    let set = client.submit(&Operation::set(b"key", b"new")).unwrap();
    client.run(2);
    world(|world| world.now_ns += 2001 * MS);
    assert_eq!(client.wait(set).outcome, Outcome::TimedOut);
    world(|world| world.is_silent = false);
    client.run(100);
    server(|server, now_ns| server.set(b"key", b"other", (0, 0), now_ns));
    world(|world| world.push());
    client.run(10);
    assert!(!client.get(b"key").one_sided && client.get(b"key").one_sided);
}

/// Proves that what may have been executed goes before what waits since earlier, and never was: a server that
/// has restarted would take the ids above it for new.
#[test]
fn resent_requests_go_before_older_ones() {
    let mut client = client();
    client.set(b"number", b"1");
    server(|server, _| server.slow_downs = 1);
    let older = client.submit(&Operation::increment(b"number", 1)).unwrap();
    client.run(2);
    world(|world| world.loses_replies = true);
    let lost = client.submit(&Operation::increment(b"number", 10)).unwrap();
    client.run(2);
    world(|world| {
        world.loses_replies = false;
        world.now_ns += 2 * MS;
        world.cut();
    });
    let got = [older, lost].map(|token| client.wait(token));
    assert_eq!(got.map(|got| (got.outcome, got.resent)), [(Outcome::Ok, false), (Outcome::Ok, true)]);
    let ids = server(|server, _| server.ids.clone());
    assert_eq!(ids, [(1, false), (2, false), (2, true), (1, false)]);
}

/// Proves that a long message has more time, and that silence is counted from when a message has left.
#[test]
fn slow_links_are_no_silence() {
    let mut client = client();
    client.set(b"number", b"1");
    world(|world| world.holds_sends = true);
    let set = client.submit(&Operation::set(b"long", &vec![7; 500_000])).unwrap();
    client.run(2);
    world(|world| world.now_ns += 1_400 * MS);
    client.run(2);
    world(|world| world.holds_sends = false);
    assert_eq!(client.wait(set).outcome, Outcome::Ok);

    world(|world| (world.holds_sends, world.loses_replies) = (true, true));
    let increment = client.submit(&Operation::increment(b"number", 1)).unwrap();
    client.run(2);
    world(|world| world.now_ns += 900 * MS);
    world(|world| world.holds_sends = false);
    client.run(2);
    world(|world| world.now_ns += 900 * MS);
    client.run(2);
    assert_eq!(client.pool.counters().reconnects, 0);
    world(|world| world.loses_replies = false);
    world(|world| world.now_ns += 150 * MS);
    let got = client.wait(increment);
    assert_eq!((got.number, got.resent, client.pool.counters().reconnects), (2, true, 1));
}

/// Proves that a thread sleeps while a history that would be followed by another is in transfer.
#[test]
fn a_history_in_transfer_keeps_nobody_awake() {
    let mut client = client();
    client.know(b"key", b"value");
    world(|world| world.holds_sends = true);
    let before = server(|server, _| server.histories);
    for _ in 0..3 {
        world(|world| world.now_ns += 200 * MS);
        client.run(1);
        assert!(client.get(b"key").one_sided);
    }
    world(|world| world.now_ns += 200 * MS);
    client.run(1);
    assert_eq!(server(|server, _| server.histories) - before, 1);
    let now_ns = world(|world| world.now_ns);
    assert!(client.pool.connection(0).due_at(now_ns) > now_ns);
    world(|world| world.holds_sends = false);
    client.run(1);
    assert_eq!(server(|server, _| server.histories) - before, 2);
}

/// Polls until one operation has ended, with which the sink panics. Returns its token.
fn poll_and_panic(client: &mut Client) -> u64 {
    for _ in 0..1_000_000 {
        world(|world| world.now_ns += MS / 100);
        let mut ended = None;
        let _ = catch_unwind(AssertUnwindSafe(|| {
            client.pool.poll(|completion| {
                ended = Some(completion.token);
                panic!("meant");
            });
        }));
        if let Some(token) = ended {
            return token;
        }
    }
    panic!("no operation ends");
}

/// Requests of a message whose sink panics, and reads, end once each, with their own values.
#[test]
fn a_sink_that_panics_gets_no_completion_twice() {
    let mut client = client();
    let keys: Vec<_> = (0..8_u8).map(|number| [b'k', number]).collect();
    // Gets are messages at first, and one-sided then.
    keys.iter().for_each(|key| client.set(key, &[key[1]; 100]));
    for _ in 0..3 {
        let get = |key: &[u8; 2]| (client.submit(&Operation::get(key)).unwrap(), key[1]);
        let mut gets: Vec<_> = keys.iter().map(get).collect();
        let increment = client.submit(&Operation::increment(b"missing", 1)).unwrap();
        for _ in 0..3 {
            let lost = poll_and_panic(&mut client);
            gets.retain(|(token, _)| *token != lost);
        }
        for (token, number) in &gets {
            let Got { outcome, value, .. } = client.wait(*token);
            assert_eq!((outcome, value), (Outcome::Ok, vec![*number; 100]));
        }
        client.run(1_000);
        client.ended.remove(&increment);
        // The client asserts that no token ends twice, and those whose sink has panicked do not come again.
        assert!(client.ended.is_empty(), "{:?}", client.ended);
    }
}

/// Requests whose bytes the transfer has not given back, and whose server is gone, end once each.
#[test]
fn a_sink_that_panics_at_a_dead_server_leaves_no_request() {
    let mut client = client();
    world(|world| world.holds_sends = true);
    let sets: Vec<_> = (0..8_u8).map(|key| client.submit(&Operation::set(&[key], b"v")).unwrap()).collect();
    client.run(1);
    world(|world| world.is_unplugged = true);
    world(|world| world.cut());
    let mut lost = vec![poll_and_panic(&mut client), poll_and_panic(&mut client)];
    for token in sets.iter().filter(|token| !lost.contains(token)) {
        assert_eq!(client.wait(*token).outcome, Outcome::TimedOut);
    }
    lost.retain(|token| sets.contains(token));
    assert_eq!((lost.len(), client.ended.len()), (2, 0));
}
