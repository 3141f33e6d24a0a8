//! The life of a client at a worker: transfers that are due, its end, and what is done every 10 ms.

use micanite_fabric::Peer;
use micanite_wire::native::{Header, Kind, PushWriter};

use super::client::{Buffers, State};
use super::endpoint::Lot;
use super::port::FabricPort;
use super::shared::FabricShared;
use super::token::{Part, Token};
use crate::limits::{FABRIC_GIVE_UP_MS, FABRIC_STRANGERS_MAX};

/// Bits of a tag beside the session's.
const PUSH_TAG: u64 = 1;
const HISTORY_TAG: u64 = 2;

impl FabricPort {
    /// Starts all transfers of a client that are due.
    pub(super) fn settle(&mut self, place: u32, shared: &FabricShared) {
        let number = place as usize;
        let client = &mut self.clients[number];
        let peer = match (client.state, client.peer) {
            (State::Going, _) => return self.freeze(place, shared),
            (State::Live, Some(peer)) => peer,
            (State::Free | State::Live, _) => return,
        };
        let (session, generation) = (client.session, client.generation);
        let token = |part| Token { part, place, generation }.encode();
        // The receive comes first: the client sends its next request as soon as it has the reply.
        if client.request_bytes == 0
            && let Some(buffer) = self.requests[number].take()
        {
            self.link.receive_tagged(buffer, session, token(Part::Request));
        }
        if let Some(buffer) = client.history.take_if(|_| client.history_bytes == 0) {
            self.link.receive_tagged(buffer, session | HISTORY_TAG, token(Part::History));
        }
        for (out, part, tag) in
            [(&mut client.reply, Part::Reply, session), (&mut client.push, Part::Push, session | PUSH_TAG)]
        {
            if out.bytes > 0
                && let Some(buffer) = out.buffer.take()
            {
                self.link.send_tagged(peer, buffer, std::mem::take(&mut out.bytes), tag, token(part));
                shared.counters[self.worker].messages_sent.add(1);
            }
        }
    }

    /// Gives a client up. Its buffer is frozen when it is back.
    pub(super) fn go(&mut self, place: u32, shared: &FabricShared) {
        let number = place as usize;
        let client = &mut self.clients[number];
        if client.state != State::Live {
            return;
        }
        client.state = State::Going;
        client.gone_ms = self.maintained_ms;
        (client.request_bytes, client.history_bytes) = (0, 0);
        client.ring.clear();
        let (peer, generation) = (client.peer.take(), client.generation);
        for (is_posted, part) in [
            (self.requests[number].is_none(), Part::Request),
            (self.clients[number].history.is_none(), Part::History),
        ] {
            if is_posted {
                self.link.cancel(Token { part, place, generation }.encode());
            }
        }
        let counters = self.counters(shared);
        counters.clients_gone.add(1);
        counters.clients.set(counters.clients.get() - 1);
        if let Some(peer) = peer {
            self.note_stranger(peer);
        }
    }

    /// Notes a peer that has greeted, or was a client. The one that was noted first is forgotten when there
    /// are many, unless it is a client by then.
    pub(super) fn note_stranger(&mut self, peer: Peer) {
        if self.strangers.contains(&peer) {
            return;
        }
        if self.strangers.len() == FABRIC_STRANGERS_MAX
            && let Some(first) = self.strangers.pop_front()
            && self.clients.iter().all(|client| client.peer != Some(first))
        {
            self.link.forget(first);
        }
        self.strangers.push_back(peer);
    }

    /// Freezes the buffer of a client that went, once no transfer has a part of it.
    fn freeze(&mut self, place: u32, shared: &FabricShared) {
        let number = place as usize;
        let client = &mut self.clients[number];
        let is_back = self.requests[number].is_some()
            && client.history.is_some()
            && client.reply.buffer.is_some()
            && client.push.buffer.is_some();
        if !is_back {
            return;
        }
        let parts = (self.requests[number].take(), client.reply.buffer.take());
        let lists = (client.push.buffer.take(), client.history.take());
        if let ((Some(request), Some(reply)), (Some(push), Some(history))) = (parts, lists) {
            let used_ms = client.used_ms;
            self.buffers.freeze(Buffers { request, reply, push, history }, used_ms);
        }
        self.leave(place);
        self.counters(shared).buffers_frozen.set(self.buffers.frozen() as u64);
    }

