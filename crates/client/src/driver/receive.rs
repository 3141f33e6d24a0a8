//! Ends requests by their replies. A datagram that answers no request exactly is counted and
//! dropped.

use super::slots::{Slot, State};
use super::transmit::ATTEMPTS_MAX;
use super::{Driver, OWN_TOKEN, Place};
use crate::operation::{Completion, Outcome};
use micanite_wire::native::{Header, HeaderError, Kind, Replies, Reply, Status};
use std::net::SocketAddr;

impl Driver {
    /// Processes a datagram from an address. Completions go to the sink, in no particular order.
    #[inline]
    pub fn on_datagram(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        from: SocketAddr,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let header = match Header::read(bytes) {
            Ok(header) => header,
            Err(HeaderError::Refused { header, .. }) => {
                self.on_refused(now_ns, &header, bytes, from, sink);
                return;
            }
            Err(HeaderError::NotOurs) => {
                self.counters.bogus += 1;
                return;
            }
        };
        match header.kind {
            Kind::Replies => self.on_replies(now_ns, &header, bytes, from, sink),
            Kind::DirectoryReply => self.on_directory(now_ns, &header, bytes, from),
            _ => self.counters.bogus += 1,
        }
    }

    /// Finds the datagram that a header answers, if all its fields match.
    fn answered(&mut self, header: &Header, from: SocketAddr) -> Option<u16> {
        if header.client != self.client || header.echo & u64::from(u8::MAX) == 0 {
            self.counters.bogus += 1;
            return None;
        }
        let Some(index) = self.slots.find(header.sequence) else {
            self.counters.late += 1;
            return None;
        };
        let slot = self.slots.get(index);
        let lane = &self.servers[usize::from(slot.server)].lanes[usize::from(slot.core)];
        let attempt = header.echo as u8;
        if !lane.is_from(from) || header.echo >> 8 != slot.nonce || attempt > slot.attempts {
            self.counters.bogus += 1;
            return None;
        }
        matches!(slot.state, State::InFlight | State::Queued | State::Delayed).then_some(index)
    }

    fn on_replies(
        &mut self,
        now_ns: u64,
        header: &Header,
        bytes: &[u8],
        from: SocketAddr,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let Some(index) = self.answered(header, from) else {
            return;
        };
        let refused = header.status != Status::Ok;
        let count = self.slots.get(index).count;
        if !refused && (header.count != count || !self.replies_match(index, bytes)) {
            self.counters.bogus += 1;
            return;
        }
        self.counters.received += 1;
        self.hear(now_ns, index, header, from);
        self.take_out(index);
        if refused {
            let outcome = match header.status {
                Status::Version => Outcome::Version(bytes[2]),
                _ => Outcome::BadRequest,
            };
            self.end_all(index, outcome, sink);
            return;
        }
        self.end_answered(now_ns, index, bytes, sink);
    }

    /// Handles a header that this version cannot read: the server may speak another version.
    fn on_refused(
        &mut self,
        now_ns: u64,
        header: &Header,
        bytes: &[u8],
        from: SocketAddr,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        let version = bytes[2];
        match header.kind {
            Kind::DirectoryReply => self.on_other_version(now_ns, header, version, from),
            Kind::Replies => {
                let Some(index) = self.answered(header, from) else {
                    return;
                };
                self.counters.received += 1;
                self.take_out(index);
                self.end_all(index, Outcome::Version(version), sink);
            }
            _ => self.counters.bogus += 1,
        }
    }

    /// Returns whether the replies match the requests of the datagram, one by one.
    fn replies_match(&self, index: u16, bytes: &[u8]) -> bool {
        let entries = self.slots.entries(index);
        let Ok(mut replies) = Replies::new(bytes, entries.len() as u16) else {
            return false;
        };
        entries.iter().all(|entry| match replies.next() {
            Some(Ok(reply)) => reply.opcode == entry.opcode && reply.hash_low == entry.hash_low,
            _ => false,
        })
    }

    /// Updates the server's and the lane's state from the header of a valid reply.
    fn hear(&mut self, now_ns: u64, index: u16, header: &Header, from: SocketAddr) {
        let slot = self.slots.get(index);
        let server = &mut self.servers[usize::from(slot.server)];
        server.hear(now_ns, &self.options);
        let lane = &mut server.lanes[usize::from(slot.core)];
        lane.hear();
        let rtt_ns = now_ns.saturating_sub(slot.sent_at);
        if slot.attempts == header.echo as u8 && slot.attempts < ATTEMPTS_MAX {
            lane.rtt.measure(rtt_ns);
            self.counters.round_trips += 1;
            self.counters.round_trips_ns += rtt_ns;
        }
        if header.slow_down {
            self.counters.slow_downs += 1;
            let rtt_ns = lane.rtt.smoothed_ns();
            let cut = lane.window.slow_down(now_ns, rtt_ns, header.pressure);
            self.counters.window_cuts += u64::from(cut);
        } else if lane.blocked {
            lane.window.grow();
        }
        if let Some(interface) = lane.interface_from(from) {
            server.hear_on((slot.core, interface), header.cookie, now_ns);
        }
        let generation = server.map.as_ref().map(|map| map.generation);
        if generation != Some(header.generation) {
            let server = slot.server;
            self.fetch_directory(server, now_ns);
        }
    }

