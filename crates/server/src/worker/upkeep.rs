//! Upkeep, every 10 ms: the cache, and connections that have to be closed.

use std::time::Instant;

use micanite_net::{Interest, Streams};

use super::queues::Kind;
use super::slots::Slot;
use super::{Bytes, Worker};
use crate::limits::{HALF_CLOSED_CHECK_MS, IDLE_PASS_MS, LOGIN_MS_MAX, LOGINS_CHECK_MS};
use crate::shared::Server;
use crate::shared::clock::{cpu_time_ns, seconds};

impl<P: Streams> Worker<P> {
    /// Does the regular work of a worker: upkeep of the cache, closing of connections, statistics.
    pub(super) fn maintain(&mut self, now_ms: u64) {
        let began = Instant::now();
        let since_ms = now_ms - self.maintained_ms;
        self.maintained_ms = now_ms;
        self.engine.maintain(seconds(now_ms));
        self.close_stalled(now_ms);
        self.close_late_handshakes(now_ms);
        self.close_late_logins(now_ms);
        self.close_half_closed(now_ms);
        self.close_idle_for_long(now_ms, since_ms);
        self.serve_watchers(now_ms);
        self.maintain_fabric(now_ms);
        self.counters().housekeeping_ns.add(began.elapsed().as_nanos() as u64);
        self.counters().maintained_ms.set(now_ms);
        self.server.shared.hot[self.number].calm(seconds(now_ms));
        let spent_ns = cpu_time_ns();
        self.counters().cpu_ns.add(spent_ns - self.counters().cpu_ns.get());
    }

    fn close_stalled(&mut self, now_ms: u64) {
        if self.queues.count(Kind::Waiting) > 0 {
            self.close_where(
                // A queued connection waits for the server.
                |slot| !slot.queued && slot.connection.has_stalled(now_ms),
                |worker| {
                    worker.counters().value_buffer_stalls.add(1);
                },
            );
        }
    }

    /// Closes connections whose peers were told of the end, and do not end.
    fn close_half_closed(&mut self, now_ms: u64) {
        if self.half_closed == 0 || now_ms - self.half_closed_checked_ms < HALF_CLOSED_CHECK_MS {
            return;
        }
        self.half_closed_checked_ms = now_ms;
        self.close_where(|slot| slot.connection.is_half_closed_for_long(now_ms), |_| {});
    }

    /// Closes connections that an end does not wait for. Returns whether no connection is left.
    pub(super) fn close_for_end(&mut self, now_ms: u64) -> bool {
        self.take_posts(now_ms);
        let has_ended = |slot: &Slot<Bytes<P>>| {
            // These wait for the server.
            let waits = slot.queued || slot.interest == Interest::Nothing;
            let is_stranger = slot.is_shaking() || slot.connection.never_authenticated();
            is_stranger || !waits && !slot.connection.delays_an_end(now_ms)
        };
        let mut from = 0;
        while let Some((token, slot, next)) = self.slots.next_from(from) {
            from = next;
            if !has_ended(slot) {
                continue;
            }
            if let Some(slot) = self.slots.get_mut(token) {
                slot.connection.prepare_close(&mut self.buffers);
            }
            self.close(token);
        }
        self.slots.is_empty() && !self.has_posts
    }

    /// Closes connections that meet a condition.
    pub(super) fn close_where(
        &mut self,
        condition: impl Fn(&Slot<Bytes<P>>) -> bool,
        closed: impl Fn(&Self),
    ) {
        let mut from = 0;
        while let Some((token, slot, next)) = self.slots.next_from(from) {
            from = next;
            if condition(slot) {
                self.close(token);
                closed(self);
            }
        }
    }

    /// Closes idle connections (`-o idle_timeout`) among the next in turn. No connection has a timer: each is
    /// visited about once in [`IDLE_PASS_MS`].
    pub(super) fn close_idle_for_long(&mut self, now_ms: u64, since_ms: u64) {
        let timeout_ms = self.server.settings.idle_timeout_ms;
        if timeout_ms == 0 || self.slots.is_empty() {
            return;
        }
        let places = self.slots.places();
        let due = places as u64 * since_ms.min(IDLE_PASS_MS) / IDLE_PASS_MS;
        let end = self.idle_place + (due as usize + 1).min(places);
        let before_ms = now_ms.saturating_sub(timeout_ms);
        for place in self.idle_place..end {
            let Some((token, slot)) = self.slots.at(place % places) else {
                continue;
            };
            // A connection that waits for a turn or a value buffer waits for the server.
            let waits = slot.queued || slot.interest == Interest::Nothing;
            let watches = slot.connection.is_watching();
            if !waits && !watches && slot.connection.has_done_nothing(before_ms) {
                self.counters().idle_kicks.add(1);
                self.note_departure(token, "idle_timeout");
                self.close(token);
            }
        }
        self.idle_place = end % places;
    }

    /// Closes connections whose clients have not authenticated in time (`-Y`, `-S`). A client that
    /// authenticates again has no such deadline.
    pub(super) fn close_late_logins(&mut self, now_ms: u64) {
        if self.server.auth.is_none() || now_ms - self.logins_checked_ms < LOGINS_CHECK_MS {
            return;
        }
        self.logins_checked_ms = now_ms;
        let before_ms = now_ms.saturating_sub(LOGIN_MS_MAX);
        self.close_where(
            |slot| slot.opened_ms <= before_ms && slot.connection.never_authenticated(),
            |worker| worker.counters().auth_timeouts.add(1),
        );
    }
}

/// Tells readers on this host of a new second before a worker acts in it. What is due in it, such as a flush,
/// is done before.
#[inline]
pub(super) fn begin_second(engine: &mut micanite_engine::Worker, server: &Server, now_ms: u64) {
    if let Some(local) = &server.shared.local
        && local.header.now_s() < seconds(now_ms)
    {
        engine.maintain(seconds(now_ms));
        local.header.advance(seconds(now_ms));
    }
}
