//! Three ways to hide the memory's latency behind other requests.
//!
//! Every lookup has three stages: `start` finds its first line and prefetches it, `middle` reads
//! that line and prefetches a second one, `finish` reads the second line and copies the value
//! out. The schedules differ in what they do between two stages of one lookup:
//!
//! - a batch passes each stage for all of its lookups before the next stage begins, and ends
//!   before the next batch begins;
//! - rolling starts one lookup, advances one that started a distance ago, finishes one that
//!   started two distances ago: the memory is never idle;
//! - staggered batches are rolling by whole batches: the first stage of one batch, the second of
//!   the one before, the third of the one before that.
//!
//! A lookup may find that it needs one more line between the first and the second (a spare
//! bucket). It then passes the middle stage again: within the batch, or another distance later.

/// A lookup in three stages.
pub(super) trait Lookup {
    /// State that one lookup carries from stage to stage.
    type Slot: Copy + Default;

    /// Prefetches the first line of what `number` asks for.
    fn start(&self, number: u64) -> Self::Slot;

    /// Reads the first line, prefetches the second.
    fn middle(&self, slot: &mut Self::Slot);

    /// Returns whether the middle stage asked for another first line, and must be passed again.
    fn is_pending(&self, _slot: &Self::Slot) -> bool {
        false
    }

    /// Copies the value to `out` and returns its first word.
    fn finish(&self, slot: &Self::Slot, out: &mut [u8]) -> Option<u64>;
}

/// Result of a run, which is compared with the expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub hits: u64,
    pub sum: u64,
}

/// Interleaving of the stages of many lookups; the number is the batch or the distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    Batch(usize),
    Rolling(usize),
    Staggered(usize),
}

/// The largest batch and the longest distance.
pub(super) const SCHEDULE_MAX: usize = 64;
/// Slots of the ring: the lookups that have begun and not ended, two distances and one.
const RING: usize = 256;
/// Values are copied to this many bytes, over and over, as to a reply that is sent and reused.
const OUT_BYTES: usize = 4096;
const VALUE_BYTES: usize = 8;

const _: () = assert!(RING > 2 * SCHEDULE_MAX && RING.is_power_of_two());
const _: () = assert!(RING >= 3 * SCHEDULE_MAX, "staggered batches hold three at a time");

impl Schedule {
    pub fn name(self) -> String {
        match self {
            Self::Batch(size) => format!("batch {size}"),
            Self::Rolling(distance) => format!("rolling {distance}"),
            Self::Staggered(size) => format!("staggered {size}"),
        }
    }

    /// Looks up `number(0)` to `number(count - 1)`.
    pub fn run<L: Lookup>(self, lookup: &L, count: usize, number: impl Fn(usize) -> u64) -> Found {
        match self {
            Self::Batch(size) => batch(lookup, count, size, number),
            Self::Rolling(distance) => rolling(lookup, count, distance, number),
            Self::Staggered(size) => staggered(lookup, count, size, number),
        }
    }
}

/// Buffer for values, and their sum.
struct Sink {
    out: [u8; OUT_BYTES],
    at: usize,
    found: Found,
}

impl Sink {
    fn new() -> Self {
        Self { out: [0; OUT_BYTES], at: 0, found: Found::default() }
    }

    #[inline]
    fn take<L: Lookup>(&mut self, lookup: &L, slot: &L::Slot) {
        let out = &mut self.out[self.at..self.at + VALUE_BYTES];
        self.at = (self.at + VALUE_BYTES) % OUT_BYTES;
        if let Some(word) = lookup.finish(slot, out) {
            self.found.hits += 1;
            self.found.sum = self.found.sum.wrapping_add(word);
        }
    }

    fn end(self) -> Found {
        std::hint::black_box(&self.out);
        self.found
    }
}

/// Lookups that passed the middle stage again, and are finished when their line has come.
struct Late<L: Lookup> {
    ring: [(L::Slot, usize); RING],
    first: usize,
    end: usize,
}

impl<L: Lookup> Late<L> {
    fn new() -> Self {
        Self { ring: [(L::Slot::default(), 0); RING], first: 0, end: 0 }
    }

    #[inline]
    fn push(&mut self, slot: L::Slot, due: usize) {
        self.ring[self.end % RING] = (slot, due);
        self.end += 1;
    }

    /// Finishes a lookup, or passes its middle stage again, to be finished `distance` later.
    #[inline]
    fn take(&mut self, lookup: &L, slot: &mut L::Slot, due: usize, sink: &mut Sink) {
        if lookup.is_pending(slot) {
            lookup.middle(slot);
            self.push(*slot, due);
        } else {
            sink.take(lookup, slot);
        }
    }

    /// Goes on with what is due at `step`.
    #[inline]
    fn advance(&mut self, lookup: &L, step: usize, distance: usize, sink: &mut Sink) {
        while self.first < self.end && self.ring[self.first % RING].1 <= step {
            let mut slot = self.ring[self.first % RING].0;
            self.first += 1;
            self.take(lookup, &mut slot, step + distance, sink);
        }
    }

    fn end(&mut self, lookup: &L, sink: &mut Sink) {
        while self.first < self.end {
            self.advance(lookup, usize::MAX, 0, sink);
        }
    }
}

