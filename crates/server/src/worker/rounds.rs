//! A round: who gets its turn at once, and who is queued.
//!
//! Whoever has an event gets its turn at once, unless its turns take long or the round is spent: it has moved as many bytes as a turn
//! may. Those that are queued because of that come first in the next round, and events behind them, until nobody is left.

use micanite_net::{Interest, Streams};

use super::Worker;
use super::queues::Kind;
use super::slots::Token;
use crate::limits::{HANDSHAKES_PER_ROUND, TURNS_PER_ROUND};

impl<P: Streams> Worker<P> {
    /// Begins a round: turns for those that the last one had none for, or one turn if all of them are heavy.
    /// Returns how many.
    pub(super) fn begin_round(&mut self, now_ms: u64) -> usize {
        self.moved_before_bytes = self.engine.moved_total_bytes();
        let mut turns = 0;
        if !std::mem::take(&mut self.is_behind) {
            return turns;
        }
        // Light ones that come to stand there again have their turn later.
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
            // Its turn comes anyway.
            _ if slot.queued => {}
            Interest::Read => self.turn_or_queue(token, true, now_ms),
            Interest::Write => self.turn_or_queue(token, false, now_ms),
            Interest::Nothing if broken => self.close(token),
            Interest::Nothing => {}
        }
    }

    /// A turn at once, unless it is likely to take long, or the round has taken long already.
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

    /// Whether the round has moved as many bytes as one turn may: what else it does is little.
    #[inline]
    fn round_is_spent(&self) -> bool {
        let moved_bytes = self.engine.moved_total_bytes() - self.moved_before_bytes;
        moved_bytes >= self.engine.cache().turn_moved_bytes() as u64
    }

    /// Turns of queued connections, not of too many at once; beside them, one of those that shake hands. `begun` had one already.
    pub(super) fn go_on(&mut self, begun: usize, now_ms: u64) {
        for _ in 0..HANDSHAKES_PER_ROUND {
            while let Some(token) = self.queues.pop_shaking() {
                if self.queued_turn(token, now_ms) {
                    break;
                }
            }
        }
        // Who comes to stand there again has its next turn in the next round.
        let turns_max = self.queues.turns().min(TURNS_PER_ROUND);
        let mut turns = 0;
        while turns < turns_max && !self.round_is_spent() && self.next_queued_turn(now_ms).is_some() {
            turns += 1;
        }
        // Heavy ones do not come before events, unless events leave them nothing.
        let is_somebody_left =
            self.queues.count(Kind::Light) > 0 || (begun + turns == 0 && self.has_queued());
        self.is_behind = is_somebody_left && self.round_is_spent();
    }

    /// A turn of the connection that is the next one. Returns which queue it stood in, if there was any.
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

    /// A turn of a connection that was queued. Returns whether it was still there.
    fn queued_turn(&mut self, token: Token, now_ms: u64) -> bool {
        let Some(slot) = self.slots.get_mut(token) else {
            return false;
        };
        slot.queued = false;
        let readable = std::mem::take(&mut slot.readable);
        self.turn(token, readable, now_ms);
        true
    }

    /// Whether a connection has a turn to come, and may have it.
    pub(super) fn has_queued(&mut self) -> bool {
        !self.queues.is_empty() || self.can_serve_waiting()
    }

    /// Keeps room for the first of those that wait for a value buffer: whoever comes later waits behind it.
    pub(super) fn reserve_for_waiting(&mut self) {
        let first = self.queues.first_waiting();
        let slot = first.and_then(|token| self.slots.get_mut(token));
        let bytes = slot.map_or(0, |slot| slot.wait_bytes);
        self.buffers.values.reserve(bytes);
    }

    /// Whether there is a value buffer for the first of those that wait for one.
    pub(super) fn can_serve_waiting(&mut self) -> bool {
        let Some(token) = self.queues.first_waiting() else {
            return false;
        };
        let wanted = self.slots.get_mut(token).map(|slot| slot.wait_bytes);
        wanted.is_none_or(|bytes| self.buffers.values.can_take(bytes))
    }
}
