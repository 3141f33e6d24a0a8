//! Resending, deadlines, silent servers.

use super::server::Health;
use super::slots::{NONE, State};
use super::{Driver, Place};
use crate::operation::{Completion, Outcome};

impl Driver {
    /// Does what is due: prepares datagrams to resend for the next [`Driver::transmit`], and ends
    /// requests after their deadline.
    #[inline]
    pub fn on_time(&mut self, now_ns: u64, sink: &mut impl FnMut(Completion<'_>)) {
        while let Some(index) = self.wheel.pop(&mut self.slots, now_ns) {
            if self.slots.get(index).state == State::InFlight {
                self.on_missed(now_ns, index, sink);
            } else if !self.waits_for_introduction(now_ns, index) {
                self.after_delay(now_ns, index);
            }
        }
        while let Some(index) = self.slots.pop_front(&mut self.expired) {
            self.counters.timed_out += u64::from(self.slots.get(index).count);
            self.end_all(index, Outcome::TimedOut, sink);
        }
    }

    /// Returns when [`Driver::on_time`] and [`Driver::transmit`] have to be called next, if nothing
    /// arrives before; `None` if nothing is pending.
    pub fn next_time(&self) -> Option<u64> {
        if self.expired.first().is_some() {
            return Some(0);
        }
        let wheel = self.wheel.next_ns().unwrap_or(u64::MAX);
        let next = wheel.min(self.filling_due_at).min(self.directories_due_at);
        (next != u64::MAX).then_some(next)
    }

    /// Handles a missing reply to a datagram, which is out of the wheel.
    fn on_missed(&mut self, now_ns: u64, index: u16, sink: &mut impl FnMut(Completion<'_>)) {
        let slot = self.slots.get(index);
        let place = Place { server: slot.server, core: slot.core };
        let server = &mut self.servers[usize::from(place.server)];
        let lane = &mut server.lanes[usize::from(place.core)];
        lane.in_flight -= 1;
        let sent_at = self.slots.get(index).sent_at;
        lane.miss(now_ns, sent_at);
        let cut = lane.window.missed(now_ns, sent_at, lane.rtt.smoothed_ns());
        self.counters.window_cuts += u64::from(cut);
        // A datagram that was sent while the server as a whole was silent tells nothing about a path.
        let silent_since = lane.silent_since().filter(|_| sent_at >= server.resumed_at);
        if let Some(since) = silent_since {
            self.leave_path(now_ns, place, since);
        }
        self.wake(place);
        let slot = self.slots.get(index);
        if now_ns < slot.deadline_at {
            self.resend(now_ns, index);
            return;
        }
        self.counters.timed_out += u64::from(slot.count);
        self.end_all(index, Outcome::TimedOut, sink);
        let server = &self.servers[usize::from(place.server)];
        let silence_ns = now_ns.saturating_sub(server.heard_at);
        let deadlines = u64::from(self.options.dead_after_deadlines.max(1));
        let dead_after_ns = self.options.deadline_ns.saturating_mul(deadlines);
        if silence_ns >= dead_after_ns {
            self.lose(now_ns, place.server, sink);
        }
    }

    /// Queues a delayed datagram, which is in no list.
    fn after_delay(&mut self, now_ns: u64, index: u16) {
        let slot = self.slots.get(index);
        let map = self.servers[usize::from(slot.server)].map.as_ref();
        let is_stale = map.is_some_and(|map| map.generation != slot.generation);
        if is_stale && slot.attempts == 0 {
            self.redirect(now_ns, index);
        } else {
            self.queue_first(index, now_ns);
        }
    }

    fn resend(&mut self, now_ns: u64, index: u16) {
        let slot = self.slots.get_mut(index);
        slot.backoff = slot.backoff.saturating_add(1);
        let (server, core, has_ids) = (slot.server, slot.core, slot.has_ids);
        if has_ids && self.waits_for_introduction(now_ns, index) {
            return;
        }
        let generation = self.slots.get(index).generation;
        let map = self.servers[usize::from(server)].map.as_ref();
        let is_stale = map.is_some_and(|map| map.generation != generation);
        let is_gone = map.is_some_and(|map| usize::from(core) >= map.cores.len());
        if is_stale && !has_ids || is_gone {
            self.redirect(now_ns, index);
        } else {
            self.queue_first(index, now_ns);
        }
    }

    /// Declares a server dead for a while: all its requests end. Those that were sent may have been executed.
    pub(super) fn lose(&mut self, now_ns: u64, server: u16, sink: &mut impl FnMut(Completion<'_>)) {
        self.counters.servers_lost += 1;
        let state = &mut self.servers[usize::from(server)];
        (state.health, state.fetch) = (Health::Dead, None);
        let again_at = now_ns.saturating_add(self.options.dead_for_ns);
        self.fetch_directory(server, again_at);
        self.end_where(|of| of == server, Outcome::TimedOut, sink);
        let state = &self.servers[usize::from(server)];
        debug_assert!(state.lanes.iter().all(|lane| lane.held == 0 && lane.filling == [NONE; 2]));
    }

    /// Ends all requests: none of them is sent again, and a late reply to one is ignored. Those that were
    /// sent are unknown, the others as those of a server that is down.
    pub(crate) fn give_up(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        self.end_where(|_| true, Outcome::Unknown, sink);
    }

    /// Ends the requests to some servers: those that were sent with this outcome, and the others, which no
    /// server has executed, as down.
    fn end_where(
        &mut self,
        is_meant: impl Fn(u16) -> bool,
        of_sent: Outcome,
        sink: &mut impl FnMut(Completion<'_>),
    ) {
        for index in 0..self.slots.len() as u16 {
            let slot = self.slots.get(index);
            if slot.state != State::Free && is_meant(slot.server) {
                let outcome = if slot.was_sent() { of_sent } else { Outcome::ServerDown };
                self.take_out(index);
                self.end_all(index, outcome, sink);
            }
        }
    }
}
