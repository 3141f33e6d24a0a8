//! `stats sizes`: how many items are how large, counted by walking through all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use micanite_engine::{ItemInfo, Visit, Visitor, Walk, Walked, Worker};

use crate::limits::LONG_REPLY_BUCKETS;
use crate::output::Output;
use crate::shared::Server;

/// Bytes that the items of a line may differ by, as in memcached; items beyond [`EXACT_BYTES`]
/// are counted by 64 steps for each power of two.
const STEP_BYTES: usize = 32;
const EXACT_BYTES: usize = 2048;
const STEPS: usize = EXACT_BYTES / STEP_BYTES;
/// Powers of two from [`EXACT_BYTES`] on, up to more than the largest item.
const POWERS: usize = 20;
/// Room for the longest line.
const LINE_BYTES_MAX: usize = 64;

/// Permission to count. One client at a time has it, because the counts take memory.
#[derive(Debug)]
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A count under way, and then how much of it was told.
#[derive(Debug)]
pub struct Sizes {
    walk: Walk,
    counts: Box<[u64]>,
    counted: bool,
    told: usize,
    _turn: Turn,
}

/// The counts of a bucket are added once they are known to be right.
struct Count<'c> {
    counts: &'c mut [u64],
    lines: Vec<u16>,
}

impl Visitor for Count<'_> {
    fn item(&mut self, item: &ItemInfo<'_>) -> Visit {
        self.lines.push(line_of(item.bytes) as u16);
        Visit::Next
    }

    fn take_back(&mut self) {
        self.lines.clear();
    }

    fn keep(&mut self) {
        for line in self.lines.drain(..) {
            self.counts[usize::from(line)] += 1;
        }
    }
}

impl Sizes {
    /// Begins to count; `None` while another client's count is under way.
    pub fn begin(server: &Server) -> Option<Self> {
        if server.counting_sizes.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Self {
            walk: Walk::default(),
            counts: vec![0; STEPS * (1 + POWERS)].into(),
            counted: false,
            told: 0,
            _turn: Turn(Arc::clone(&server.counting_sizes)),
        })
    }

    /// Counts some more, or tells.
    pub(crate) fn step(&mut self, worker: &Worker, now_s: u32, output: &mut Output<'_>) -> Walked {
        if !self.counted {
            let mut count = Count { counts: &mut self.counts, lines: Vec::new() };
            match worker.walk(&mut self.walk, LONG_REPLY_BUCKETS, now_s, &mut count) {
                Walked::End => self.counted = true,
                other => return other,
            }
        }
        let mut lines = super::Lines::new(output);
        for (line, count) in self.counts.iter().enumerate().skip(self.told) {
            if lines.room() < 2 * LINE_BYTES_MAX {
                return Walked::Full;
            }
            if *count > 0 {
                lines.stat(&bytes_of(line).to_string(), count);
            }
            self.told = line + 1;
        }
        output.push(micanite_wire::memcache::text::reply::END);
        Walked::End
    }
}

/// The line that an item is counted on.
fn line_of(bytes: usize) -> usize {
    if bytes <= EXACT_BYTES {
        return bytes.div_ceil(STEP_BYTES).max(1) - 1;
    }
    // The power of two below, and the step within it.
    let power = (bytes - 1).ilog2();
    let step = (bytes - 1 - (1 << power)) >> (power - STEPS.ilog2());
    let line = STEPS * (1 + (power - EXACT_BYTES.ilog2()) as usize) + step;
    line.min(STEPS * (1 + POWERS) - 1)
}

/// The largest item of a line.
fn bytes_of(line: usize) -> usize {
    if line < STEPS {
        return (line + 1) * STEP_BYTES;
    }
    let power = EXACT_BYTES.ilog2() as usize + line / STEPS - 1;
    (1 << power) + ((line % STEPS + 1) << (power - STEPS.ilog2() as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_item_is_counted_on_the_first_line_that_is_as_large(bytes in 1usize..1 << 30) {
            let line = line_of(bytes);
            prop_assert!(bytes_of(line) >= bytes);
            prop_assert!(line == 0 || bytes_of(line - 1) < bytes);
        }
    }
}
