//! Requests that were not executed, or have to go elsewhere. They leave in datagrams with other
//! sequence numbers, so that late replies do not match.

use super::directory::map::Map;
use super::receive::Retry;
use super::slots::State;
use super::{Driver, Place};
use crate::operation::Opcode;
use micanite_wire::hash::KeyHash;
use micanite_wire::native::Request;

impl Driver {
    /// Counts retries, slows down if the server requests it, and fetches the directory of new
    /// owners.
    pub(super) fn count_retry(&mut self, now_ns: u64, index: u16, retry: &Retry) {
        self.counters.moved += u64::from(retry.moved);
        self.counters.no_room += u64::from(retry.no_room);
        self.counters.unproven += u64::from(retry.unproven);
        self.counters.slow_downs += u64::from(retry.slow_down);
        let slot = self.slots.get(index);
        let number = slot.server;
        let server = &mut self.servers[usize::from(number)];
        let lane = &mut server.lanes[usize::from(slot.core)];
        if retry.slow_down > 0 {
            let cut = lane.window.slow_down(now_ns, lane.rtt.smoothed_ns(), 0);
            self.counters.window_cuts += u64::from(cut);
        }
        if retry.no_room > 0 {
            let server = &mut self.servers[usize::from(number)];
            server.value_bytes = server.value_bytes * 1.25 + 8.0;
        }
    }

    /// Sends the requests of `scratch_entries` again. They belong to one datagram, which is in no
    /// list.
    pub(super) fn send_again(&mut self, now_ns: u64, index: u16, retry: &Retry) {
        let slot = self.slots.get_mut(index);
        // An earlier sending may still be executed.
        slot.resent |= slot.attempts > 1;
        let patient = retry.moved + retry.slow_down > 0 || retry.unproven > 0 && slot.backoff > 0;
        if retry.no_room == 0 || patient {
            slot.backoff = slot.backoff.saturating_add(1);
        }
        let (server, core, backoff) = (slot.server, slot.core, slot.backoff);
        let lane = &self.servers[usize::from(server)].lanes[usize::from(core)];
        let wait_ns = match patient {
            true => {
                let once = lane.rtt.smoothed_ns().max(self.options.resend_ns_min / 8);
                let doubled = once.saturating_mul(1 << backoff.min(32));
                self.random.jittered(doubled.min(self.options.resend_ns_max))
            }
            false => 0,
        };
        // A request that may have been executed stays at its core, unless that core has refused it.
        let slot = self.slots.get_mut(index);
        slot.stays = slot.has_ids && slot.resent && retry.moved == 0;
        self.split_datagram(now_ns, index, retry.no_room > 0);
        self.schedule_retry(index, now_ns.saturating_add(wait_ns), wait_ns == 0);
    }

    /// Sends all requests of a datagram, which is in no list, where the current directory says.
    pub(super) fn redirect(&mut self, now_ns: u64, index: u16) {
        self.scratch_entries.clear();
        self.scratch_entries.extend_from_slice(self.slots.entries(index));
        let slot = self.slots.get_mut(index);
        if slot.attempts > 0 {
            slot.resent = true;
            slot.stays = slot.has_ids;
        }
        self.split_datagram(now_ns, index, false);
        self.schedule_retry(index, now_ns, true);
    }

