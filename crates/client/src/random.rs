//! Random numbers for nonces and jitter, which others cannot guess easily.

use std::hash::{BuildHasher, RandomState};

/// Returns a random number from the system. The keys of [`RandomState`] alone do not do: children of a fork
/// have copies of them, and would draw the same client number.
pub(crate) fn seed() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().hash_one(std::process::id()))
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns the span, plus up to a quarter. A span without an end stays one.
    pub(crate) fn jittered(&mut self, span: u64) -> u64 {
        span.saturating_add(self.next() % (span / 4 + 1))
    }
}
