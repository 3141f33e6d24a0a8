//! Introduces the client to a server. A server answers *forgotten* to a resent request of an
//! unknown client. If the very first request with an id were lost, its resending would end like
//! this. So another request, which may be executed any number of times, is sent ahead until it is
//! answered.

use super::slots::State;
use super::submit::request;
use super::{Driver, OWN_TOKEN};
use crate::operation::{Completion, Operation, Outcome};
use micanite_wire::hash::KeyHash;

impl Driver {
    /// Returns whether a datagram, which is in no list, has to wait because it was sent before and
    /// the server may not know this client yet. Then it is in the wheel.
    pub(super) fn waits_for_introduction(&mut self, now_ns: u64, index: u16) -> bool {
        let slot = self.slots.get(index);
        let server = slot.server;
        let is_first = !slot.was_sent();
        let introduced = self.servers[usize::from(server)].introduced;
        if introduced || !slot.has_ids || is_first || now_ns >= slot.deadline_at {
            return false;
        }
        if self.servers[usize::from(server)].introduction == Some(index) {
            // The introduction itself counts as never sent.
            self.slots.get_mut(index).attempts = 0;
            return false;
        }
        if self.servers[usize::from(server)].introduction.is_none() {
            self.introduce(now_ns, server);
        }
        let wait_ns = self.options.resend_ns_min;
        let slot = self.slots.get_mut(index);
        slot.state = State::Delayed;
        slot.due_at = now_ns.saturating_add(wait_ns).min(slot.deadline_at);
        self.wheel.insert(&mut self.slots, index);
        true
    }

    /// Sends an increment by 0 of a missing number, in its own datagram.
    fn introduce(&mut self, now_ns: u64, number: u16) {
        let server = &mut self.servers[usize::from(number)];
        let Some(map) = &server.map else {
            return;
        };
        let Some(index) = self.slots.take(&mut self.random) else {
            return;
        };
        let Some(id) = server.ids.take_last() else {
            self.slots.give_back(index);
            return;
        };
        let key = self.random.next().to_le_bytes();
        let hash = KeyHash::of(&key, map.facts.hash_seed).0;
        let (partition, entry) = map.find(hash);
        let request = request(&Operation::increment(&key, 0), hash, id);
        let slot = self.slots.get_mut(index);
        slot.server = number;
        slot.core = entry.owner;
        slot.shared = false;
        slot.partition = partition;
        slot.generation = map.generation;
        slot.deadline_at = now_ns.saturating_add(self.options.deadline_ns);
        let payload_bytes = server.payload_bytes(&self.options);
        let put = self.slots.append(index, &request, (OWN_TOKEN, payload_bytes, 0.0));
        debug_assert!(put.is_ok());
        server.hold(now_ns, entry.owner);
        server.introduction = Some(index);
        self.counters.submitted += 1;
        self.queue_first(index, now_ns);
    }

    /// Ends an introduction without a reply once the server has answered another request with an id: it is
    /// needless, and its id would hold up the window. Executing it later changes nothing. `answered` is the
    /// datagram whose reply is being read, and which ends by itself.
    pub(super) fn end_introduction(&mut self, answered: u16, sink: &mut impl FnMut(Completion<'_>)) {
        let server = &self.servers[usize::from(self.slots.get(answered).server)];
        let Some(index) = server.introduction.filter(|_| server.introduced) else {
            return;
        };
        // A reply that introduces the client has ended an introduction that it answers.
        assert_ne!(index, answered, "the introduction is the datagram that was answered");
        self.take_out(index);
        self.end_all(index, Outcome::Unknown, sink);
    }
}
