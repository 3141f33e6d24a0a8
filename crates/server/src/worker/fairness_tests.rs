//! Rounds of a worker that a test drives by hand: the order of turns while others keep the worker busy.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use micanite_engine::Outcome;

use super::queues::Kind;
use super::rounds_tests::Bench;
use crate::shared::clock::seconds;

/// Sends as much as the socket takes now.
fn refill(client: &mut UnixStream, bytes: &[u8]) {
    client.set_nonblocking(true).unwrap();
    while let Ok(1..) = client.write(bytes) {}
    client.set_nonblocking(false).unwrap();
}

fn has_reply(client: &mut UnixStream, bytes: usize) -> bool {
    client.set_nonblocking(true).unwrap();
    let mut reply = [0; 64];
    let read = client.read(&mut reply[..bytes]);
    client.set_nonblocking(false).unwrap();
    matches!(read, Ok(1..))
}

/// A connection that waits for a value buffer gets one that was returned, although another connection spends
/// every round. Nothing is kept of connections that leave while they wait.
#[test]
fn a_connection_gets_its_value_buffer_beside_a_heavy_pipeline() {
    const HOLDERS: usize = 16;
    const WAITERS: usize = 4;
    let mut bench = Bench::new(0);
    bench.store("a");
    let begin = |bench: &mut Bench, number: usize| {
        let mut client = bench.connect(None);
        write!(client, "set h{number} 0 0 1000000\r\nx").unwrap();
        bench.round();
        client
    };
    let mut holders: Vec<_> = (0..HOLDERS).map(|number| begin(&mut bench, number)).collect();
    let waiting = |bench: &Bench| bench.worker.queues.count(Kind::Waiting);
    assert_eq!(waiting(&bench), 0);
    let _waiters: Vec<_> = (0..WAITERS).map(|number| begin(&mut bench, number)).collect();
    assert_eq!(waiting(&bench), WAITERS);
    for number in 0..3 {
        drop(begin(&mut bench, number));
        bench.round();
        assert_eq!(waiting(&bench), WAITERS);
    }
    let mut heavy = bench.connect(None);
    let appends = b"append a 0 0 1 noreply\r\nx\r\n".repeat(100);
    refill(&mut heavy, &appends);
    bench.round();
    holders.truncate(HOLDERS - WAITERS);
    for _ in 0..100 {
        refill(&mut heavy, &appends);
        bench.round();
    }
    assert_eq!(waiting(&bench), 0);
}

/// A long value gets the buffer that it waits for, although shorter ones that would fit keep coming.
#[test]
fn later_connections_do_not_overtake_one_that_waits_for_a_value_buffer() {
    let mut bench = Bench::new(0);
    let begin = |bench: &mut Bench, bytes: usize| {
        let mut client = bench.connect(None);
        write!(client, "set k 0 0 {bytes}\r\nx").unwrap();
        bench.round();
        client
    };
    let waiting = |bench: &Bench| bench.worker.queues.count(Kind::Waiting);
    let mut holders = Vec::new();
    while waiting(&bench) == 0 {
        holders.push(begin(&mut bench, 100_000));
    }
    drop(holders.pop());
    bench.round();
    let mut waiter = begin(&mut bench, 1_000_000);
    assert_eq!(waiting(&bench), 1);
    for holder in holders.iter_mut().take(20) {
        *holder = begin(&mut bench, 100_000);
        bench.round();
    }
    let mut rest = vec![b'x'; 999_999];
    rest.extend(b"\r\n");
    let mut sent = 0;
    // A round without an event takes a tenth of a second.
    let is_stored = (0..1000).any(|_| {
        waiter.set_nonblocking(true).unwrap();
        sent += waiter.write(&rest[sent..]).unwrap_or(0);
        bench.round();
        has_reply(&mut waiter, 8)
    });
    assert!(is_stored, "{sent} bytes of the value were taken");
}

/// A connection that is queued because the round is spent comes before later events.
#[test]
fn a_queued_connection_waits_for_one_turn_of_each_other() {
    const ATTACKERS: usize = 110;
    const VALUE_BYTES: usize = 35_000;
    let mut bench = Bench::new(0);
    let mut client = bench.connect(None);
    let value = "v".repeat(VALUE_BYTES);
    write!(client, "set b 0 0 {VALUE_BYTES}\r\n{value}\r\n").unwrap();
    while !has_reply(&mut client, 8) {
        bench.round();
    }
    let mut victim = bench.connect(None);
    let mut attackers: Vec<_> = (0..ATTACKERS).map(|_| bench.connect(None)).collect();
    let append = b"append b 0 0 1\r\nx\r\n";
    let mut turns = vec![0; ATTACKERS];
    for attacker in &mut attackers {
        attacker.write_all(append).unwrap();
    }
    let mut step = |bench: &mut Bench, turns: &mut [u32]| {
        bench.worker.server.shared.wakers[0].wake();
        bench.round();
        for (attacker, turns) in attackers.iter_mut().zip(turns) {
            if has_reply(attacker, 8) {
                *turns += 1;
                attacker.write_all(append).unwrap();
            }
        }
    };
    for _ in 0..20 {
        step(&mut bench, &mut turns);
    }
    for _ in 0..20 {
        let before = turns.clone();
        victim.write_all(b"mn\r\n").unwrap();
        while !has_reply(&mut victim, 4) {
            step(&mut bench, &mut turns);
        }
        let others = turns.iter().zip(&before).map(|(now, then)| now - then);
        // A connection that had its turn before the victim's event has another after it, in the same round.
        let most = others.max().unwrap();
        assert!(most <= 2, "{most} turns of one connection");
    }
}

