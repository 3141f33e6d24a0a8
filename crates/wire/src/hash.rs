//! The 64-bit key hash (XXH3-64, seeded) and its split into partition, bucket and tag.
//!
//! MICA 4.3.2: the parts of the key hash used for the partition, the bucket and the tag do not
//! overlap. From the most significant bit: partition, bucket, tag.
//!
//! The seed is no defence against chosen keys (a directory publishes it); a full bucket costs
//! only the items that fell into it.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of the hash that choose the partition: at most 1,024 partitions.
pub const PARTITION_BITS: u32 = 10;
/// Bits of the hash that choose the bucket within its partition.
pub const BUCKET_BITS: u32 = 38;
/// Bits of the hash kept in the index entry.
pub const TAG_BITS: u32 = 16;

// The three parts tile the hash: nothing overlaps, nothing is left out.
const _: () = assert!(PARTITION_BITS + BUCKET_BITS + TAG_BITS == u64::BITS);

/// The hash of a key under the seed of its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// XXH3-64 of `key` with `seed`.
    #[inline]
    pub fn of(key: &[u8], seed: u64) -> Self {
        Self(xxh3_64_with_seed(key, seed))
    }

    /// The partition, out of `1 << partition_bits` of them (`partition_bits <= PARTITION_BITS`).
    #[inline]
    pub const fn partition(self, partition_bits: u32) -> usize {
        // Two shifts, because a shift by 64 (one partition) is undefined in hardware.
        ((self.0 >> 1) >> (63 - partition_bits)) as usize
    }

    /// The bucket, out of `buckets` of them (two or more): linear hashing, so that an index can
    /// grow by one bucket at a time. Going from `n` to `n + 1` buckets moves keys from bucket
    /// [`KeyHash::split_from`]`(n)` to bucket `n`, and no others.
    #[inline]
    pub const fn bucket(self, buckets: u64) -> usize {
        let field = (self.0 << PARTITION_BITS) >> (PARTITION_BITS + TAG_BITS);
        let mask = u64::MAX >> (buckets - 1).leading_zeros();
        let bucket = field & mask;
        (if bucket < buckets {
            bucket
        } else {
            bucket & (mask >> 1)
        }) as usize
    }

    /// The bucket that is split when the bucket `number` is added.
    #[inline]
    pub const fn split_from(number: u64) -> u64 {
        number & (u64::MAX >> (number.leading_zeros() + 1))
    }

    /// The tag, never zero (MICA 4.3.2: zero means an empty entry, so zero becomes one).
    #[inline]
    pub const fn tag(self) -> u64 {
        let tag = self.0 & ((1 << TAG_BITS) - 1);
        if tag == 0 { 1 } else { tag }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frozen: images, clients and programs in other languages depend on every one of these.
    /// Key, seed, hash; partition of 1,024, bucket of 1,000,003, tag.
    const GOLDEN: [(&str, u64, u64, usize, usize, u64); 8] = [
        ("", 0, 0x2d06_8005_38d3_94c2, 180, 342_227, 0x94c2),
        ("a", 0, 0xe6c6_32b6_1e96_4e1f, 923, 401_046, 0x4e1f),
        ("key", 0, 0xbbea_0d63_a051_65e3, 751, 237_649, 0x65e3),
        ("key", 1, 0x0c37_033b_f421_05f2, 48, 783_393, 0x05f2),
        (
            "12345678",
            0x0123_4567_89ab_cdef,
            0x1779_2f54_ab4a_fa32,
            93,
            305_994,
            0xfa32,
        ),
        (
            "sixteen-byte-key",
            7,
            0x971d_9851_aa25_4331,
            604,
            109_093,
            0x4331,
        ),
        (
            "a key of more than sixteen bytes, but not long",
            7,
            0x2824_cae7_89b1_befc,
            160,
            494_001,
            0xbefc,
        ),
        ("LONG", 7, 0x90df_e13f_c381_a3f4, 579, 508_801, 0xa3f4),
    ];

    /// Linear hashing in words: as many bits as number the next power of two of buckets; one bit
    /// less where that bucket is not there yet.
    fn bucket_naive(hash: u64, buckets: u64) -> usize {
        let field = (hash >> 16) % (1 << 38);
        let level = buckets.next_power_of_two();
        let bucket = field % level;
        (if bucket < buckets {
            bucket
        } else {
            field % (level / 2)
        }) as usize
    }

    #[test]
    fn golden_vectors_hold() {
        for (key, seed, hash, partition, bucket, tag) in GOLDEN {
            let long = "k".repeat(250);
            let key = if key == "LONG" { &long } else { key };
            let of = KeyHash::of(key.as_bytes(), seed);
            let actual = (of.0, of.partition(10), of.bucket(1_000_003), of.tag());
            assert_eq!(actual, (hash, partition, bucket, tag), "{key:?} {seed}");
        }
    }

    proptest! {
        #[test]
        fn parts_stay_in_range_and_follow_their_own_bits(
            hash in any::<u64>(), bits in 0..=PARTITION_BITS, buckets in 2u64..1 << 38, bit in 0u32..64,
        ) {
            let (one, other) = (KeyHash(hash), KeyHash(hash ^ 1 << bit));
            prop_assert!(one.partition(bits) < 1 << bits);
            prop_assert!((one.bucket(buckets) as u64) < buckets);
            prop_assert!((1..1 << TAG_BITS).contains(&one.tag()));
            prop_assert_eq!(one.bucket(buckets), bucket_naive(hash, buckets));
            // One bucket more moves keys from one bucket to the new one, and no others.
            let (before, after) = (one.bucket(buckets) as u64, one.bucket(buckets + 1) as u64);
            prop_assert!(before == after || after == buckets && before == KeyHash::split_from(buckets));
            if bit < 54 {
                prop_assert_eq!(one.partition(bits), other.partition(bits));
            }
            if !(16..54).contains(&bit) {
                prop_assert_eq!(one.bucket(buckets), other.bucket(buckets));
            }
            if bit >= 16 {
                prop_assert_eq!(one.tag(), other.tag());
            }
        }
    }

    #[test]
    fn a_tag_of_zero_becomes_one() {
        assert_eq!(KeyHash(0x1234_0000).tag(), 1);
    }
}
