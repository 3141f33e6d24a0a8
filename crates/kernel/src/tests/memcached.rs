//! memcached's text protocol.

use micanite_engine::{Config, Expiry};

use super::bed::{Bed, can_load};

fn bed() -> Bed {
    Bed::new(Config {
        memory_bytes: 16 << 20,
        ..Config::default()
    })
}

#[test]
fn what_is_there_is_answered() {
    if !can_load() {
        return;
    }
    let mut bed = bed();
    bed.set("greeting", b"hello", 7, Expiry::NEVER);
    let reply = bed.ask("get greeting\r\n");
    assert_eq!(
        reply.as_deref(),
        Some("VALUE greeting 7 5\r\nhello\r\nEND\r\n")
    );
    assert_eq!(bed.ask("get nothing\r\n").as_deref(), Some("END\r\n"));
    let counters = bed.counters();
    assert_eq!(
        (counters.hits, counters.misses, counters.answered),
        (1, 1, 2)
    );
}

#[test]
fn keys_of_every_length_are_hashed_as_the_engine_does() {
    if !can_load() {
        return;
    }
    let mut bed = bed();
    for length in 1..=64 {
        let key: String = (0..length)
            .map(|at| char::from(b'a' + (at * 7 % 26) as u8))
            .collect();
        let value = "v".repeat(length * 17 % 1300);
        bed.set(
            &key,
            value.as_bytes(),
            length as u32 * 1_000_003,
            Expiry::NEVER,
        );
        let expected = format!(
            "VALUE {key} {} {}\r\n{value}\r\nEND\r\n",
            length * 1_000_003,
            value.len()
        );
        assert_eq!(bed.ask(&format!("get {key}\r\n")), Some(expected));
    }
}
