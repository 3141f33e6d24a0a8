//! Every table answers datagrams alike.

use std::net::SocketAddr;

use micanite_server::native::{Outbox, Source};
use micanite_wire::native::{Header, PAYLOAD_BYTES, Replies, Request, RequestWriter, Status};
use micanite_workload::{Keys, Values};

use super::round::Round;
use super::table::{HASH_SEED, TableKind, Tables};
use crate::generator::packets::{KEY_BYTES, VALUE_BYTES};
use micanite_engine::KeyHash;
use micanite_wire::native::Opcode;

const ITEMS: u64 = 1 << 12;

/// Keeps replies.
#[derive(Default)]
struct Kept {
    slot: Vec<u8>,
    replies: Vec<Vec<u8>>,
}

impl Outbox for Kept {
    fn open(&mut self, _: Source) {
        self.slot = vec![0; PAYLOAD_BYTES];
    }

    fn slot(&mut self) -> &mut [u8] {
        &mut self.slot
    }

    fn commit(&mut self, bytes: usize) {
        self.replies.push(self.slot[..bytes].to_vec());
    }
}

/// A datagram of requests: item, and which writing of its value is stored, if any.
fn datagram(sequence: u32, requests: &[(u64, Option<u32>)]) -> Vec<u8> {
    let mut bytes = vec![0; PAYLOAD_BYTES];
    let mut writer = RequestWriter::new(&mut bytes);
    for (item, written) in requests {
        let (mut key, mut value) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
        Keys::new(KEY_BYTES).write(*item, &mut key);
        Values::new(VALUE_BYTES).write(*item, written.unwrap_or(0), &mut value);
        let request = Request {
            opcode: if written.is_some() { Opcode::Set } else { Opcode::Get },
            wants_cas: false,
            wants_entry: false,
            hash: KeyHash::of(&key, HASH_SEED).0,
            flags: 0,
            expiry_s: 0,
            argument: 0,
            id: 0,
            key: &key,
            value: if written.is_some() { &value } else { &[] },
        };
        writer.push(&request).unwrap();
    }
    let header = Header { client: 1, sequence, ..Header::REQUESTS };
    let length = writer.finish(&header);
    bytes.truncate(length);
    bytes
}

/// The sequence of a datagram, and status and value by request.
type Replied = (u32, Vec<(Status, Vec<u8>)>);

/// Replies of a table with one worker to a burst.
fn replies(tables: &mut Tables, burst: &[Vec<u8>]) -> Vec<Replied> {
    let mut kept = Kept::default();
    let peer = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut round = Round::new(&mut tables.of_worker[0], &mut kept);
    for datagram in burst {
        round.take(datagram, peer.into());
    }
    round.finish();
    let read = |reply: &Vec<u8>| {
        let header = Header::read(reply).unwrap();
        let replies = Replies::new(reply, header.count).unwrap();
        let replies = replies.map(Result::unwrap);
        let replies = replies.map(|reply| (reply.status, reply.value.to_vec()));
        (header.sequence, replies.collect())
    };
    kept.replies.iter().map(read).collect()
}

fn value(item: u64, written: u32) -> Vec<u8> {
    let mut value = vec![0; VALUE_BYTES];
    Values::new(VALUE_BYTES).write(item, written, &mut value);
    value
}

#[test]
fn every_table_answers_alike() {
    for kind in TableKind::ALL {
        let mut tables = Tables::new(kind, ITEMS, 1).unwrap();
        // Three datagrams of 30 requests span two batches.
        let gets: Vec<_> = (0..3)
            .map(|part| {
                let items: Vec<_> = (part * 30..part * 30 + 30).map(|item| (item, None)).collect();
                datagram(part as u32, &items)
            })
            .collect();
        let found = replies(&mut tables, &gets);
        assert_eq!(found.len(), 3, "{kind:?}");
        for (part, (sequence, replies)) in found.iter().enumerate() {
            assert_eq!(*sequence, part as u32, "{kind:?}");
            let items = part as u64 * 30..part as u64 * 30 + 30;
            let expected: Vec<_> = items.map(|item| (Status::Ok, value(item, 0))).collect();
            assert_eq!(*replies, expected, "{kind:?}");
        }
        let mixed = [(7, Some(3)), (7, None), (ITEMS + 1, None), (ITEMS + 1, Some(1)), (ITEMS + 1, None)];
        let found = replies(&mut tables, &[datagram(9, &mixed)]);
        let expected = vec![
            (Status::Ok, vec![]),
            (Status::Ok, value(7, 3)),
            (Status::NotFound, vec![]),
            (Status::Ok, vec![]),
            (Status::Ok, value(ITEMS + 1, 1)),
        ];
        assert_eq!(found, [(9, expected)], "{kind:?}");
    }
}

#[test]
fn each_worker_has_what_it_owns() {
    for kind in TableKind::ALL {
        let mut tables = Tables::new(kind, ITEMS, 2).unwrap();
        let owners = tables.owners.clone();
        for item in 0..ITEMS {
            let mut key = [0; KEY_BYTES];
            Keys::new(KEY_BYTES).write(item, &mut key);
            let partition = KeyHash::of(&key, HASH_SEED).partition(tables.terms.partition_bits);
            let owner = owners.as_ref().map_or(item as usize % 2, |owners| owners[partition]);
            tables.of_worker.swap(0, owner);
            let found = replies(&mut tables, &[datagram(0, &[(item, None)])]);
            assert_eq!(found, [(0, vec![(Status::Ok, value(item, 0))])], "{kind:?}");
            tables.of_worker.swap(0, owner);
        }
    }
}
