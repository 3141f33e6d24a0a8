//! 64-bit key hash (XXH3-64, seeded). Its first bits choose the partition.
//!
//! Clients compute it too, so the seed is neither secret nor a defence against chosen keys: an
//! eight-byte key can be computed from its hash. Within a partition the server uses another hash,
//! which only the server can compute.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of the hash that choose the partition: at most 1,024 partitions.
pub const PARTITION_BITS: u32 = 10;

/// Hash of a key under the seed of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Computes XXH3-64 of `key` with `seed`.
    #[inline]
    pub fn of(key: &[u8], seed: u64) -> Self {
        Self(xxh3_64_with_seed(key, seed))
    }

    /// Returns the partition, out of `1 << partition_bits` (`partition_bits <= PARTITION_BITS`).
    #[inline]
    pub const fn partition(self, partition_bits: u32) -> usize {
        // Two shifts, because a shift by 64 (one partition) is undefined in hardware.
        ((self.0 >> 1) >> (63 - partition_bits)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frozen: images, clients and programs in other languages depend on each vector.
    /// Fields: key, seed, hash, partition of 1,024.
    const GOLDEN: [(&str, u64, u64, usize); 8] = [
        ("", 0, 0x2d06_8005_38d3_94c2, 180),
        ("a", 0, 0xe6c6_32b6_1e96_4e1f, 923),
        ("key", 0, 0xbbea_0d63_a051_65e3, 751),
        ("key", 1, 0x0c37_033b_f421_05f2, 48),
        ("12345678", 0x0123_4567_89ab_cdef, 0x1779_2f54_ab4a_fa32, 93),
        ("sixteen-byte-key", 7, 0x971d_9851_aa25_4331, 604),
        ("a key of more than sixteen bytes, but not long", 7, 0x2824_cae7_89b1_befc, 160),
        ("LONG", 7, 0x90df_e13f_c381_a3f4, 579),
    ];

    #[test]
    fn golden_vectors_hold() {
        for (key, seed, hash, partition) in GOLDEN {
            let long = "k".repeat(250);
            let key = if key == "LONG" { &long } else { key };
            let of = KeyHash::of(key.as_bytes(), seed);
            assert_eq!((of.0, of.partition(10)), (hash, partition), "{key:?} {seed}");
        }
    }

    proptest! {
        #[test]
        fn only_the_first_bits_of_the_hash_choose_the_partition(
            hash in any::<u64>(), bits in 0..=PARTITION_BITS, bit in 0u32..64,
        ) {
            let (one, other) = (KeyHash(hash), KeyHash(hash ^ 1 << bit));
            prop_assert!(one.partition(bits) < 1 << bits);
            let same = one.partition(bits) == other.partition(bits);
            prop_assert_eq!(same, bit < 64 - bits);
        }
    }
}