    /// Frees a place.
    fn leave(&mut self, place: u32) {
        let client = &mut self.clients[place as usize];
        client.state = State::Free;
        client.generation = client.generation.wrapping_add(1);
        (client.reply.bytes, client.push.bytes) = (0, 0);
        self.free.push(place);
    }

    /// Does what is due: pushes, silent clients, buffers whose frozen time is over.
    pub fn maintain(&mut self, shared: &FabricShared, now_ms: u64) {
        self.maintained_ms = now_ms;
        for place in 0..self.clients.len() as u32 {
            let client = &self.clients[place as usize];
            let is_over = now_ms.saturating_sub(client.used_ms) > self.frozen_ms;
            match client.state {
                State::Live if is_over => {
                    self.go(place, shared);
                    self.settle(place, shared);
                }
                State::Going if now_ms.saturating_sub(client.gone_ms) > FABRIC_GIVE_UP_MS => {
                    self.give_up(place, shared);
                }
                State::Free | State::Live | State::Going => {}
            }
        }
        if now_ms.saturating_sub(self.pushed_ms) >= self.push_ms && self.push_ms > 0 {
            self.pushed_ms = now_ms;
            self.push(shared);
        }
        while let Some(buffers) = self.buffers.release(&shared.buffers, now_ms) {
            let Buffers { request, reply, push, history } = buffers;
            for buffer in [request, reply, push, history] {
                self.link.free(buffer);
            }
        }
        self.counters(shared).buffers_frozen.set(self.buffers.frozen() as u64);
        self.give_up_answers(now_ms);
        let failed = self.link.maintain(self.has_clients());
        self.counters(shared).transfers_failed.add(failed);
    }

    /// Gives up answers to hellos that nobody takes: others need their buffers.
    fn give_up_answers(&mut self, now_ms: u64) {
        while let Some(number) = self.answering.take_late(now_ms) {
            let token = Token { generation: number, ..Token::of(Part::HelloReply) };
            self.link.give_up(token.encode());
        }
        for _ in 0..std::mem::take(&mut self.hellos_missing) {
            self.link.register(Lot::Hello);
        }
    }

    /// Gives up a buffer of which the provider does not return a part: that of a long reply to a client that
    /// was killed, or any part over `shm`.
    fn give_up(&mut self, place: u32, shared: &FabricShared) {
        let client = &mut self.clients[place as usize];
        let generation = client.generation;
        let parts = [&mut self.requests[place as usize], &mut client.reply.buffer, &mut client.push.buffer];
        for buffer in parts.into_iter().chain([&mut client.history]).filter_map(Option::take) {
            self.link.free(buffer);
        }
        for part in [Part::Request, Part::Reply, Part::Push, Part::History] {
            self.link.give_up(Token { part, place, generation }.encode());
        }
        self.buffers.lose(&shared.buffers);
        self.leave(place);
    }

    /// Writes a push for each client that has stored something since its last one.
    fn push(&mut self, shared: &FabricShared) {
        for place in 0..self.clients.len() as u32 {
            self.push_to(place, shared, 1);
        }
    }

    /// Writes a push for a client with so many new entries, and a buffer to send it from.
    pub(super) fn push_to(&mut self, place: u32, shared: &FabricShared, entries_min: usize) {
        let client = &mut self.clients[place as usize];
        if client.state != State::Live || client.ring.len() < entries_min || self.push_ms == 0 {
            return;
        }
        let Some(buffer) = client.push.buffer.as_deref_mut().filter(|_| client.push.bytes == 0) else {
            return;
        };
        let mut writer = PushWriter::new(buffer);
        while let Some(entry) = client.ring.front() {
            if writer.push(entry).is_err() {
                break;
            }
            client.ring.pop_front();
        }
        let counters = &shared.counters[self.worker];
        let all: u64 = shared.counters.iter().map(|of| of.clients.get()).sum();
        counters.entries_pushed.add(u64::from(writer.count()));
        let bytes = writer.finish(&Header { kind: Kind::Push, ..Header::REQUESTS });
        client.push.bytes = bytes;
        counters.pushes.add(1);
        counters.bytes_pushed.add(bytes as u64);
        counters.bytes_of_broadcasts.add(bytes as u64 * all);
        self.settle(place, shared);
    }
}
