//! Hellos: login, a buffer, a session.
//!
//! The key of the cache area and the session are secrets: nobody learns them without a login where one is
//! asked for.

use std::collections::VecDeque;

use micanite_fabric::{Buffer, Error, Peer, Unposted};
use micanite_wire::native::{Header, HeaderError, Hello, HelloReply, Kind, Status};

use super::buffers::Grant;
use super::client::{Buffers, Client, LIST_BYTES, Outgoing, RING_ENTRIES_MAX, State};
use super::port::{FabricPort, second};
use super::shared::FabricShared;
use super::token::{Part, Token};
use crate::limits::{FABRIC_LEASE_NS, FABRIC_MESSAGE_UNIT_BYTES, IDS_WINDOW};
use crate::security::auth::Verdict;
use crate::session::Context;
use crate::telemetry::log::limited;

/// Bits of a session that other tags need.
const SESSION_ZEROS: u64 = 3;
const NS_PER_MS: u64 = 1_000_000;

/// Answer to a client that is not let in.
enum Refusal {
    Status(Status),
    /// Nothing.
    Silent,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

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
            Err((status, header)) => (Err(Refusal::Status(status)), header),
        };
        // A password is not left in the memory, nor sent back.
        buffer[..bytes].fill(0);
        // A stranger that does not read has one buffer at most.
        if self.answering.has(peer) || self.answers.iter().any(|(other, ..)| *other == peer) {
            return self.spare.push(buffer);
        }
        let header = header.reply(Kind::HelloReply);
        let length = match answer {
            Ok(reply) => reply.write(&header, &mut buffer),
            Err(Refusal::Silent) => return self.spare.push(buffer),
            Err(Refusal::Status(status)) => {
                Header { status, ..header }.write(&mut buffer);
                Header::BYTES
            }
        };
        self.answers.push_back((peer, buffer, length));
        self.send_answers(shared, now_ms);
    }

    /// Lets a client in, or says why not.
    fn welcome(
        &mut self,
        (peer, message): (Peer, &[u8]),
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) -> Result<HelloReply, Refusal> {
        let counters = self.counters(shared);
        let hello = Hello::read(message).ok_or(Status::BadRequest)?;
        if hello.message_bytes_max == 0 {
            self.goodbye(peer, hello.nonce, shared, now_ms);
            return Err(Refusal::Silent);
        }
        if (hello.message_bytes_max as usize) < FABRIC_MESSAGE_UNIT_BYTES {
            return Err(Status::BadRequest.into());
        }
        if let Some(auth) = &context.server.auth {
            let source = self.endpoint.ip_of(peer);
            let is_right = !hello.user.is_empty()
                && auth.check(hello.user, hello.password, source, context.now_s) == Verdict::Welcome;
            if !is_right {
                counters.hellos_unproven.add(1);
                return Err(Status::Unproven.into());
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
            Some(place) if self.clients[place as usize].peer == Some(peer) => {
                let client = &mut self.clients[place as usize];
                reply.session = client.session;
                (client.used_ms, client.limit_bytes) = (now_ms, reply.message_bytes_max as usize);
            }
            known => {
                if let Some(place) = known {
                    // It connects again.
                    self.go(place, shared);
                    self.settle(place, shared);
                }
                if let Err(status) = self.admit(peer, &hello, &reply, shared, now_ms) {
                    // The client's place comes back in a moment, and the client says hello again.
                    if self.is_going(|client| client.nonce == hello.nonce) {
                        return Err(Refusal::Silent);
                    }
                    self.counters(shared).hellos_without_buffer.add(1);
                    self.displace(shared, now_ms);
                    return Err(status.into());
                }
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

    /// Returns whether such a client goes, whose buffers are not all back yet.
    fn is_going(&self, is_such: impl Fn(&Client) -> bool) -> bool {
        self.clients.iter().any(|client| client.state == State::Going && is_such(client))
    }

    /// Ends a client that says so itself. Its buffer is frozen from now on.
    fn goodbye(&mut self, peer: Peer, nonce: u64, shared: &FabricShared, now_ms: u64) {
        let known = self.known(nonce);
        if let Some(place) = known.filter(|place| self.clients[*place as usize].peer == Some(peer)) {
            self.clients[place as usize].used_ms = now_ms;
            self.go(place, shared);
            self.settle(place, shared);
        }
    }

    /// Ends the client that has been silent for longest, if that is for long, so that another one finds its
    /// buffer when it says hello again.
    fn displace(&mut self, shared: &FabricShared, now_ms: u64) {
        if self.is_going(|_| true) {
            return;
        }
        let live = self.clients.iter().map(|client| (client.state == State::Live).then_some(client.used_ms));
        if let Some(place) = longest_silent(live, now_ms, self.frozen_ms) {
            self.go(place, shared);
            self.settle(place, shared);
        }
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
            return Err(Status::SlowDown);
        };
        let Some(Buffers { request, reply: replies, push, history }) = self.find_buffers(shared) else {
            self.free.push(place);
            return Err(Status::SlowDown);
        };
        let client = &mut self.clients[place as usize];
        client.state = State::Live;
        (client.peer, client.session, client.nonce) = (Some(peer), reply.session, hello.nonce);
        (client.used_ms, client.limit_bytes) = (now_ms, reply.message_bytes_max as usize);
        (client.request_bytes, client.history_bytes) = (0, 0);
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
                    limited!(
                        WARN,
                        "a client of the fabric gets no buffer",
                        worker = self.worker,
                        error = %error
                    );
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
    pub(super) fn send_answers(&mut self, shared: &FabricShared, now_ms: u64) {
        for _ in 0..self.answers.len() {
            let Some((peer, buffer, bytes)) = self.answers.pop_front() else {
                return;
            };
            let number = self.answering.next_number();
            let token = Token { generation: number, ..Token::of(Part::HelloReply) }.encode();
            match self.endpoint.send(peer, buffer, bytes, token) {
                Ok(()) => {
                    self.answering.begin(number, peer, now_ms);
                    self.counters(shared).messages_sent.add(1);
                }
                Err(Unposted { buffer, error: Error::Busy }) => {
                    self.answers.push_back((peer, buffer, bytes));
                }
                Err(Unposted { buffer, .. }) => self.spare.push(buffer),
            }
        }
    }
}

/// Returns the place of the client that has been silent for longest, if that is for more than 7/8 of the
/// frozen time. `live` has the time of each client's last message, and `None` for places without one.
fn longest_silent(live: impl Iterator<Item = Option<u64>>, now_ms: u64, frozen_ms: u64) -> Option<u32> {
    let numbered = (0..).zip(live).filter_map(|(place, used_ms)| Some((place, used_ms?)));
    let (place, used_ms) = numbered.min_by_key(|(_, used_ms)| *used_ms)?;
    (now_ms.saturating_sub(used_ms) > frozen_ms - frozen_ms / 8).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_been_silent_for_long_makes_room() {
        let find = |used_ms: &[Option<u64>]| longest_silent(used_ms.iter().copied(), 10_000, 8000);
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[None, Some(3000), Some(9000)]), None);
        assert_eq!(find(&[None, Some(2999), Some(2000), Some(9000)]), Some(2));
    }
}