    /// Refills the datagram with the requests of `scratch_entries` that share its path. Each other
    /// request goes to another datagram, or stays in the first if none is free: the server forwards
    /// it. With `separate`, every request gets its own datagram.
    fn split_datagram(&mut self, now_ns: u64, index: u16, separate: bool) {
        let bytes = std::mem::take(&mut self.scratch_bytes);
        let entries = std::mem::take(&mut self.scratch_entries);
        let mut bytes = bytes;
        bytes.clear();
        bytes.extend_from_slice(self.slots.bytes(index));
        let old = self.slots.get(index).clone();
        self.slots.renew(index, &mut self.random);
        let mut first = true;
        for entry in &entries {
            let Some((mut request, _)) = Request::read(&bytes[usize::from(entry.offset)..]) else {
                continue; // impossible: this client wrote it
            };
            let (place, shared, partition) = self.direct(old.server, old.core, &mut request, old.stays);
            if first {
                first = false;
                self.move_to(now_ns, index, place, (shared, partition));
            }
            let own = self.slots.get(index);
            let stays = own.count == 0 || !separate && own.core == place.core;
            let target = match stays {
                true => None,
                false => self.another(now_ns, index, place, (shared, partition)),
            };
            let to = target.unwrap_or(index);
            // All requests fitted before. Value lengths are not estimated, because that would split
            // the datagram.
            let token = (entry.token, self.options.payload_bytes, 0.0);
            let fitted = self.slots.append(to, &request, token);
            debug_assert!(fitted.is_ok());
            if let Some(target) = target {
                let due_at = 0;
                self.queue_first(target, due_at);
            }
        }
        self.scratch_bytes = bytes;
        self.scratch_entries = entries;
    }

    /// Returns the path of a request by the current directory.
    fn direct(&self, server: u16, core: u16, request: &mut Request<'_>, stays: bool) -> (Place, bool, u16) {
        let here = Place { server, core };
        let Some(map) = &self.servers[usize::from(server)].map else {
            return (here, false, 0);
        };
        if request.opcode != Opcode::Noop {
            request.hash = KeyHash::of(request.key, map.facts.hash_seed).0;
        }
        let (partition, entry) = map.find(request.hash);
        if stays && usize::from(core) < map.cores.len() {
            return (here, false, partition);
        }
        let shared = request.opcode == Opcode::Get && !request.wants_cas && Map::is_shared(entry);
        let core = match shared {
            true => map.reader(entry.owner, self.options.numa_node),
            false => entry.owner,
        };
        (Place { server, core }, shared, partition)
    }

    /// Takes another datagram for a request with a different path.
    fn another(
        &mut self,
        now_ns: u64,
        index: u16,
        place: Place,
        (shared, partition): (bool, u16),
    ) -> Option<u16> {
        let target = self.slots.take(&mut self.random)?;
        let old = self.slots.get(index).clone();
        let server = &mut self.servers[usize::from(place.server)];
        server.hold(now_ns, place.core);
        let slot = self.slots.get_mut(target);
        slot.server = place.server;
        slot.core = place.core;
        slot.shared = shared;
        slot.partition = partition;
        slot.generation = server.map.as_ref().map_or(0, |map| map.generation);
        slot.deadline_at = old.deadline_at;
        slot.resent = old.resent;
        slot.stays = old.stays;
        slot.backoff = old.backoff;
        Some(target)
    }

    /// Moves an empty datagram to another lane.
    fn move_to(&mut self, now_ns: u64, index: u16, place: Place, (shared, partition): (bool, u16)) {
        let server = &mut self.servers[usize::from(place.server)];
        let slot = self.slots.get_mut(index);
        server.hold(now_ns, place.core);
        server.let_go(slot.core);
        slot.core = place.core;
        slot.shared = shared;
        slot.partition = partition;
        slot.generation = server.map.as_ref().map_or(0, |map| map.generation);
    }

    /// Schedules a refilled datagram for a time, or as soon as possible.
    fn schedule_retry(&mut self, index: u16, due_at: u64, at_once: bool) {
        if at_once {
            self.queue_first(index, due_at);
            return;
        }
        let slot = self.slots.get_mut(index);
        slot.state = State::Delayed;
        slot.due_at = due_at.min(slot.deadline_at);
        self.wheel.insert(&mut self.slots, index);
    }

    /// Makes a datagram, which is in no list, the next of its lane.
    pub(super) fn queue_first(&mut self, index: u16, due_at: u64) {
        let slot = self.slots.get_mut(index);
        slot.state = State::Queued;
        slot.due_at = due_at;
        let place = Place { server: slot.server, core: slot.core };
        let server = &mut self.servers[usize::from(place.server)];
        let lane = &mut server.lanes[usize::from(place.core)];
        self.slots.push_front(&mut lane.queue, index);
        self.wake(place);
    }
}
