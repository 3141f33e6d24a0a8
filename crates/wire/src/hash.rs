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

    /// The bucket, out of a number that grows by one at a time.
    #[inline]
    pub const fn bucket(self, buckets: Buckets) -> usize {
        let field = (self.0 << PARTITION_BITS) >> (PARTITION_BITS + TAG_BITS);
        // The high bits choose a bucket out of those that there were first, the low bits what
        // became of it.
        let first = ((field as u128 * buckets.first as u128) >> BUCKET_BITS) as u64;
        let mask = (2 << buckets.level) - 1;
        let bucket = first + buckets.first * (field & mask);
        // One bit less where that bucket is not there yet: half of the time, so not by a branch.
        let absent = (bucket >= buckets.count) as u32;
        (first + buckets.first * (field & (mask >> absent))) as usize
    }

    /// The tag, never zero (MICA 4.3.2: zero means an empty entry, so zero becomes one).
    #[inline]
    pub const fn tag(self) -> u64 {
        let tag = self.0 & ((1 << TAG_BITS) - 1);
        if tag == 0 { 1 } else { tag }
    }
}

/// How many buckets an index has: linear hashing (Litwin, VLDB 1980) from any first number on.
/// One bucket more moves keys from one bucket ([`Buckets::split_from`]) to the new one, and no
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// How many there were first.
    first: u64,
    count: u64,
    /// How often the first number has doubled completely.
    level: u32,
}

/// Where the level lies in the packed word.
const LEVEL_SHIFT: u32 = 56;

impl Buckets {
    /// The first buckets, of which there are one or more.
    pub const fn new(first: u64) -> Self {
        Self {
            first,
            count: first,
            level: 0,
        }
    }

    /// `count` buckets, grown out of `first`, which is not more.
    pub const fn of(first: u64, count: u64) -> Self {
        let mut level = 0;
        while first << (level + 1) < count {
            level += 1;
        }
        Self {
            first,
            count,
            level,
        }
    }

    /// What [`Buckets::pack`] packed, with the first number, which it leaves out.
    #[inline]
    pub const fn unpack(first: u64, word: u64) -> Self {
        Self {
            first,
            count: word & ((1 << LEVEL_SHIFT) - 1),
            level: (word >> LEVEL_SHIFT) as u32,
        }
    }

    /// Count and level in one word.
    pub const fn pack(self) -> u64 {
        self.count | (self.level as u64) << LEVEL_SHIFT
    }

    /// How many there are.
    #[inline]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// With one more, whose number is the present count.
    pub const fn grown(self) -> Self {
        let level = self.level_of_next();
        Self {
            count: self.count + 1,
            level,
            ..self
        }
    }

    /// The bucket that is split when the next one is added.
    pub const fn split_from(self) -> u64 {
        self.count - (self.first << self.level_of_next())
    }

    /// The bucket that was split when the last one was added, if one was.
    pub const fn last_split_from(self) -> Option<u64> {
        if self.count == self.first {
            return None;
        }
        Some(Self::of(self.first, self.count - 1).split_from())
    }

    const fn level_of_next(self) -> u32 {
        self.level + (self.count == self.first << (self.level + 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frozen: images, clients and programs in other languages depend on every one of these.
    /// Key, seed, hash; partition of 1,024, bucket of 1,000,003 that were 1,000, tag.
    const GOLDEN: [(&str, u64, u64, usize, usize, u64); 8] = [
        ("", 0, 0x2d06_8005_38d3_94c2, 180, 211_101, 0x94c2),
        ("a", 0, 0xe6c6_32b6_1e96_4e1f, 923, 662_096, 0x4e1f),
        ("key", 0, 0xbbea_0d63_a051_65e3, 751, 81_657, 0x65e3),
        ("key", 1, 0x0c37_033b_f421_05f2, 48, 33_859, 0x05f2),
        (
            "12345678",
            0x0123_4567_89ab_cdef,
            0x1779_2f54_ab4a_fa32,
            93,
            842_893,
            0xfa32,
        ),
        (
            "sixteen-byte-key",
            7,
            0x971d_9851_aa25_4331,
            604,
            549_462,
            0x4331,
        ),
        (
            "a key of more than sixteen bytes, but not long",
            7,
            0x2824_cae7_89b1_befc,
            160,
            433_574,
            0xbefc,
        ),
        ("LONG", 7, 0x90df_e13f_c381_a3f4, 579, 897_498, 0xa3f4),
    ];

    fn grown(first: u64, count: u64) -> Buckets {
        (first..count).fold(Buckets::new(first), |buckets, _| buckets.grown())
    }

    /// One of the first buckets by the high bits; then as many low bits as number the copies of
    /// the first buckets that there are, one bit less where that copy is not there yet.
    fn bucket_naive(hash: u64, first: u64, count: u64) -> usize {
        let field = (hash >> 16) % (1 << 38);
        let base = (field as u128 * first as u128 / (1 << 38)) as u64;
        let mut copies = 1;
        while first * copies < count {
            copies *= 2;
        }
        let bucket = base + first * (field % copies);
        (if bucket < count {
            bucket
        } else {
            base + first * (field % (copies / 2))
        }) as usize
    }

    #[test]
    fn golden_vectors_hold() {
        for (key, seed, hash, partition, bucket, tag) in GOLDEN {
            let long = "k".repeat(250);
            let key = if key == "LONG" { &long } else { key };
            let of = KeyHash::of(key.as_bytes(), seed);
            let actual = (
                of.0,
                of.partition(10),
                of.bucket(grown(1000, 1_000_003)),
                of.tag(),
            );
            assert_eq!(actual, (hash, partition, bucket, tag), "{key:?} {seed}");
        }
    }

    proptest! {
        #[test]
        fn parts_stay_in_range_and_follow_their_own_bits(
            hash in any::<u64>(), bits in 0..=PARTITION_BITS, bit in 0u32..64,
            first in 1u64..1000, count in 0u64..100_000,
        ) {
            let (one, other) = (KeyHash(hash), KeyHash(hash ^ 1 << bit));
            prop_assert!(one.partition(bits) < 1 << bits);
            prop_assert!((1..1 << TAG_BITS).contains(&one.tag()));
            let buckets = grown(first, first + count);
            prop_assert_eq!(buckets, Buckets::of(first, first + count));
            prop_assert_eq!(Buckets::unpack(first, buckets.pack()), buckets);
            prop_assert!((one.bucket(buckets) as u64) < buckets.count());
            prop_assert_eq!(one.bucket(buckets), bucket_naive(hash, first, first + count));
            let (before, after) = (one.bucket(buckets) as u64, one.bucket(buckets.grown()) as u64);
            prop_assert_eq!(buckets.grown().last_split_from(), Some(buckets.split_from()));
            prop_assert!(before == after || after == buckets.count() && before == buckets.split_from());
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
