//! State of every key, within bounds: of too many keys those with the greater hashes are
//! forgotten, and the others stand for them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyState {
    pub requests: u32,
    pub group: u16,
    /// Last change of the key.
    pub state: State,
    pub payload_bytes: u32,
    /// Time of the last request, where there was one.
    pub last_ms: u64,
    /// The second at which it expires, as the simulated cache counts them; 0 for never.
    pub expires_s: u32,
    /// Seconds that it was given last until it expires; 0 for never.
    pub expiry_s: u32,
    pub reads: Reads,
}

/// Reads of a key: in the minute, the hour and the day of its last request, of which two stand for more, and
/// whether it was ever read, and ever twice in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads(u8);

impl Reads {
    const EVER: u8 = 1 << 6;
    const TWICE_IN_AN_HOUR: u8 = 1 << 7;
    /// Place of the hour among the windows.
    const HOUR: usize = 1;

    /// Reads in the window of this number.
    pub const fn within(self, window: usize) -> u8 {
        self.0 >> (2 * window) & 3
    }

    /// The same key after a request, with so many reads in each of the windows.
    pub fn after(self, within: [u8; 3]) -> Self {
        let mut bits = self.0 & (Self::EVER | Self::TWICE_IN_AN_HOUR);
        for (window, reads) in within.into_iter().enumerate() {
            bits |= reads.min(2) << (2 * window);
        }
        bits |= if within[Self::HOUR] > 0 { Self::EVER } else { 0 };
        bits |= if within[Self::HOUR] > 1 { Self::TWICE_IN_AN_HOUR } else { 0 };
        Self(bits)
    }

    /// Returns whether the key was ever read.
    pub const fn is_read(self) -> bool {
        self.0 & Self::EVER > 0
    }

    /// Returns whether the key was ever read twice in an hour.
    pub const fn is_read_twice_in_an_hour(self) -> bool {
        self.0 & Self::TWICE_IN_AN_HOUR > 0
    }
}

impl KeyState {
    /// Returns whether it has not expired at this second.
    pub const fn lives(&self, now_s: u32) -> bool {
        self.expires_s == 0 || self.expires_s > now_s
    }
}

/// Last change of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has stored it or asked for it.
    #[default]
    New,
    /// Stored, or asked for and so filled.
    Stored,
    Deleted,
}

/// Hashes are spread evenly already.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

pub(super) struct Keys {
    states: HashMap<u64, KeyState, BuildHasherDefault<Identity>>,
    /// Keys whose hash is above are left out.
    hash_max: u64,
    keys_max: usize,
}

impl Keys {
    /// A fraction of the keys, and at most so many.
    pub fn new(fraction: f64, keys_max: usize) -> Self {
        Self { states: HashMap::default(), hash_max: (fraction * 2f64.powi(64)) as u64, keys_max }
    }

    /// Number of keys that each key stands for.
    pub fn weight(&self) -> f64 {
        2f64.powi(64) / (self.hash_max as f64 + 1.0)
    }

    /// Returns the state of a key; none if it is not in the sample.
    pub fn of(&mut self, hash: u64) -> Option<&mut KeyState> {
        if hash > self.hash_max {
            return None;
        }
        if self.states.len() >= self.keys_max && !self.states.contains_key(&hash) {
            self.hash_max /= 2;
            let hash_max = self.hash_max;
            self.states.retain(|hash, _| *hash <= hash_max);
            if hash > hash_max {
                return None;
            }
        }
        Some(self.states.entry(hash).or_default())
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn states(&self) -> impl Iterator<Item = &KeyState> {
        self.states.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Key;

    #[test]
    fn few_keys_stand_for_many() {
        let mut keys = Keys::new(1.0, 1000);
        for number in 0..100_000 {
            if let Some(state) = keys.of(Key::Number(number).hash()) {
                state.requests += 1;
            }
            assert!(keys.len() <= 1000);
        }
        let estimate = keys.len() as f64 * keys.weight();
        assert!((estimate / 100_000.0 - 1.0).abs() < 0.15, "{estimate}");
        assert!(keys.states().all(|state| state.requests == 1));
    }

    #[test]
    fn all_keys_stand_for_themselves() {
        let mut keys = Keys::new(1.0, 1000);
        assert!((0..1000).all(|number| keys.of(Key::Number(number).hash()).is_some()));
        assert!((keys.weight() - 1.0).abs() < 1e-12 && keys.len() == 1000);
        let half = Keys::new(0.5, 10);
        assert!((half.weight() - 2.0).abs() < 1e-9);
    }
}
