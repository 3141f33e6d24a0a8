//! A request of a trace.

use xxhash_rust::xxh3::xxh3_64;

pub use crate::recording::{Operation, Outcome};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    Text(&'a [u8]),
    /// A number that stands for it: the trace does not tell keys, or only their hashes.
    Number(u64),
}

impl Key<'_> {
    /// A number that is the same for the same key of the same trace, and hardly ever for another
    /// one. It is spread evenly over all 64 bits, whatever the numbers of the trace are.
    pub fn hash(self) -> u64 {
        match self {
            Self::Text(bytes) => xxh3_64(bytes),
            Self::Number(number) => mix(number),
        }
    }
}

/// The finaliser of MurmurHash3: a permutation of 64-bit numbers whose every bit depends on all.
const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ number >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ number >> 33
}

/// A request, whatever format it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// Milliseconds since the beginning of the trace, or since 1970 where
    /// [`crate::trace::Reader::is_dated`]. Never less than that of the request before.
    pub time_ms: u64,
    pub key: Key<'a>,
    pub operation: Operation,
    /// Length of the key; 0 where the trace gives only the length of both together.
    pub key_bytes: u32,
    /// Length of the value (that of both where `key_bytes` is 0): of the one that is stored, that was
    /// found, or that the item has elsewhere in the trace; nothing if the trace does not say.
    pub value_bytes: Option<u32>,
    /// Seconds from now until a stored item expires: 0 is never; nothing if the trace does not say.
    pub expiry_s: Option<u32>,
    /// Answer of the server.
    pub outcome: Outcome,
}

impl Request<'_> {
    /// Bytes of key and value, without any overhead; nothing if the trace does not say.
    pub fn payload_bytes(&self) -> Option<u64> {
        self.value_bytes.map(|bytes| u64::from(self.key_bytes) + u64::from(bytes))
    }

    /// Returns whether a read hit; nothing if the trace does not say, or it reads nothing.
    pub fn told_hit(&self) -> Option<bool> {
        match self.outcome {
            Outcome::Hit if self.operation.reads() => Some(true),
            Outcome::Miss if self.operation.reads() => Some(false),
            _ => None,
        }
    }

    /// Seconds that its item lives from now on; nothing if the request does not change that.
    pub fn lifetime_s(&self) -> Option<u32> {
        match self.operation {
            Operation::Append | Operation::Prepend => None,
            _ => self.expiry_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread() {
        let half = (0..10_000).filter(|number| Key::Number(*number).hash() >> 63 == 0).count();
        assert!((4_700..5_300).contains(&half), "{half}");
        assert_ne!(Key::Number(1).hash(), Key::Number(2).hash());
        assert_eq!(Key::Text(b"a").hash(), Key::Text(b"a").hash());
    }
}