    /// Removes a datagram from its list.
    pub(super) fn take_out(&mut self, index: u16) {
        let slot = self.slots.get(index);
        let place = Place { server: slot.server, core: slot.core };
        let server = &mut self.servers[usize::from(place.server)];
        let lane = &mut server.lanes[usize::from(place.core)];
        match slot.state {
            State::InFlight => {
                self.wheel.remove(&mut self.slots, index);
                lane.in_flight -= 1;
                self.wake(place);
            }
            State::Delayed => self.wheel.remove(&mut self.slots, index),
            State::Queued => self.slots.unlink(&mut lane.queue, index),
            State::Filling => {
                lane.filling[usize::from(slot.shared)] = super::slots::NONE;
                self.slots.unlink(&mut self.filling, index);
            }
            State::Expired => self.slots.unlink(&mut self.expired, index),
            State::Free => {}
        }
    }

    /// Ends requests with final replies, and sends the others again.
    fn end_answered(&mut self, now_ns: u64, index: u16, bytes: &[u8], sink: &mut impl FnMut(Completion<'_>)) {
        let count = self.slots.get(index).count;
        let Ok(replies) = Replies::new(bytes, count) else {
            return;
        };
        let resent = self.slots.get(index).attempts > 1 || self.slots.get(index).resent;
        self.expire(index);
        let mut retry = Retry::default();
        self.scratch_entries.clear();
        let (mut values, mut values_bytes) = (0_u32, 0_usize);
        for (number, reply) in replies.flatten().enumerate() {
            let Some(outcome) = Outcome::of(reply.status, reply.limit_bytes) else {
                retry.note(reply.status);
                self.scratch_entries.push(self.slots.entries(index)[number]);
                continue;
            };
            let Some(entry) = self.slots.end(index, number) else {
                continue;
            };
            if reply.opcode.answers_value() {
                values += 1;
                values_bytes += reply.value.len();
            }
            if entry.opcode.has_id() {
                self.end_id(index, number, true);
            }
            self.end(entry.token, outcome, resent, &reply, sink);
        }
        if values > 0 {
            self.learn_value_bytes(index, values_bytes as f32 / values as f32);
        }
        self.end_introduction(index, sink);
        self.slots.unlink(&mut self.expired, index);
        if retry.any() {
            self.count_retry(now_ns, index, &retry);
            self.send_again(now_ns, index, &retry);
        } else {
            self.give_back(index);
        }
    }

    #[inline]
    fn end(
        &mut self,
        token: u64,
        outcome: Outcome,
        resent: bool,
        reply: &Reply<'_>,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        self.counters.completed += 1;
        if token == OWN_TOKEN {
            return;
        }
        sink(Completion {
            token,
            opcode: reply.opcode,
            outcome,
            resent,
            one_sided: false,
            flags: reply.flags,
            cas: reply.cas,
            number: reply.number,
            value: reply.value,
        });
    }

    /// Ends the id of a datagram's request, which is no longer in flight.
    pub(super) fn end_id(&mut self, index: u16, number: usize, answered: bool) {
        let slot: &Slot = self.slots.get(index);
        let server = usize::from(slot.server);
        let entry = self.slots.entries(index)[number];
        let id = self.slots.request(index, &entry).map_or(0, |request| request.id);
        let server = &mut self.servers[server];
        server.ids.end(id);
        server.introduced |= answered;
        server.introduction.take_if(|introduction| *introduction == index);
    }

    /// Lets the requests of a datagram, which is in no list, end at the next look at the timers, unless they
    /// do so before: if the sink of one of them panics, the others end then.
    pub(super) fn expire(&mut self, index: u16) {
        self.slots.get_mut(index).state = State::Expired;
        self.slots.push_back(&mut self.expired, index);
    }

    /// Ends all requests of a datagram, which is in no list, with the same outcome.
    pub(super) fn end_all(&mut self, index: u16, outcome: Outcome, sink: &mut impl FnMut(Completion<'_>)) {
        self.expire(index);
        for number in 0..usize::from(self.slots.get(index).count) {
            let Some(entry) = self.slots.end(index, number) else {
                continue;
            };
            if entry.opcode.has_id() {
                self.end_id(index, number, false);
            }
            self.counters.completed += 1;
            if entry.token != OWN_TOKEN {
                sink(Completion::without_reply(entry.token, entry.opcode, outcome));
            }
        }
        self.slots.unlink(&mut self.expired, index);
        self.give_back(index);
    }

    /// Gives back a datagram that is in no list.
    pub(super) fn give_back(&mut self, index: u16) {
        let slot = self.slots.get(index);
        let server = &mut self.servers[usize::from(slot.server)];
        server.let_go(slot.core);
        self.slots.give_back(index);
    }

    /// Updates the expected length of replies.
    fn learn_value_bytes(&mut self, index: u16, mean: f32) {
        let server = &mut self.servers[usize::from(self.slots.get(index).server)];
        let share = if mean > server.value_bytes { 4.0 } else { 16.0 };
        server.value_bytes += (mean - server.value_bytes) / share;
    }
}

/// Reasons to send requests of a datagram again, with their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    pub(super) moved: u32,
    pub(super) slow_down: u32,
    pub(super) unproven: u32,
    pub(super) no_room: u32,
}

impl Retry {
    fn note(&mut self, status: Status) {
        match status {
            Status::Moved => self.moved += 1,
            Status::SlowDown => self.slow_down += 1,
            Status::Unproven => self.unproven += 1,
            _ => self.no_room += 1,
        }
    }

    fn any(&self) -> bool {
        self.moved + self.slow_down + self.unproven + self.no_room > 0
    }
}
