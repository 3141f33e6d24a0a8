//! Requests of tests, and readers of their answers.

use std::net::SocketAddr;

use micanite_engine::Cache;
use micanite_wire::native::{Header, Opcode, Request, RequestWriter, Status, padded};

use super::{Answer, Arrival, Bench, NativeBench, check, cookie};
use crate::shared::Shared;

/// A client that composes requests.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub peer: SocketAddr,
    /// Client, generation, cookie, partition and so on; the sequence number increments.
    pub header: Header,
    /// The last id that was given out.
    pub id: u64,
    /// Bytes behind the last request.
    pub padding: usize,
}

impl Requester {
    /// One that has learned everything: cookie, generation.
    pub fn new(bench: &NativeBench, peer: &str) -> Self {
        let peer = peer.parse().expect("an address");
        Self::at(&bench.server.shared, peer, bench.now_s)
    }

    /// The same, of a server that runs.
    pub fn at(shared: &Shared, peer: SocketAddr, now_s: u32) -> Self {
        let native = shared.native.as_ref().expect("made with it");
        Self {
            peer,
            header: Header {
                client: 7,
                generation: native.generation(&shared.cache),
                cookie: cookie(native, peer, now_s),
                ..Header::REQUESTS
            },
            id: 0,
            padding: 0,
        }
    }

    /// The same without a cookie.
    pub fn unproven(mut self) -> Self {
        self.header.cookie = 0;
        self
    }

    /// A datagram of these requests.
    pub fn datagram(&mut self, requests: &[Request<'_>]) -> Arrival {
        self.header.sequence += 1;
        let bytes = |request: &Request<'_>| 24 + 16 + padded(request.key.len()) + padded(request.value.len());
        let room = Header::BYTES + requests.iter().map(bytes).sum::<usize>();
        let mut datagram = vec![0; room];
        let mut writer = RequestWriter::new(&mut datagram);
        for request in requests {
            writer.push(request).expect("room for all");
        }
        let bytes = writer.finish(&self.header);
        datagram.truncate(bytes);
        datagram.resize(bytes + self.padding, 0);
        Arrival { peer: self.peer, bytes: datagram, forwarded: false }
    }

    /// The next id.
    pub fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }
}

/// A request with its hash and nothing else; ids are the caller's to give.
pub(crate) fn request<'a>(cache: &Cache, opcode: Opcode, key: &'a [u8]) -> Request<'a> {
    Request {
        opcode,
        wants_cas: false,
        wants_entry: false,
        hash: cache.hash(key).0,
        flags: 0,
        expiry_s: 0,
        argument: 0,
        id: 0,
        key,
        value: b"",
    }
}

impl NativeBench {
    /// See [`request`].
    pub fn request<'a>(&self, opcode: Opcode, key: &'a [u8]) -> Request<'a> {
        request(&self.server.shared.cache, opcode, key)
    }

    /// A request with a value.
    pub fn store<'a>(&self, opcode: Opcode, key: &'a [u8], value: &'a [u8]) -> Request<'a> {
        Request { value, ..self.request(opcode, key) }
    }

    /// The answers of the first worker, after [`check`].
    pub fn answers(&mut self, burst: &[Arrival]) -> Vec<Answer> {
        let sent = self.round(0, burst, false);
        check(self, burst, &sent, false);
        let read = |(_, bytes): &(_, Vec<u8>)| Answer::read(bytes);
        sent.datagrams.iter().map(read).collect()
    }
}

impl Bench {
    /// Executes what other workers ask of this one, until the rest is done.
    pub fn serve_while(&mut self, goes_on: impl Fn() -> bool) {
        while goes_on() {
            self.engine.serve();
            std::thread::yield_now();
        }
    }
}

impl Answer {
    /// The statuses alone.
    pub fn statuses(&self) -> Vec<Status> {
        self.replies.iter().map(|reply| reply.status).collect()
    }
}
