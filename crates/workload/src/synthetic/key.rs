//! The key of an item: printable, without spaces, of a fixed length, and far from its neighbours'.

/// The longest key of the memcached protocol.
pub const KEY_BYTES_MAX: usize = 250;

/// Six bits each.
const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// Characters that tell items apart; longer keys repeat them.
const DIGITS_MAX: usize = 10;

#[derive(Clone, Debug)]
pub struct Keys {
    key_bytes: usize,
    digits: usize,
    bits: u32,
}

impl Keys {
    /// Keys of `key_bytes` characters.
    ///
    /// # Panics
    /// When that is 0 or more than [`KEY_BYTES_MAX`].
    pub fn new(key_bytes: usize) -> Self {
        assert!((1..=KEY_BYTES_MAX).contains(&key_bytes), "{key_bytes}");
        let digits = key_bytes.min(DIGITS_MAX);
        Self { key_bytes, digits, bits: 6 * digits as u32 }
    }

    /// Length of every key.
    #[inline]
    pub const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Number of items with different keys.
    pub const fn items_max(&self) -> u64 {
        1 << self.bits
    }

    /// Writes an item's key into `key`, which has room for just that.
    #[inline]
    pub fn write(&self, item: u64, key: &mut [u8]) {
        let (digits, rest) = key.split_at_mut(self.digits);
        self.write_digits(item, digits);
        for part in rest.chunks_mut(self.digits) {
            part.copy_from_slice(&digits[..part.len()]);
        }
    }

    /// Writes the characters that are repeated.
    #[inline]
    fn write_digits(&self, item: u64, digits: &mut [u8]) {
        let mut code = self.scatter(item);
        for digit in digits {
            *digit = ALPHABET[code as usize & 63];
            code >>= 6;
        }
    }

    /// Appends an item's key.
    #[inline]
    pub fn push(&self, item: u64, to: &mut Vec<u8>) {
        let start = to.len();
        to.resize(start + self.key_bytes, 0);
        self.write(item, &mut to[start..]);
    }

    /// Returns whether `key` is this item's.
    #[inline]
    pub fn matches(&self, item: u64, key: &[u8]) -> bool {
        if key.len() != self.key_bytes {
            return false;
        }
        let mut expected = [0; DIGITS_MAX];
        let expected = &mut expected[..self.digits];
        self.write_digits(item, expected);
        // The rest repeats them: it equals what lies that many characters before it.
        key.starts_with(expected) && key[self.digits..] == key[..key.len() - self.digits]
    }

    /// Different numbers for different items, without a pattern that a hash could like.
    #[inline]
    const fn scatter(&self, item: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        let mut x = item & mask;
        // Odd factors and shifts to the right are reversible within any number of bits.
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        x ^= x >> (self.bits / 2);
        x = x.wrapping_mul(0xd1b5_4a32_d192_ed03) & mask;
        x ^ x >> (self.bits / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(keys: &Keys, item: u64) -> Vec<u8> {
        let mut key = Vec::new();
        keys.push(item, &mut key);
        key
    }

    #[test]
    fn all_keys_of_two_characters_differ() {
        let keys = Keys::new(2);
        let all: HashSet<_> = (0..keys.items_max()).map(|item| key(&keys, item)).collect();
        assert_eq!(all.len(), 4096);
    }

    #[test]
    fn keys_are_printable_different_and_of_their_length() {
        for key_bytes in [4, 8, 16, 33, 128, 250] {
            let keys = Keys::new(key_bytes);
            let mut seen = HashSet::new();
            for item in 0..20_000 {
                let key = key(&keys, item);
                assert_eq!(key.len(), key_bytes);
                assert!(key.iter().all(u8::is_ascii_graphic));
                assert!(keys.matches(item, &key));
                assert!(!keys.matches(item + 1, &key));
                let mut other = key.clone();
                other[item as usize % key_bytes] ^= 1;
                assert!(!keys.matches(item, &other));
                assert!(seen.insert(key));
            }
        }
    }

    #[test]
    fn a_key_of_another_length_does_not_match() {
        let keys = Keys::new(16);
        let key = key(&keys, 7);
        assert!(!keys.matches(7, &key[..15]));
        assert!(!keys.matches(7, b""));
        assert!(!keys.matches(7, &[key.as_slice(), b"x"].concat()));
    }
}