#[inline(never)]
fn batch<L: Lookup>(lookup: &L, count: usize, size: usize, number: impl Fn(usize) -> u64) -> Found {
    let mut slots = [L::Slot::default(); SCHEDULE_MAX];
    let mut sink = Sink::new();
    let mut first = 0;
    while first < count {
        let slots = &mut slots[..size.min(count - first)];
        for (at, slot) in slots.iter_mut().enumerate() {
            *slot = lookup.start(number(first + at));
        }
        let mut pending = false;
        for slot in slots.iter_mut() {
            lookup.middle(slot);
            pending |= lookup.is_pending(slot);
        }
        while pending {
            pending = false;
            for slot in slots.iter_mut().filter(|slot| lookup.is_pending(slot)) {
                lookup.middle(slot);
                pending |= lookup.is_pending(slot);
            }
        }
        for slot in slots.iter() {
            sink.take(lookup, slot);
        }
        first += slots.len();
    }
    sink.end()
}

#[inline(never)]
fn rolling<L: Lookup>(lookup: &L, count: usize, distance: usize, number: impl Fn(usize) -> u64) -> Found {
    let mut ring = [L::Slot::default(); RING];
    let mut late = Late::<L>::new();
    let mut sink = Sink::new();
    let distance = distance.min(SCHEDULE_MAX);
    let full = (2 * distance).min(count);
    for step in 0..full {
        ring[step % RING] = lookup.start(number(step));
        if step >= distance {
            lookup.middle(&mut ring[(step - distance) % RING]);
        }
    }
    for step in full..count {
        ring[step % RING] = lookup.start(number(step));
        lookup.middle(&mut ring[(step - distance) % RING]);
        let last = &mut ring[(step - 2 * distance) % RING];
        late.take(lookup, last, step + distance, &mut sink);
        late.advance(lookup, step, distance, &mut sink);
    }
    for step in count..count + 2 * distance {
        if (distance..count + distance).contains(&step) {
            lookup.middle(&mut ring[(step - distance) % RING]);
        }
        if step >= 2 * distance {
            let last = &mut ring[(step - 2 * distance) % RING];
            late.take(lookup, last, step + distance, &mut sink);
        }
    }
    late.end(lookup, &mut sink);
    sink.end()
}

#[inline(never)]
fn staggered<L: Lookup>(lookup: &L, count: usize, size: usize, number: impl Fn(usize) -> u64) -> Found {
    let mut blocks = [[L::Slot::default(); SCHEDULE_MAX]; 3];
    let mut late = Late::<L>::new();
    let mut sink = Sink::new();
    let batches = count.div_ceil(size);
    let length = |batch: usize| size.min(count - batch * size);
    for step in 0..batches + 2 {
        if step < batches {
            let block = &mut blocks[step % 3][..length(step)];
            for (at, slot) in block.iter_mut().enumerate() {
                *slot = lookup.start(number(step * size + at));
            }
        }
        if (1..=batches).contains(&step) {
            for slot in &mut blocks[(step - 1) % 3][..length(step - 1)] {
                lookup.middle(slot);
            }
        }
        if step >= 2 {
            late.advance(lookup, step, 1, &mut sink);
            for slot in &mut blocks[(step - 2) % 3][..length(step - 2)] {
                late.take(lookup, slot, step + 1, &mut sink);
            }
        }
    }
    late.end(lookup, &mut sink);
    sink.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const PENDING: u8 = 100;

    /// Notes the stage of each lookup; some pass the middle one two or three times.
    struct Recorder(RefCell<Vec<u8>>);

    impl Lookup for Recorder {
        type Slot = u64;

        fn start(&self, number: u64) -> u64 {
            assert_eq!(self.0.borrow()[number as usize], 0);
            self.0.borrow_mut()[number as usize] = 1;
            number
        }

        fn middle(&self, slot: &mut u64) {
            let stage = self.0.borrow()[*slot as usize];
            assert!(stage == 1 || self.is_pending(slot));
            self.0.borrow_mut()[*slot as usize] = match (stage, *slot % 7) {
                (1, 3) => PENDING,
                (1, 5) => PENDING + 1,
                (stage, _) if stage > PENDING => stage - 1,
                _ => 2,
            };
        }

        fn is_pending(&self, slot: &u64) -> bool {
            self.0.borrow()[*slot as usize] >= PENDING
        }

        fn finish(&self, slot: &u64, out: &mut [u8]) -> Option<u64> {
            assert_eq!(self.0.borrow()[*slot as usize], 2);
            self.0.borrow_mut()[*slot as usize] = 3;
            out.fill(1);
            (!slot.is_multiple_of(3)).then_some(*slot)
        }
    }

    #[test]
    fn every_schedule_passes_every_stage_once_in_order() {
        for count in [0, 1, 7, 8, 9, 31, 64, 127, 128, 129, 1000] {
            for size in [1, 3, 8, 64] {
                for schedule in [Schedule::Batch, Schedule::Rolling, Schedule::Staggered] {
                    let recorder = Recorder(RefCell::new(vec![0; count]));
                    let found = schedule(size).run(&recorder, count, |at| at as u64);
                    assert!(recorder.0.borrow().iter().all(|stage| *stage == 3));
                    let hits: Vec<_> = (0..count as u64).filter(|at| !at.is_multiple_of(3)).collect();
                    assert_eq!(found.hits, hits.len() as u64);
                    assert_eq!(found.sum, hits.iter().sum::<u64>());
                }
            }
        }
    }
}
