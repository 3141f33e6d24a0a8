//! Sends datagrams as far as windows allow.

use super::directory::paths::BASE;
use super::slots::{NONE, State};
use super::{Driver, Place};
use crate::counters::BATCH_SIZES_MAX;
use micanite_wire::native::Header;
use std::net::SocketAddr;

/// Maximum number of sendings under one sequence number: the echo counts in 8 bits.
pub(super) const ATTEMPTS_MAX: u8 = u8::MAX;

impl Driver {
    /// Passes each datagram that may leave to `send`. The closure returns whether it accepted the
    /// datagram, and is not called again after it has not. Datagrams to one address are
    /// consecutive.
    #[inline]
    pub fn transmit(&mut self, now_ns: u64, mut send: impl FnMut(SocketAddr, &[u8]) -> bool) {
        if now_ns >= self.directories_due_at && !self.transmit_directories(now_ns, &mut send) {
            return;
        }
        if now_ns >= self.filling_due_at {
            self.wake_filled(now_ns);
        }
        for _ in 0..self.ready.len() {
            let Some(place) = self.ready.pop_front() else {
                return;
            };
            if !self.transmit_lane(now_ns, place, &mut send) {
                self.ready.push_front(place);
                return;
            }
        }
    }

    /// Returns whether the last [`Driver::transmit`] had more datagrams than its closure accepted.
    pub fn has_more(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Wakes the lanes of datagrams that have waited long enough for more requests.
    fn wake_filled(&mut self, now_ns: u64) {
        self.filling_due_at = u64::MAX;
        let mut next = self.filling.first();
        while let Some(index) = next {
            next = self.slots.after(index);
            let slot = self.slots.get(index);
            if slot.due_at > now_ns {
                self.filling_due_at = self.filling_due_at.min(slot.due_at);
                continue;
            }
            let place = Place { server: slot.server, core: slot.core };
            self.wake(place);
        }
    }

    /// Sends the datagrams of a lane that its window allows; returns whether the closure accepted
    /// all of them.
    fn transmit_lane(
        &mut self,
        now_ns: u64,
        place: Place,
        send: &mut impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        loop {
            let server = &mut self.servers[usize::from(place.server)];
            let lane = &mut server.lanes[usize::from(place.core)];
            if lane.queue.is_empty() {
                let filling = lane.filling;
                let is_ripe = |index: &u16| *index != NONE && self.slots.get(*index).due_at <= now_ns;
                let Some(index) = filling.into_iter().find(is_ripe) else {
                    lane.ready = false;
                    lane.blocked = false;
                    return true;
                };
                if lane.allows() {
                    self.close(index);
                    continue;
                }
            }
            if !lane.allows() {
                lane.ready = false;
                lane.blocked = true;
                return true;
            }
            let Some(index) = lane.queue.first() else {
                continue;
            };
            if now_ns >= self.slots.get(index).deadline_at {
                self.slots.unlink(&mut lane.queue, index);
                self.expire(index);
                continue;
            }
            if !self.send(now_ns, place, index, send) {
                return false;
            }
        }
    }

    /// Sends the first datagram of a lane's queue.
    fn send(
        &mut self,
        now_ns: u64,
        place: Place,
        index: u16,
        send: &mut impl FnMut(SocketAddr, &[u8]) -> bool,
    ) -> bool {
        let server = &mut self.servers[usize::from(place.server)];
        let slot = self.slots.get(index);
        // The server knows numbered requests by the address that they come from, which may depend on the one
        // that they go to: a resent one must not come from another.
        let lane = &server.lanes[usize::from(place.core)];
        let (address, interface) = match slot.has_ids {
            true => (lane.fallback, BASE),
            false => (lane.address, lane.interface),
        };
        let cookie = server.cookie(place.core, interface);
        let lane = &mut server.lanes[usize::from(place.core)];
        let attempts = slot.attempts.saturating_add(1);
        let header = Header {
            writes: slot.writes,
            resent: slot.was_sent(),
            count: slot.count,
            generation: slot.generation,
            partition: slot.partition,
            sequence: slot.sequence,
            client: self.client,
            echo: slot.nonce << 8 | u64::from(attempts),
            cookie,
            ..Header::REQUESTS
        };
        header.write(self.slots.bytes_mut(index));
        if !send(address, self.slots.bytes(index)) {
            return false;
        }
        self.slots.unlink(&mut lane.queue, index);
        lane.in_flight += 1;
        let slot = self.slots.get_mut(index);
        let wait_ns = lane.resend_after_ns(slot.backoff, &self.options);
        let resend_at = now_ns.saturating_add(self.random.jittered(wait_ns));
        self.counters.sent += 1;
        if slot.attempts == 0 {
            self.counters.batch_sizes[usize::from(slot.count).min(BATCH_SIZES_MAX)] += 1;
            // Requests that came from another datagram have waited there, too.
            if slot.timed == slot.count {
                let waited_ns = now_ns.wrapping_mul(u64::from(slot.timed)).wrapping_sub(slot.submitted_ns);
                self.counters.gathered_requests += u64::from(slot.timed);
                self.counters.gathering_ns += waited_ns;
                self.counters.chosen_sizes[usize::from(slot.chosen).min(BATCH_SIZES_MAX)] += 1;
            }
        } else {
            self.counters.resent += 1;
        }
        slot.attempts = attempts;
        slot.state = State::InFlight;
        slot.sent_at = now_ns;
        slot.due_at = resend_at.min(slot.deadline_at);
        self.wheel.insert(&mut self.slots, index);
        true
    }
}
