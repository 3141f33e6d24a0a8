//! Hellos: login, a buffer, a session.
//!
//! The key of the cache area and the session are secrets: nobody learns them without a login where one is
//! asked for.

use std::collections::VecDeque;
use std::net::IpAddr;

use micanite_fabric::{Buffer, Error, Peer};
use micanite_wire::native::{Header, HeaderError, Hello, HelloReply, Kind, Status};

use super::buffers::Grant;
use super::client::{Buffers, Client, Outgoing, RING_ENTRIES_MAX, State};
use super::endpoint::Lot;
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

/// A hello, or a message that ought to be one.
#[derive(Debug)]
pub(super) struct Greeted {
    pub peer: Peer,
    /// The address with which it has greeted.
    pub ip: Option<IpAddr>,
    pub buffer: Buffer,
    pub bytes: usize,
}

/// Answer to a client that is not let in.
enum Refusal {
    Status(Status),
    /// Nothing.
    Silent,
    /// Memory is being registered for it.
    Later,
}

/// Result of looking for a client's buffers.
enum Found {
    Buffers(Buffers),
    /// They are being registered.
    Later,
    Nothing,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl FabricPort {
    /// Takes a hello.
    pub(super) fn hello(
        &mut self,
        greeted: Greeted,
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        let is_one = match Header::read(&greeted.buffer[..greeted.bytes]) {
            Ok(header) => header.kind == Kind::Hello,
            Err(HeaderError::Refused { .. }) => true,
            Err(_) => false,
        };
        if !is_one || self.waiting.iter().any(|other| other.peer == greeted.peer) {
            return self.spare.push(greeted.buffer);
        }
        self.counters(shared).messages_received.add(1);
        self.answer(greeted, context, shared, now_ms);
    }

    /// Goes on with a hello, for whose client memory was registered.
    pub(super) fn go_on_with_hello(
        &mut self,
        registered: Result<Buffers, Error>,
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) {
        self.fresh = Some(registered);
        if let Some(greeted) = self.waiting.pop_front() {
            self.answer(greeted, context, shared, now_ms);
        }
        match self.fresh.take() {
            Some(Ok(buffers)) => self.buffers.freeze(buffers, now_ms),
            Some(Err(_)) => self.buffers.lose(&shared.buffers),
            None => {}
        }
    }

    /// Answers a hello, in the buffer that it came in.
    fn answer(&mut self, greeted: Greeted, context: &Context<'_>, shared: &FabricShared, now_ms: u64) {
        let (answer, header) = match Header::read(&greeted.buffer[..greeted.bytes]) {
            Ok(header) => (self.welcome(&greeted, context, shared, now_ms), header),
            Err(HeaderError::Refused { status, header }) => (Err(Refusal::Status(status)), header),
            Err(_) => return self.spare.push(greeted.buffer),
        };
        if let Err(Refusal::Later) = answer {
            return self.waiting.push_back(greeted);
        }
        let Greeted { peer, mut buffer, bytes, .. } = greeted;
        // A password is not left in the memory, nor sent back.
        buffer[..bytes].fill(0);
        // A stranger that does not read has one buffer at most.
        if self.answering.has(peer) {
            return self.spare.push(buffer);
        }
        let header = header.reply(Kind::HelloReply);
        let length = match answer {
            Ok(reply) => reply.write(&header, &mut buffer),
            Err(Refusal::Silent | Refusal::Later) => return self.spare.push(buffer),
            Err(Refusal::Status(status)) => {
                Header { status, ..header }.write(&mut buffer);
                Header::BYTES
            }
        };
        let number = self.answering.next_number();
        let token = Token { generation: number, ..Token::of(Part::HelloReply) }.encode();
        self.answering.begin(number, peer, now_ms);
        self.counters(shared).messages_sent.add(1);
        self.link.send(peer, buffer, length, token);
    }

    /// Lets a client in, or says why not.
    fn welcome(
        &mut self,
        greeted: &Greeted,
        context: &Context<'_>,
        shared: &FabricShared,
        now_ms: u64,
    ) -> Result<HelloReply, Refusal> {
        let (counters, peer) = (self.counters(shared), greeted.peer);
        let hello = Hello::read(&greeted.buffer[..greeted.bytes]).ok_or(Status::BadRequest)?;
        if hello.message_bytes_max == 0 {
            self.goodbye(peer, hello.nonce, shared, now_ms);
            return Err(Refusal::Silent);
        }
        if (hello.message_bytes_max as usize) < FABRIC_MESSAGE_UNIT_BYTES {
            return Err(Status::BadRequest.into());
        }
        if let Some(auth) = &context.server.auth {
            let is_right = !hello.user.is_empty()
                && auth.check(hello.user, hello.password, greeted.ip, context.now_s) == Verdict::Welcome;
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
                if let Err(refusal) = self.admit(peer, &hello, &reply, shared, now_ms) {
                    if let Refusal::Later = refusal {
                        return Err(refusal);
                    }
                    // The client's place comes back in a moment, and the client says hello again.
                    if self.is_going(|client| client.nonce == hello.nonce) {
                        return Err(Refusal::Silent);
                    }
                    self.counters(shared).hellos_without_buffer.add(1);
                    self.displace(shared, now_ms);
                    return Err(refusal);
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
    ) -> Result<(), Refusal> {
        let counters = self.counters(shared);
        if self.free.is_empty() {
            return Err(Status::SlowDown.into());
        }
        let Buffers { request, reply: replies, push, history } = match self.find_buffers(shared) {
            Found::Buffers(buffers) => buffers,
            Found::Later => return Err(Refusal::Later),
            Found::Nothing => return Err(Status::SlowDown.into()),
        };
        let Some(place) = self.free.pop() else {
            return Err(Status::SlowDown.into());
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

    /// Finds the buffer that was registered for a client, or that of a client that went, or has one
    /// registered.
    fn find_buffers(&mut self, shared: &FabricShared) -> Found {
        let counters = self.counters(shared);
        match self.fresh.take() {
            Some(Ok(buffers)) => {
                counters.registrations_made.add(1);
                return Found::Buffers(buffers);
            }
            Some(Err(error)) => {
                self.buffers.lose(&shared.buffers);
                limited!(
                    WARN,
                    "a client of the fabric gets no buffer",
                    worker = self.worker,
                    error = %error
                );
                return Found::Nothing;
            }
            None => {}
        }
        match self.buffers.take(&shared.buffers) {
            Grant::Reused(buffers) => {
                counters.registrations_saved.add(1);
                Found::Buffers(buffers)
            }
            Grant::Register => {
                self.link.register(Lot::Client { message_bytes: self.message_bytes });
                Found::Later
            }
            Grant::Full => Found::Nothing,
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
