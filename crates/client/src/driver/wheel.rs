//! Timers of datagrams: a ring of buckets, one per tick.

use super::slots::{List, Slots};

/// A tick is 65 us. Resending needs no more precision.
const TICK_SHIFT: u32 = 16;
/// The ring spans 67 ms. Later timers are in the last bucket, and are inserted again.
const BUCKETS: u64 = 1024;

/// Datagrams that wait until their `due_at`.
#[derive(Debug)]
pub(super) struct Wheel {
    buckets: Vec<List>,
    /// Marks buckets that are not empty.
    filled: [u64; (BUCKETS / 64) as usize],
    /// All earlier ticks are done.
    tick: u64,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { buckets: vec![List::EMPTY; BUCKETS as usize], filled: [0; (BUCKETS / 64) as usize], tick: 0 }
    }

    /// Returns the bucket of a time. It does not depend on the current time, so an entry never
    /// moves.
    fn bucket(due_at: u64) -> usize {
        // Rounded up: never before it is due.
        (((due_at >> TICK_SHIFT) + 1) % BUCKETS) as usize
    }

    /// Inserts a datagram. It fires within a tick of its `due_at`. One beyond the wheel's span is
    /// found at each round, and inserted again.
    pub(super) fn insert(&mut self, slots: &mut Slots, index: u16) {
        let earliest = self.tick << TICK_SHIFT;
        let slot = slots.get_mut(index);
        slot.due_at = slot.due_at.max(earliest);
        let bucket = Self::bucket(slot.due_at);
        slots.push_back(&mut self.buckets[bucket], index);
        self.filled[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Removes a datagram.
    pub(super) fn remove(&mut self, slots: &mut Slots, index: u16) {
        let bucket = Self::bucket(slots.get(index).due_at);
        slots.unlink(&mut self.buckets[bucket], index);
        if self.buckets[bucket].is_empty() {
            self.filled[bucket / 64] &= !(1 << (bucket % 64));
        }
    }

    /// Removes one due datagram; `None` if there is none.
    pub(super) fn pop(&mut self, slots: &mut Slots, now_ns: u64) -> Option<u16> {
        let now_tick = now_ns >> TICK_SHIFT;
        if now_tick >= self.tick + BUCKETS {
            // More than a whole round later: each bucket is looked at once.
            self.tick = now_tick - BUCKETS + 1;
        }
        while self.tick <= now_tick {
            let bucket = (self.tick % BUCKETS) as usize;
            let mut next = self.buckets[bucket].first();
            while let Some(index) = next {
                if slots.get(index).due_at <= now_ns {
                    self.remove(slots, index);
                    return Some(index);
                }
                next = slots.after(index);
            }
            if self.tick == now_tick {
                return None;
            }
            self.tick += 1;
        }
        None
    }

    /// Returns the time of the next look; `None` if the wheel is empty.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let words = self.filled.len();
        let from = (self.tick % BUCKETS) as usize;
        // Visits the first word twice: its high bits first, its low bits after a round.
        for step in 0..=words {
            let word = (from / 64 + step) % words;
            let mut bits = self.filled[word];
            if step == 0 {
                bits &= u64::MAX << (from % 64);
            }
            if step == words {
                bits &= !(u64::MAX << (from % 64));
            }
            if bits != 0 {
                let bucket = (word * 64) as u64 + u64::from(bits.trailing_zeros());
                let ahead = (bucket + BUCKETS - from as u64) % BUCKETS;
                return Some((self.tick + ahead) << TICK_SHIFT);
            }
        }
        None
    }
}
