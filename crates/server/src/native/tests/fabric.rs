//! Rounds over the messages of a fabric's client, who is known, and gets entries of chunks.

use std::sync::Arc;

use micanite_chunks::{Area, Geometry, Policy};
use micanite_engine::{ChunkConfig, ChunkEntry, ChunkWrite};
use micanite_memory::Region;
use micanite_wire::native::{Header, Replies, ReplyEntry, Request};

use super::*;
use crate::native::{Cookies, Outbox, Round, Source};
use crate::session::Context;

const SECOND: u64 = 77;
const LIMIT: usize = 1000;

/// The answers to the messages of one client.
#[derive(Debug, Default)]
struct Answers {
    open: Vec<u8>,
    messages: Vec<Vec<u8>>,
    entries: Vec<(u64, ChunkEntry)>,
}

impl Outbox for Answers {
    const IS_FABRIC: bool = true;

    fn open(&mut self, _: Source) {
        self.open = vec![0; LIMIT];
    }

    fn slot(&mut self) -> &mut [u8] {
        &mut self.open
    }

    fn commit(&mut self, bytes: usize) {
        self.messages.push(self.open[..bytes].to_vec());
    }

    fn second(&self) -> u64 {
        SECOND
    }

    fn limit(&self, _: Source, most: usize) -> usize {
        most.min(LIMIT)
    }

    fn note_entry(&mut self, _: Source, hash: u64, entry: ChunkEntry) {
        self.entries.push((hash, entry));
    }
}

/// A server with a cache area, and a client that has no cookie.
fn bench() -> (NativeBench, Requester) {
    let bench = NativeBench::new("", 1472);
    let cache = &bench.server.shared.cache;
    let bits = cache.layout().partitions.ilog2();
    let geometry = Geometry::new(bits, 1 << 16, 1 << 20).unwrap();
    let area = Area::new(Arc::new(Region::private(1 << 20).unwrap()), geometry, 5).unwrap();
    let config = ChunkConfig { policy: Policy::Lru, lease_ns: 1, write: ChunkWrite::Through };
    cache.attach_area(&area, config).unwrap();
    let requester = Requester::new(&bench, "[100::1]:1").unproven();
    (bench, requester)
}

fn ask(bench: &mut NativeBench, requester: &mut Requester, requests: &[Request<'_>]) -> Answers {
    let message = requester.datagram(requests);
    let mut out = Answers::default();
    let native = bench.server.shared.native.as_ref().unwrap();
    let mut cookies = Cookies::new(native.cookie_key);
    let context = Context::new(&mut bench.workers[0].engine, &bench.server, bench.now_s);
    let mut round = Round::new(context, native, &mut cookies, &mut out, 0);
    round.take(&message.bytes, message.peer.into(), true);
    round.finish();
    out
}

fn statuses(message: &[u8]) -> Vec<(Status, Option<ReplyEntry>)> {
    let header = Header::read(message).unwrap();
    let replies = Replies::with_entries(message, header.count).unwrap();
    replies.map(|reply| reply.map(|reply| (reply.status, reply.entry)).unwrap()).collect()
}

#[test]
fn sets_and_gets_of_a_fabric_tell_the_same_entry() {
    let (mut bench, mut requester) = bench();
    let set = bench.store(Opcode::Set, b"key", b"value");
    let get = Request { wants_entry: true, ..bench.request(Opcode::Get, b"key") };
    let out = ask(&mut bench, &mut requester, &[set, get, Request { wants_entry: false, ..get }]);
    let [(hash, entry)] = out.entries[..] else { panic!("{out:?}") };
    assert_eq!(hash, set.hash);
    let entry = ReplyEntry { offset: entry.offset, version: entry.version, bytes: entry.bytes };
    let replies = [(Status::Ok, None), (Status::Ok, Some(entry)), (Status::Ok, None)];
    assert_eq!(statuses(&out.messages[0]), replies);
    assert_eq!(Header::read(&out.messages[0]).unwrap().cookie, SECOND);
}

#[test]
fn an_entry_is_found_by_the_true_hash_only() {
    let (mut bench, mut requester) = bench();
    let get = Request { wants_entry: true, ..bench.request(Opcode::Get, b"key") };
    let out = ask(&mut bench, &mut requester, &[Request { hash: get.hash ^ 1, ..get }, get]);
    assert_eq!(statuses(&out.messages[0]), [(Status::BadRequest, None), (Status::NotFound, None)]);
}

#[test]
fn a_value_that_the_client_has_no_room_for_brings_no_entry() {
    let (mut bench, mut requester) = bench();
    let value = vec![b'x'; LIMIT];
    let set = bench.store(Opcode::Set, b"key", &value);
    let get = Request { wants_entry: true, ..bench.request(Opcode::Get, b"key") };
    ask(&mut bench, &mut requester, &[set]);
    let small = bench.store(Opcode::Set, b"small", b"value");
    let other = bench.request(Opcode::Get, b"small");
    let out = ask(&mut bench, &mut requester, &[get, small, other]);
    let expected = [(Status::UseStream, None), (Status::Ok, None), (Status::Ok, None)];
    assert_eq!(statuses(&out.messages[0]), expected);
}
