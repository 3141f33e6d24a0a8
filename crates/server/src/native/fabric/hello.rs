//! Hellos: login, a buffer, a session.
//!
//! The key of the cache area and the session are secrets: nobody learns them without a login where one is
//! asked for.

use std::collections::VecDeque;

use micanite_control::log;
use micanite_fabric::{Buffer, Error, Peer, Unposted};
use micanite_wire::native::{Header, HeaderError, Hello, HelloReply, Kind, Status};

use super::buffers::Grant;
use super::client::{Buffers, LIST_BYTES, Outgoing, RING_ENTRIES_MAX, State};
use super::port::{FabricPort, second};
use super::shared::FabricShared;
use super::token::{Part, Token};
use crate::limits::{FABRIC_LEASE_NS, FABRIC_MESSAGE_UNIT_BYTES, IDS_WINDOW};
use crate::security::auth::Verdict;
use crate::session::Context;

/// Bits of a session that other tags need.
const SESSION_ZEROS: u64 = 3;
const NS_PER_MS: u64 = 1_000_000;

impl FabricPort {
    /// Answers a hello, in the buffer that it came in.
    pub(super) fn hello(
        &mut self,
        (peer, mut buffer, bytes): (Peer, Buffer, usize),
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let header = match Header::read(&buffer[..bytes]) {
            Ok(header) if header.kind == Kind::Hello => Ok(header),
            Err(HeaderError::Refused { status, header }) => Err((status, header)),
            _ => return self.spare.push(buffer),
        };
        self.counters(shared).messages_received.add(1);
        let (answer, header) = match header {
            Ok(header) => (self.welcome((peer, &buffer[..bytes]), context, shared, now_ms), header),
            Err((status, header)) => (Err(status), header),
        };
        // A password is not left in the memory, nor sent back.
        buffer[..bytes].fill(0);
        let header = header.reply(Kind::HelloReply);
        let length = match answer {
            Ok(reply) => reply.write(&header, &mut buffer),
            Err(status) => {
                Header { status, ..header }.write(&mut buffer);
                Header::BYTES
            }
        };
        self.answers.push_back((peer, buffer, length));
        self.send_answers(shared);
    }

    /// Lets a client in, or says why not.
    fn welcome(
        &mut self,
        (peer, message): (Peer, &[u8]),
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) -> Result<HelloReply, Status> {
        let counters = self.counters(shared);
        let hello = Hello::read(message).ok_or(Status::BadRequest)?;
        if (hello.message_bytes_max as usize) < FABRIC_MESSAGE_UNIT_BYTES {
            return Err(Status::BadRequest);
        }
        if let Some(auth) = &context.server.auth {
            let source = self.endpoint.ip_of(peer);
            let is_right = !hello.user.is_empty()
                && auth.check(hello.user, hello.password, source, context.now_s) == Verdict::Welcome;
            if !is_right {
                counters.hellos_unproven.add(1);
                return Err(Status::Unproven);
            }
        }
        let mut reply = self.reply(context, shared, now_ms)?;
        reply.message_bytes_max = reply.message_bytes_max.min(hello.message_bytes_max);
        if hello.nonce % u64::from(reply.workers) != u64::from(reply.worker) {
            // It goes on to its worker, and needs nothing here.
            return Ok(reply);
        }
        match self.known(hello.nonce) {
            // The client did not get the answer, or says hello twice because the first may have come before
            // its greeting.
            Some(place) if self.is_waiting(place, peer) => {
                reply.session = self.clients[place as usize].session;
            }
            known => {
                if let Some(place) = known {
                    // It connects again.
                    self.go(place, shared);
                    self.settle(place, shared);
                }
                self.admit(peer, &hello, &reply, shared, now_ms)?;
            }
        }
        if let Some(area) = &self.area {
            let remote = area.remote();
            (reply.area_key, reply.area_base, reply.area_bytes) = (remote.key, remote.base, remote.bytes);
        }
        Ok(reply)
    }

