//! Conversations that need a server made for the test. Replies as of memcached are in the black-box tests.

use proptest::prelude::*;

use crate::testing::{Bench, Script};

/// A request.
fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = [extras, key, value].concat();
    let mut bytes = vec![0x80, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0, 0, 0]);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend([opcode; 4]);
    bytes.extend(cas.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn set(key: &[u8], value: &[u8]) -> Vec<u8> {
    request(0x01, &[0; 8], key, value, 0)
}

fn get(key: &[u8]) -> Vec<u8> {
    request(0x00, &[], key, &[], 0)
}

/// A reply, as far as these tests look: status, CAS value, body.
#[derive(Debug, PartialEq, Eq)]
struct Reply {
    opcode: u8,
    status: u16,
    cas: u64,
    body: Vec<u8>,
}

fn replies(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<24>() {
        assert_eq!(header[0], 0x81);
        assert_eq!(header[12..16], [header[1]; 4]);
        let body_bytes = u32::from_be_bytes(header[8..12].try_into().unwrap());
        let (body, rest) = rest.split_at(body_bytes as usize);
        replies.push(Reply {
            opcode: header[1],
            status: u16::from_be_bytes([header[6], header[7]]),
            cas: u64::from_be_bytes(header[16..].try_into().unwrap()),
            body: body.to_vec(),
        });
        bytes = rest;
    }
    assert!(bytes.is_empty());
    replies
}

#[test]
fn a_full_store_refuses_and_keeps_what_it_has() {
    let mut bench = Bench::new("memory-limit = 1\nsemantics = 'store'");
    let value = vec![b'v'; 100_000];
    let sets: Vec<u8> = (0..20u8).flat_map(|n| set(&[b'k', n], &value)).collect();
    let said = replies(&bench.replies(&sets));
    let stored = said.iter().filter(|reply| reply.status == 0).count();
    assert!((1..20).contains(&stored));
    assert!(said.iter().all(|reply| reply.status == 0 || reply.body == b"Out of memory allocating item"));
    let gets: Vec<u8> = (0..20u8).flat_map(|n| get(&[b'k', n])).collect();
    let found = replies(&bench.replies(&gets));
    for (stored, found) in said.iter().zip(&found) {
        assert_eq!(stored.status == 0, found.status == 0);
        if stored.status == 0 {
            assert_eq!(stored.cas, found.cas);
        }
    }
}

#[test]
fn replies_larger_than_the_output_come_complete() {
    let mut bench = Bench::new("");
    let value = vec![b'x'; 200_000];
    let mut input = set(b"long", &value);
    for n in 0..100u8 {
        input.extend(get(b"long"));
        input.extend(set(&[b's', n], &vec![n; 15_000]));
        input.extend(get(&[b's', n]));
    }
    let script = Script { send_bytes_max: 10_007, ..Script::of([input]) };
    let said = replies(&bench.replies_to(script));
    assert_eq!(said.len(), 301);
    for (n, round) in said[1..].chunks(3).enumerate() {
        assert_eq!(round[0].body[4..], value);
        assert_eq!(round[0].cas, said[0].cas);
        assert_eq!(round[1].cas, round[2].cas);
        assert_eq!(round[2].body[4..], vec![n as u8; 15_000]);
    }
}

#[test]
fn a_value_of_the_largest_length_is_stored_and_one_more_byte_is_not() {
    let mut bench = Bench::new("max-item-size = '2k'");
    let (fits, does_not) = (vec![1; 2048], vec![1; 2049]);
    let all = [set(b"a", &fits), set(b"a", &does_not), get(b"a")].concat();
    let statuses: Vec<_> = replies(&bench.replies(&all)).iter().map(|reply| reply.status).collect();
    // The set that was refused has taken the old value with it.
    assert_eq!(statuses, [0, 3, 1]);
}

fn conversation() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        8 => 0u8..0x10,
        8 => 0x11u8..0x25,
        1 => any::<u8>().prop_filter("statistics change with time", |opcode| *opcode != 0x10),
    ];
    let key = prop::sample::select(vec![&b""[..], b"a", b"b", b"c", b"n"]);
    let value = prop_oneof![
        6 => 0usize..30,
        1 => 1000usize..20_000,
        1 => Just(70_000usize),
    ];
    let one = (opcode, key, value, 0u64..3, any::<bool>());
    prop::collection::vec(one, 0..25).prop_map(|all| {
        let requests = all.into_iter().map(|(opcode, key, bytes, cas, number)| {
            let value = vec![if number { b'7' } else { b'x' }; bytes];
            match opcode {
                0x01..=0x03 | 0x11..=0x13 => request(opcode, &[0; 8], key, &value, cas),
                0x0e | 0x0f | 0x19 | 0x1a => request(opcode, &[], key, &value, cas),
                0x05 | 0x06 | 0x15 | 0x16 => {
                    let mut extras = [0; 20];
                    extras[7] = bytes as u8;
                    extras[16..].copy_from_slice(&u32::to_be_bytes(if number { u32::MAX } else { 0 }));
                    request(opcode, &extras, key, &[], cas)
                }
                0x1c..=0x1e | 0x23 | 0x24 => request(opcode, &[0, 0, 0, 9], key, &[], 0),
                // Quitting and misuse end a conversation: rarely.
                0x07 | 0x17 if bytes > 3 => get(key),
                0x08 | 0x0a | 0x0b | 0x18 => request(opcode, &[], b"", &[], 0),
                0x25.. => request(opcode, &[], key, &value, cas),
                _ => request(opcode, &[], key, &[], cas),
            }
        });
        requests.collect::<Vec<_>>().concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    /// Cuts in the input, and the appetite of the peer, do not change the replies.
    #[test]
    fn split_input_gives_the_same_replies(
        input in conversation(),
        cut in any::<u8>(),
        appetite in any::<u8>(),
    ) {
        crate::testing::fuzz::session(&[&[cut, appetite], input.as_slice()].concat());
    }
}