/// Many that ask for little do not wait for a heavy one in turns: they have as many bytes as it has.
#[test]
fn light_connections_do_not_wait_for_a_heavy_one_in_turns() {
    const LIGHT: usize = 60;
    let mut bench = Bench::new(0);
    bench.store("a");
    let mut light: Vec<_> = (0..LIGHT).map(|_| bench.connect(None)).collect();
    let mut heavy = bench.connect(None);
    let appends = b"append a 0 0 1 noreply\r\nx\r\n".repeat(100);
    for _ in 0..10 {
        refill(&mut heavy, &appends);
        bench.round();
    }
    for _ in 0..10 {
        for client in &mut light {
            client.write_all(b"mn\r\n").unwrap();
        }
        refill(&mut heavy, &appends);
        let (mut rounds, mut replies) = (0, 0);
        while replies < LIGHT {
            bench.round();
            rounds += 1;
            let replied = light.iter_mut().map(|client| has_reply(client, 4));
            replies += replied.filter(|replied| *replied).count();
            assert!(rounds <= 4, "{rounds} rounds for {replies} replies");
        }
    }
}

/// Heavy connections have turns, too, while events spend every round.
#[test]
fn heavy_connections_have_turns_while_events_spend_every_round() {
    const LIGHT: usize = 110;
    let mut bench = Bench::new(0);
    bench.store("a");
    let mut heavy = bench.connect(None);
    let appends = b"append a 0 0 1 noreply\r\nx\r\n".repeat(100);
    let mut light: Vec<_> = (0..LIGHT).map(|_| bench.connect(None)).collect();
    let mut client = bench.connect(None);
    let value = "v".repeat(35_000);
    write!(client, "set b 0 0 35000\r\n{value}\r\n").unwrap();
    while !has_reply(&mut client, 8) {
        bench.round();
    }
    let append = b"append b 0 0 1\r\nx\r\n";
    for client in &mut light {
        client.write_all(append).unwrap();
    }
    let yields = |bench: &Bench| bench.worker.counters().conn_yields.get();
    refill(&mut heavy, &appends);
    for _ in 0..10 {
        let before = yields(&bench);
        for _ in 0..8 {
            refill(&mut heavy, &appends);
            bench.round();
            for client in &mut light {
                if has_reply(client, 8) {
                    client.write_all(append).unwrap();
                }
            }
        }
        assert!(yields(&bench) > before);
    }
}

/// Multi-gets of many short keys are queued as heavy: a short request does not wait for many of them.
#[test]
fn a_round_looks_up_no_more_keys_than_a_turn_may_and_one_turn() {
    const ATTACKERS: usize = 20;
    const KEYS_OF_TURN: u64 = 9000;
    let mut bench = Bench::new(0);
    let mut victim = bench.connect(None);
    let mut attackers: Vec<_> = (0..ATTACKERS).map(|_| bench.connect(None)).collect();
    let keys = format!("get{}\r\n", " k".repeat(100_000)).into_bytes();
    let mut sent = [0; ATTACKERS];
    let looked_up = |bench: &Bench| bench.worker.counters().cmd_get.get();
    for round in 0..200 {
        for (attacker, sent) in attackers.iter_mut().zip(&mut sent) {
            attacker.set_nonblocking(true).unwrap();
            while let Ok(bytes) = attacker.write(&keys[*sent..]) {
                *sent = (*sent + bytes) % keys.len();
            }
        }
        // Then each has had a turn, and is known to be heavy.
        let is_known = round > 2 * ATTACKERS;
        if is_known {
            victim.write_all(b"mn\r\n").unwrap();
        }
        let before = looked_up(&bench);
        bench.round();
        let keys = looked_up(&bench) - before;
        assert!(keys <= 2 * KEYS_OF_TURN, "{keys} keys in round {round}");
        assert!(!is_known || has_reply(&mut victim, 4), "no reply in round {round}");
    }
}

/// A worker answers requests that others delegate to it, although its own connections send none.
#[test]
fn a_busy_worker_answers_delegated_requests_within_a_round() {
    let options = "threads = \"2\"\nmemory-limit = 64\naccess = \"erew\"";
    let mut bench = Bench::with(options, 0);
    let mut busy: Vec<_> = (0..3).map(|_| bench.connect(None)).collect();
    let cache = Arc::clone(&bench.worker.server.shared.cache);
    let is_here = |key: &String| {
        let partition = cache.partition_of(cache.hash(key.as_bytes()));
        cache.route(partition).unwrap().owner == 0
    };
    let key = (0..).map(|number| format!("k{number}")).find(is_here);
    let (key, mut other) = (key.unwrap(), cache.worker(1).unwrap());
    let now_s = seconds(bench.worker.clock.now_ms());
    let touches = b"touch a noreply\r\n".repeat(100);
    // Housekeeping would answer, too.
    bench.worker.maintained_ms = u64::MAX;
    // They have used their blocks of input up in different rounds, so that one of them has always more to do.
    for busy in &mut busy {
        refill(busy, &touches);
        (0..5).for_each(|_| bench.round());
    }
    let asking = std::thread::spawn(move || {
        assert_eq!(other.delete(key.as_bytes(), now_s), Outcome::NotFound);
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    while !asking.is_finished() {
        busy.iter_mut().for_each(|busy| refill(busy, &touches));
        assert!(!bench.worker.queues.is_empty());
        bench.worker.lingering = 0;
        bench.round();
        assert!(Instant::now() < deadline, "no answer");
    }
}
