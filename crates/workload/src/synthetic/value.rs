//! The value of an item, which shows whether it belongs to its key and is whole.

use crate::synthetic::random::mix;

/// Difference between a word of a value and the one before.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Values of one length.
///
/// The first word of a value holds its version (any 32 bits, chosen by the writer) and 32 bits that
/// are derived from item and version; further words continue from there. A value of another item, a
/// value with a bit changed, one put together from two versions and one of another length are
/// recognised. Values of fewer than 8 bytes have no version and only as many bits to be checked.
#[derive(Clone, Debug)]
pub struct Values {
    value_bytes: usize,
}

impl Values {
    /// Values of `value_bytes`.
    pub const fn new(value_bytes: usize) -> Self {
        Self { value_bytes }
    }

    /// Length of every value.
    #[inline]
    pub const fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Writes a value into `value`, which has room for just that.
    #[inline]
    pub fn write(&self, item: u64, version: u32, value: &mut [u8]) {
        if value.len() < 8 {
            let word = base(item, 0).to_le_bytes();
            value.copy_from_slice(&word[..value.len()]);
            return;
        }
        let base = base(item, version);
        let (first, rest) = value.split_at_mut(8);
        first.copy_from_slice(&first_word(base, version).to_le_bytes());
        let mut word = base;
        let (words, tail) = rest.as_chunks_mut::<8>();
        for place in words {
            word = word.wrapping_add(STEP);
            *place = word.to_le_bytes();
        }
        word = word.wrapping_add(STEP);
        tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
    }

    #[inline]
    pub fn push(&self, item: u64, version: u32, to: &mut Vec<u8>) {
        let start = to.len();
        to.resize(start + self.value_bytes, 0);
        self.write(item, version, &mut to[start..]);
    }

    /// Returns whether `value` is one of this item's.
    #[inline]
    pub fn verify(&self, item: u64, value: &[u8]) -> bool {
        if value.len() != self.value_bytes {
            return false;
        }
        let Some((first, rest)) = value.split_first_chunk::<8>() else {
            return value == &base(item, 0).to_le_bytes()[..value.len()];
        };
        let first = u64::from_le_bytes(*first);
        let version = first as u32;
        let base = base(item, version);
        // No early end: whole vectors of words are compared at once.
        let mut difference = first ^ first_word(base, version);
        let mut word = base;
        let (words, tail) = rest.as_chunks::<8>();
        for found in words {
            word = word.wrapping_add(STEP);
            difference |= word ^ u64::from_le_bytes(*found);
        }
        word = word.wrapping_add(STEP);
        difference == 0 && tail == &word.to_le_bytes()[..tail.len()]
    }
}

#[inline]
const fn base(item: u64, version: u32) -> u64 {
    mix(item.wrapping_add(1).wrapping_mul(0xa24b_aed4_963e_e407) ^ ((version as u64) << 32))
}

#[inline]
const fn first_word(base: u64, version: u32) -> u64 {
    base & !0xffff_ffff | version as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [usize; 10] = [0, 1, 4, 7, 8, 9, 16, 100, 1024, 1152];

    fn value(values: &Values, item: u64, version: u32) -> Vec<u8> {
        let mut value = Vec::new();
        values.push(item, version, &mut value);
        value
    }

    #[test]
    fn a_value_belongs_to_its_item() {
        for length in LENGTHS {
            let values = Values::new(length);
            for item in [0, 1, 2, 1 << 20, u64::from(u32::MAX)] {
                for version in [0, 1, u32::MAX] {
                    let value = value(&values, item, version);
                    assert_eq!(value.len(), length);
                    assert!(values.verify(item, &value));
                    // Fewer bytes may be equal by chance.
                    assert!(length < 4 || !values.verify(item + 3, &value));
                }
            }
        }
    }

    #[test]
    fn every_changed_bit_shows() {
        for length in LENGTHS.into_iter().filter(|length| *length > 0) {
            let values = Values::new(length);
            let good = value(&values, 77, 5);
            for bit in 0..length * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(!values.verify(77, &bad), "{length}: bit {bit}");
            }
        }
    }

    #[test]
    fn another_length_shows() {
        let values = Values::new(64);
        let good = value(&values, 1, 1);
        assert!(!values.verify(1, &good[..63]));
        assert!(!values.verify(1, &[good.as_slice(), b"x"].concat()));
        assert!(!values.verify(1, b""));
    }

    #[test]
    fn a_mixture_of_versions_shows() {
        let values = Values::new(1024);
        let (one, other) = (value(&values, 9, 1), value(&values, 9, 2));
        for cut in (8..1024).step_by(8) {
            let mixture = [&one[..cut], &other[cut..]].concat();
            assert!(!values.verify(9, &mixture), "{cut}");
        }
    }

    #[test]
    fn values_of_other_items_show() {
        for length in [4, 8, 64] {
            let values = Values::new(length);
            let wrong = (1..10_000).filter(|item| values.verify(0, &value(&values, *item, 3))).count();
            assert_eq!(wrong, 0, "{length}");
        }
    }
}
