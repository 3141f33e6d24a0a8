//! Requests as frames and lines.

use super::*;
use crate::harness::namespace;
use micanite_net::frames::{ReceiveChecksums, parse};

#[test]
fn gets_are_frames_with_right_checksums_from_many_ports() {
    let way = namespace::way(1);
    let mut maker = Maker::new(Protocol::Memcached, Terms::default(), &way, 4);
    let mut ring = Ring::new(Protocol::Memcached);
    for number in 0..8 {
        let key = format!("key-{number}");
        let drawn = Drawn { kind: Kind::Get, item: number, key: key.as_bytes(), value_bytes: 2 };
        ring.push(&mut maker, &drawn).unwrap();
    }
    for number in 0..8 {
        assert_eq!(ring.take(), number);
        let entry = *ring.entry(number);
        let frame = ring.bytes(&entry);
        let found = parse(frame, ReceiveChecksums::Unverified).unwrap();
        let port = way.client.1.port() + number as u16 % 4;
        assert_eq!((found.source.port(), found.destination), (port, way.server.1));
        let line = format!("get key-{number}\r\n");
        assert!(frame.ends_with(line.as_bytes()));
        assert_eq!(ring.key(&entry), format!("key-{number}").as_bytes());
    }
    assert_eq!(ring.take(), 0);
}

#[test]
fn native_requests_get_another_cookie() {
    let terms = |number: u64| Terms {
        hash_seed: 5,
        generation: number as u32,
        cookie: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        partition_bits: 1,
    };
    let made = |terms| {
        let mut maker = Maker::new(Protocol::Native, terms, &namespace::way(1), 1);
        let mut ring = Ring::new(Protocol::Native);
        for item in 0..100 {
            let key = format!("key{item:05}");
            let drawn = Drawn { kind: Kind::Get, item, key: key.as_bytes(), value_bytes: 8 };
            ring.push(&mut maker, &drawn).unwrap();
        }
        ring
    };
    let mut ring = made(terms(1));
    for number in 2..50 {
        ring.renew(terms(number));
        assert!(ring.bytes == made(terms(number)).bytes, "{number}");
    }
}

#[test]
fn a_write_waits_for_the_get_before_it_of_the_same_item() {
    let mut maker = Maker::new(Protocol::Memcached, Terms::default(), &namespace::way(1), 1);
    let mut ring = Ring::new(Protocol::Memcached);
    let requests = [(Kind::Get, 1), (Kind::Get, 2), (Kind::Update, 1), (Kind::Delete, 3)];
    for (kind, item) in requests {
        let drawn = Drawn { kind, item, key: b"abc", value_bytes: 3 };
        ring.push(&mut maker, &drawn).unwrap();
    }
    assert_eq!((ring.entry(2).after, ring.entry(3).after), (2, 0));
}

#[test]
fn writes_are_lines() {
    let way = namespace::way(1);
    let mut maker = Maker::new(Protocol::Memcached, Terms::default(), &way, 1);
    let mut ring = Ring::new(Protocol::Memcached);
    for kind in [Kind::Update, Kind::Delete] {
        let drawn = Drawn { kind, item: 1, key: b"abc", value_bytes: 3 };
        ring.push(&mut maker, &drawn).unwrap();
    }
    let (set, delete) = (*ring.entry(0), *ring.entry(1));
    assert!(ring.bytes(&set).starts_with(b"set abc 0 0 3\r\n"));
    assert_eq!(ring.bytes(&delete), b"delete abc\r\n");
    assert_eq!((ring.key(&set), ring.key(&delete)), (&b"abc"[..], &b"abc"[..]));
}
