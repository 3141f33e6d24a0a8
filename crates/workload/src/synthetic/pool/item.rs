//! The items of a pool: number, key, value.

use super::Pool;
use crate::{Keys, Values};

/// The generalised golden sections in two dimensions, as fractions of 2^64: neighbouring numbers
/// lie far apart, and any run of them covers keys and values of all lengths evenly.
const KEY_STEP: u64 = 0xc13f_a9a9_02a6_328f;
const VALUE_STEP: u64 = 0x91e1_0da5_c79e_7b1d;

/// An item of a pool. Its key, and the lengths of key and value, follow from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolItem {
    pub pool: Pool,
    /// A number of its own among those of all pools; below 2^59.
    pub number: u64,
}

impl PoolItem {
    #[inline]
    pub fn key_bytes(self) -> usize {
        let quantile = self.number.wrapping_add(1).wrapping_mul(KEY_STEP) >> 32;
        self.pool.parameters().key_bytes.at(quantile as u32)
    }

    /// Length of the value, also after an update.
    #[inline]
    pub fn value_bytes(self) -> usize {
        let quantile = self.number.wrapping_add(1).wrapping_mul(VALUE_STEP) >> 32;
        self.pool.parameters().value_bytes.at(quantile as u32)
    }

    #[inline]
    pub fn push_key(self, to: &mut Vec<u8>) {
        Keys::new(self.key_bytes()).push(self.number, to);
    }

    /// Returns whether `key` is this item's.
    #[inline]
    pub fn has_key(self, key: &[u8]) -> bool {
        Keys::new(self.key_bytes()).matches(self.number, key)
    }

    /// Appends a value; the version is any number, but see [`Values`].
    #[inline]
    pub fn push_value(self, version: u32, to: &mut Vec<u8>) {
        Values::new(self.value_bytes()).push(self.number, version, to);
    }

    /// Returns whether `value` is one of this item's, of any version.
    #[inline]
    pub fn verify(self, value: &[u8]) -> bool {
        Values::new(self.value_bytes()).verify(self.number, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_key_and_a_value_belong_to_their_item() {
        for pool in Pool::ALL {
            let mut keys = HashSet::new();
            for number in (0..3000).chain([1 << 56, (3 << 56) + 5, (1 << 59) - 2]) {
                let item = PoolItem { pool, number };
                let (mut key, mut value) = (Vec::new(), Vec::new());
                item.push_key(&mut key);
                item.push_value(7, &mut value);
                assert_eq!(key.len(), item.key_bytes());
                assert_eq!(value.len(), item.value_bytes());
                assert!(item.has_key(&key) && item.verify(&value));
                let next = PoolItem { pool, number: number + 1 };
                assert!(!next.has_key(&key));
                assert!(keys.insert(key), "{pool}: {number}");
            }
        }
    }
}
