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

    /// The bucket, out of `buckets` of them: any count, chosen by multiplication.
    #[inline]
    pub const fn bucket(self, buckets: u64) -> usize {
        let field = (self.0 << PARTITION_BITS) >> (64 - BUCKET_BITS) << (64 - BUCKET_BITS);
        ((field as u128 * buckets as u128) >> 64) as usize
    }

    /// The tag, never zero (MICA 4.3.2: zero means an empty entry, so zero becomes one).
    #[inline]
    pub const fn tag(self) -> u64 {
        let tag = self.0 & ((1 << TAG_BITS) - 1);
        if tag == 0 { 1 } else { tag }
    }
}