    /// Builds the answer, without what leads to the cache area.
    fn reply(&self, context: &Context<'_>, shared: &FabricShared, now_ms: u64) -> Result<HelloReply, Status> {
        let cache = &context.shared.cache;
        let geometry = shared.area.as_ref().map(|of| of.area.geometry());
        let session = getrandom::u64().map_err(|_| Status::SlowDown)? & !SESSION_ZEROS;
        Ok(HelloReply {
            session: session.max(SESSION_ZEROS + 1),
            hash_seed: cache.seed(),
            second: second(now_ms),
            incarnation: shared.area.as_ref().map_or(0, |of| of.incarnation),
            lease_ns: FABRIC_LEASE_NS,
            frozen_ns: self.frozen_ms * NS_PER_MS,
            message_bytes_max: self.message_bytes as u32,
            value_bytes_max: cache.value_bytes_max() as u32,
            page_bytes: geometry.map_or(0, |geometry| geometry.page_bytes() as u32),
            pages: geometry.map_or(0, |geometry| geometry.pages() as u32),
            partition_bits: cache.layout().partitions.ilog2() as u8,
            workers: context.server.settings.threads as u16,
            worker: self.worker as u16,
            ids_window: IDS_WINDOW as u16,
            push_ms: self.push_ms as u32,
            ..HelloReply::default()
        })
    }

    /// Finds the place of the client of this number.
    fn known(&self, nonce: u64) -> Option<u32> {
        let is_same = |place: &u32| {
            let client = &self.clients[*place as usize];
            client.state == State::Live && client.nonce == nonce
        };
        (0..self.clients.len() as u32).find(is_same)
    }

    /// Returns whether a client has not used its session yet, and still has the same end.
    fn is_waiting(&self, place: u32, peer: Peer) -> bool {
        let client = &self.clients[place as usize];
        client.is_new && client.peer == Some(peer)
    }

    /// Gives a client a place with a buffer.
    fn admit(
        &mut self,
        peer: Peer,
        hello: &Hello<'_>,
        reply: &HelloReply,
        shared: &FabricShared,
        now_ms: u64,
    ) -> Result<(), Status> {
        let counters = self.counters(shared);
        let Some(place) = self.free.pop() else {
            counters.hellos_without_buffer.add(1);
            return Err(Status::SlowDown);
        };
        let Some(Buffers { request, reply: replies, push, history }) = self.find_buffers(shared) else {
            self.free.push(place);
            counters.hellos_without_buffer.add(1);
            return Err(Status::SlowDown);
        };
        let client = &mut self.clients[place as usize];
        client.state = State::Live;
        (client.peer, client.session, client.nonce) = (Some(peer), reply.session, hello.nonce);
        (client.used_ms, client.limit_bytes) = (now_ms, reply.message_bytes_max as usize);
        (client.is_new, client.request_bytes) = (true, 0);
        client.reply = Outgoing { buffer: Some(replies), bytes: 0 };
        client.push = Outgoing { buffer: Some(push), bytes: 0 };
        client.history = Some(history);
        client.ring = match std::mem::take(&mut client.ring) {
            ring if ring.capacity() == 0 => VecDeque::with_capacity(RING_ENTRIES_MAX),
            ring => ring,
        };
        self.requests[place as usize] = Some(request);
        counters.clients.add(1);
        counters.hellos.add(1);
        counters.buffers_frozen.set(self.buffers.frozen() as u64);
        // Before the answer: it lets the client send.
        self.settle(place, shared);
        Ok(())
    }

    /// Finds the buffer of a client that went, or registers one.
    fn find_buffers(&mut self, shared: &FabricShared) -> Option<Buffers> {
        let counters = self.counters(shared);
        match self.buffers.take(&shared.buffers) {
            Grant::Reused(buffers) => {
                counters.registrations_saved.add(1);
                Some(buffers)
            }
            Grant::Register => match self.register() {
                Ok(buffers) => {
                    counters.registrations_made.add(1);
                    Some(buffers)
                }
                Err(error) => {
                    self.buffers.lose(&shared.buffers);
                    log!("worker {}: a client of the fabric gets no buffer: {error}", self.worker);
                    None
                }
            },
            Grant::Full => None,
        }
    }

    fn register(&self) -> Result<Buffers, Error> {
        Ok(Buffers {
            request: self.endpoint.buffer(self.message_bytes)?,
            reply: self.endpoint.buffer(self.message_bytes)?,
            push: self.endpoint.buffer(LIST_BYTES)?,
            history: self.endpoint.buffer(LIST_BYTES)?,
        })
    }

    /// Sends answers to hellos. Those to busy peers are tried again.
    pub(super) fn send_answers(&mut self, shared: &FabricShared) {
        for _ in 0..self.answers.len() {
            let Some((peer, buffer, bytes)) = self.answers.pop_front() else {
                return;
            };
            let token = Token::of(Part::HelloReply).encode();
            match self.endpoint.send(peer, buffer, bytes, token) {
                Ok(()) => self.counters(shared).messages_sent.add(1),
                Err(Unposted { buffer, error: Error::Busy }) => {
                    self.answers.push_back((peer, buffer, bytes));
                }
                Err(Unposted { buffer, .. }) => self.spare.push(buffer),
            }
        }
    }
}
