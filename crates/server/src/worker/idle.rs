//! `-o idle_timeout`: connections that do nothing for too long are closed.
//!
//! No connection has a timer. Housekeeping looks at a few places at a time, as many as belong to the time
//! since it did so last, so that every connection is looked at once in [`IDLE_PASS_MS`] or so.

use micanite_net::{Interest, Streams};

use super::Worker;
use crate::limits::IDLE_PASS_MS;

impl<P: Streams> Worker<P> {
    /// Closes idle ones among the next connections in turn.
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
            // Who waits for a turn or for a value buffer is not the one who is slow.
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
}
