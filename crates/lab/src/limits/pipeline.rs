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

/// A lookup in three stages.
pub(super) trait Lookup {
    /// What one lookup carries from stage to stage.
    type Slot: Copy + Default;

    /// Prefetches the first line of what `number` asks for.
    fn start(&self, number: u64) -> Self::Slot;

    /// Reads the first line, prefetches the second.
    fn middle(&self, slot: &mut Self::Slot);

    /// Copies the value to `out` and returns its first word.
    fn finish(&self, slot: &Self::Slot, out: &mut [u8]) -> Option<u64>;
}

/// What a run found, to be compared with what it should have found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub hits: u64,
    pub sum: u64,
}

/// How the stages of many lookups are interleaved; the number is the batch or the distance.
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
    pub fn run<L: Lookup>(
        self,
        lookup: &L,
        count: usize,
        number: impl Fn(usize) -> u64,
    ) -> Found {
        match self {
            Self::Batch(size) => batch(lookup, count, size, number),
            Self::Rolling(distance) => rolling(lookup, count, distance, number),
            Self::Staggered(size) => staggered(lookup, count, size, number),
        }
    }
}

/// Where values go, and the sum of what came.
struct Sink {
    out: [u8; OUT_BYTES],
    at: usize,
    found: Found,
}

impl Sink {
    fn new() -> Self {
        Self {
            out: [0; OUT_BYTES],
            at: 0,
            found: Found::default(),
        }
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

#[inline(never)]
fn batch<L: Lookup>(
    lookup: &L,
    count: usize,
    size: usize,
    number: impl Fn(usize) -> u64,
) -> Found {
    let mut slots = [L::Slot::default(); SCHEDULE_MAX];
    let mut sink = Sink::new();
    let mut first = 0;
    while first < count {
        let slots = &mut slots[..size.min(count - first)];
        for (at, slot) in slots.iter_mut().enumerate() {
            *slot = lookup.start(number(first + at));
        }
        for slot in slots.iter_mut() {
            lookup.middle(slot);
        }
        for slot in slots.iter() {
            sink.take(lookup, slot);
        }
        first += slots.len();
    }
    sink.end()
}

#[inline(never)]
fn rolling<L: Lookup>(
    lookup: &L,
    count: usize,
    distance: usize,
    number: impl Fn(usize) -> u64,
) -> Found {
    let mut ring = [L::Slot::default(); RING];
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
        sink.take(lookup, &ring[(step - 2 * distance) % RING]);
    }
    for step in count..count + 2 * distance {
        if (distance..count + distance).contains(&step) {
            lookup.middle(&mut ring[(step - distance) % RING]);
        }
        if step >= 2 * distance {
            sink.take(lookup, &ring[(step - 2 * distance) % RING]);
        }
    }
    sink.end()
}

#[inline(never)]
fn staggered<L: Lookup>(
    lookup: &L,
    count: usize,
    size: usize,
    number: impl Fn(usize) -> u64,
) -> Found {
    let mut blocks = [[L::Slot::default(); SCHEDULE_MAX]; 3];
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
            for slot in &blocks[(step - 2) % 3][..length(step - 2)] {
                sink.take(lookup, slot);
            }
        }
    }
    sink.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Counts the stages of each lookup.
    struct Recorder(RefCell<Vec<u8>>);

    impl Lookup for Recorder {
        type Slot = u64;

        fn start(&self, number: u64) -> u64 {
            assert_eq!(self.0.borrow()[number as usize], 0);
            self.0.borrow_mut()[number as usize] = 1;
            number
        }

        fn middle(&self, slot: &mut u64) {
            assert_eq!(self.0.borrow()[*slot as usize], 1);
            self.0.borrow_mut()[*slot as usize] = 2;
        }

        fn finish(&self, slot: &u64, out: &mut [u8]) -> Option<u64> {
            assert_eq!(self.0.borrow()[*slot as usize], 2);
            self.0.borrow_mut()[*slot as usize] = 3;
            out.fill(1);
            (*slot % 3 != 0).then_some(*slot)
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
                    let hits: Vec<_> = (0..count as u64).filter(|at| at % 3 != 0).collect();
                    assert_eq!(found.hits, hits.len() as u64);
                    assert_eq!(found.sum, hits.iter().sum());
                }
            }
        }
    }
}
