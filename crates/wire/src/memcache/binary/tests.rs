//! Golden bytes of memcached 1.6.45, and forms of requests.

use super::reply::{self, Status};
use super::*;
use crate::memcache::text::StoreVerb;

const HEAD: Head = Head { opcode: 0x0c, opaque: [0xde, 0xad, 0xbe, 0xef] };

/// Builds a request whose lengths are those of its parts.
fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = [extras, key, value].concat();
    let mut bytes = vec![0x80, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(HEAD.opaque);
    bytes.extend(cas.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn written(write: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let mut out = [0xaa; 400];
    let bytes = write(&mut out);
    assert!(out[bytes..].iter().all(|byte| *byte == 0xaa));
    out[..bytes].to_vec()
}

#[test]
fn replies_are_written_as_memcached_writes_them() {
    let header = |key, extras, status, body, cas| {
        [
            &[0x81, 0x0c, 0, key, extras, 0, 0, status, 0, 0, 0, body, 0xde, 0xad, 0xbe, 0xef][..],
            &[0, 0, 0, 0, 0, 0, 0, cas],
        ]
        .concat()
    };
    assert_eq!(written(|out| reply::done(out, HEAD, 7)), header(0, 0, 0, 0, 7));
    assert_eq!(
        written(|out| reply::error(out, HEAD, Status::NotFound)),
        [header(0, 0, 1, 9, 0), b"Not found".to_vec()].concat()
    );
    assert_eq!(
        written(|out| reply::miss_with_key(out, HEAD, b"key")),
        [header(3, 0, 1, 3, 0), b"key".to_vec()].concat()
    );
    assert_eq!(
        written(|out| reply::value_header(out, HEAD, (0x0102_0304, 9), b"key", 5)),
        [header(3, 4, 0, 12, 9), b"\x01\x02\x03\x04key".to_vec()].concat()
    );
    assert_eq!(
        written(|out| reply::number(out, HEAD, 258, 1)),
        [header(0, 0, 0, 8, 1), vec![0, 0, 0, 0, 0, 0, 1, 2]].concat()
    );
    assert_eq!(
        written(|out| reply::statistic(out, HEAD, b"pid", b"42")),
        [header(3, 0, 0, 5, 0), b"pid42".to_vec()].concat()
    );
}

#[test]
fn every_error_fits_the_room_for_short_replies() {
    for status in [
        Status::Ok,
        Status::NotFound,
        Status::Exists,
        Status::TooLarge,
        Status::Invalid,
        Status::NotStored,
        Status::NotANumber,
        Status::UnknownCommand,
        Status::OutOfMemory,
    ] {
        let bytes = written(|out| reply::error(out, HEAD, status));
        assert!(bytes.len() <= reply::SHORT_BYTES_MAX, "{status:?}");
        assert_eq!(bytes[6..8], (status as u16).to_be_bytes());
    }
}

/// Parses a valid request.
fn command(bytes: &[u8]) -> Command<'_> {
    match step(bytes) {
        Step::Command { command, head, .. } => {
            assert_eq!(head.opaque, HEAD.opaque);
            command
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn stores_carry_their_extras_and_cas() {
    let extras = [0, 0, 0, 5, 0, 0, 1, 0];
    let verbs = [
        (0x01, StoreVerb::Set, false),
        (0x11, StoreVerb::Set, true),
        (0x02, StoreVerb::Add, false),
        (0x12, StoreVerb::Add, true),
        (0x03, StoreVerb::Replace, false),
        (0x13, StoreVerb::Replace, true),
    ];
    for (opcode, verb, quiet) in verbs {
        for cas in [0, 77] {
            let expected = Store {
                verb: if cas == 0 { verb } else { StoreVerb::Cas(77) },
                cas,
                key: b"key",
                flags: 5,
                exptime: 256,
                value_bytes: 4,
                quiet,
            };
            let bytes = request(opcode, &extras, b"key", b"1234", cas);
            assert_eq!(command(&bytes), Command::Store(expected));
        }
    }
    for (opcode, verb, quiet) in [
        (0x0e, StoreVerb::Append, false),
        (0x19, StoreVerb::Append, true),
        (0x0f, StoreVerb::Prepend, false),
        (0x1a, StoreVerb::Prepend, true),
    ] {
        let bytes = request(opcode, &[], b"k", b"1", 3);
        let Command::Store(store) = command(&bytes) else { panic!("no store") };
        assert_eq!((store.verb, store.cas, store.quiet), (verb, 3, quiet));
    }
}

#[test]
fn arithmetic_carries_an_initial_number_unless_its_expiry_forbids_it() {
    let mut extras = [0; 20];
    extras[7] = 2;
    extras[15] = 9;
    for (opcode, decrement, quiet) in
        [(0x05, false, false), (0x06, true, false), (0x15, false, true), (0x16, true, true)]
    {
        for (exptime, initial) in [(60, Some((9, 60))), (u32::MAX, None)] {
            extras[16..].copy_from_slice(&u32::to_be_bytes(exptime));
            let expected = Arithmetic { key: b"n", delta: 2, decrement, initial, cas: 0, quiet };
            let bytes = request(opcode, &extras, b"n", b"", 0);
            assert_eq!(command(&bytes), Command::Arithmetic(expected));
        }
    }
}

#[test]
fn a_request_is_incomplete_until_its_key_has_come() {
    let bytes = request(0x01, &[0; 8], b"key", b"value", 0);
    for end in 0..24 + 8 + 3 {
        assert_eq!(step(&bytes[..end]), Step::Incomplete, "{end}");
    }
    let whole = step(&bytes);
    for end in 24 + 8 + 3..bytes.len() {
        assert_eq!(step(&bytes[..end]), whole);
    }
    assert_eq!(step(b"get key\r\n"), Step::BadMagic);
}

#[test]
fn refusals_skip_the_request_or_close() {
    let refused = |bytes: &[u8]| match step(bytes) {
        Step::Refused { status, swallow_bytes, close, .. } => (status, swallow_bytes, close),
        other => panic!("{other:?}"),
    };
    let unknown = request(0x77, b"12", b"key", b"value", 0);
    assert_eq!(refused(&unknown), (Status::UnknownCommand, 10, false));
    assert_eq!(refused(&unknown[..34]), (Status::UnknownCommand, 10, false));
    let sasl = request(0x21, &[], b"PLAIN", b"\0u\0p", 0);
    assert_eq!(refused(&sasl), (Status::UnknownCommand, 9, false));
    let long = request(0x00, &[], &[b'k'; 251], &[], 0);
    assert_eq!(refused(&long[..24]), (Status::Invalid, 0, true));
    let mut short = request(0x00, &[], b"key", &[], 0);
    short[11] = 2;
    assert_eq!(refused(&short), (Status::UnknownCommand, 0, true));
    let extras = request(0x00, &[0; 4], b"key", &[], 0);
    assert_eq!(refused(&extras), (Status::Invalid, 0, true));
}
