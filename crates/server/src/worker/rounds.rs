//! A round decides which connections get a turn at once, and which are queued.
//!
//! A connection with an event gets its turn at once, unless its turns take long or the round is spent, that
//! is, has moved as many bytes as a turn may. Connections that are queued for that reason come first in the
//! next round, before events, until the queue is empty.

use micanite_net::{Interest, Streams};

use super::Worker;
use super::queues::Kind;
use super::slots::Token;
use crate::limits::{HANDSHAKES_PER_ROUND, TURNS_PER_ROUND};

impl<P: Streams> Worker<P> {
    /// Begins a round with the connections that the last one had no turn for, or with one of them if all are
    /// heavy. Returns the number of turns.
    pub(super) fn begin_round(&mut self, now_ms: u64) -> usize {
        self.moved_before_bytes = self.engine.moved_total_bytes();
        let mut turns = 0;
        if !std::mem::take(&mut self.is_behind) {
            return turns;
        }
        // Light connections that are queued again have their turn later.
        let mut left = self.queues.count(Kind::Light).max(1);
        while left > 0 && !self.round_is_spent() {
            let Some(kind) = self.next_queued_turn(now_ms) else {
                break;
            };
            turns += 1;
            if kind == Kind::Light || self.queues.count(Kind::Light) == 0 {
                left -= 1;
            }
        }
        turns
    }

    #[inline]
    pub(super) fn on_event(&mut self, token: Token, broken: bool, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        match slot.interest {
            // The turn comes anyway.
            _ if slot.queued => {}
            Interest::Read => self.turn_or_queue(token, true, now_ms),
            Interest::Write => self.turn_or_queue(token, false, now_ms),
            Interest::Nothing if broken => self.close(token),
            Interest::Nothing => {}
        }
    }

    /// Takes a turn at once, unless it is likely to take long, or the round has already taken long.
    #[inline]
    pub(super) fn turn_or_queue(&mut self, token: Token, readable: bool, now_ms: u64) {
        let round_is_spent = self.round_is_spent();
        let Some(slot) = self.slots.get_mut(token) else {
            return;
        };
        if round_is_spent || slot.is_heavy() || slot.is_shaking() {
            slot.readable = readable;
            self.queues.push(token, slot);
        } else {
            self.turn(token, readable, now_ms);
        }
    }

    /// Returns whether the round has moved as many bytes as one turn may. Its other work is small.
    #[inline]
    fn round_is_spent(&self) -> bool {
        let moved_bytes = self.engine.moved_total_bytes() - self.moved_before_bytes;
        moved_bytes >= self.engine.cache().turn_moved_bytes() as u64
    }

    /// Takes a limited number of turns of queued connections, and steps of TLS handshakes. `begun` turns of
    /// this round were taken before.
    pub(super) fn go_on(&mut self, begun: usize, now_ms: u64) {
        for _ in 0..HANDSHAKES_PER_ROUND {
            while let Some(token) = self.queues.pop_shaking() {
                if self.queued_turn(token, now_ms) {
                    break;
                }
            }
        }
        // A connection that is queued again has its next turn in the next round.
        let turns_max = self.queues.turns().min(TURNS_PER_ROUND);
        let mut turns = 0;
        while turns < turns_max && !self.round_is_spent() && self.next_queued_turn(now_ms).is_some() {
            turns += 1;
        }
        // Heavy connections do not come before events, unless events leave them no time.
        let are_some_left = self.queues.count(Kind::Light) > 0 || (begun + turns == 0 && self.has_queued());
        self.is_behind = are_some_left && self.round_is_spent();
    }

    /// Takes the turn of the next queued connection. Returns its queue.
    fn next_queued_turn(&mut self, now_ms: u64) -> Option<Kind> {
        let waiting_is_ready = self.can_serve_waiting();
        let (kind, token) = self.queues.pop(waiting_is_ready)?;
        let before_bytes = self.engine.moved_total_bytes();
        if kind == Kind::Waiting {
            self.buffers.values.reserve(0);
        }
        self.queued_turn(token, now_ms);
        if kind == Kind::Waiting {
            self.reserve_for_waiting();
        }
        let moved_bytes = self.engine.moved_total_bytes() - before_bytes;
        self.queues.note_served(kind, moved_bytes);
        Some(kind)
    }

    /// Takes the turn of a connection that was queued. Returns whether it was still there.
    fn queued_turn(&mut self, token: Token, now_ms: u64) -> bool {
        let Some(slot) = self.slots.get_mut(token) else {
            return false;
        };
        slot.queued = false;
        let readable = std::mem::take(&mut slot.readable);
        self.turn(token, readable, now_ms);
        true
    }

    /// Returns whether a queued connection can have its turn.
    pub(super) fn has_queued(&mut self) -> bool {
        !self.queues.is_empty() || self.can_serve_waiting()
    }

    /// Reserves bytes for the connection that has waited longest for a value buffer.
    pub(super) fn reserve_for_waiting(&mut self) {
        let first = self.queues.first_waiting();
        let slot = first.and_then(|token| self.slots.get_mut(token));
        let bytes = slot.map_or(0, |slot| slot.wait_bytes);
        self.buffers.values.reserve(bytes);
    }

    /// Returns whether the connection that has waited longest for a value buffer can have one.
    pub(super) fn can_serve_waiting(&mut self) -> bool {
        let Some(token) = self.queues.first_waiting() else {
            return false;
        };
        let wanted = self.slots.get_mut(token).map(|slot| slot.wait_bytes);
        wanted.is_none_or(|bytes| self.buffers.values.can_take(bytes))
    }
}
