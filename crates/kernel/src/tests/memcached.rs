//! memcached's text protocol.

use micanite_engine::{Config, Expiry};

use super::fixture::{Fixture, can_load};

fn fixture() -> Fixture {
    Fixture::new(Config { memory_bytes: 16 << 20, ..Config::default() })
}

#[test]
fn hits_are_answered() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    fixture.set("greeting", b"hello", 7, Expiry::NEVER);
    let reply = fixture.ask("get greeting\r\n");
    assert_eq!(reply.as_deref(), Some("VALUE greeting 7 5\r\nhello\r\nEND\r\n"));
    assert_eq!(fixture.ask("get nothing\r\n").as_deref(), Some("END\r\n"));
    let counters = fixture.counters();
    assert_eq!((counters.hits, counters.misses, counters.answered), (1, 1, 2));
}

#[test]
fn hashes_match_the_engine_for_all_key_lengths() {
    if !can_load() {
        return;
    }
    let mut fixture = fixture();
    for length in 1..=250 {
        let key: String = (0..length).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
        let value = "v".repeat(length * 17 % 1100);
        fixture.set(&key, value.as_bytes(), length as u32 * 1_000_003, Expiry::NEVER);
        let expected = format!("VALUE {key} {} {}\r\n{value}\r\nEND\r\n", length * 1_000_003, value.len());
        assert_eq!(fixture.ask(&format!("get {key}\r\n")), Some(expected));
    }
}
