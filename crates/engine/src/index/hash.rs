//! The hash by which an index knows a key: the client's hash, mixed with a secret of the server.
//!
//! Clients know the hash of every key, and can make keys of any hash. Therefore bucket and tag
//! come from a keyed function of that hash: SipHash-1-3 (Aumasson, Bernstein, INDOCRYPT 2012; one
//! round for the word, three at the end) with a secret of 128 bits. Every input is one word, so
//! the block that says how long the input is can be left out. Xor with a secret, or one
//! multiplication by it, would not do: keys whose hashes differ in few bits would collide under
//! most secrets. Additions, rotations and xors are also what a program in the kernel has.

use std::fmt;
use std::io;

use micanite_wire::hash::KeyHash;

use crate::limits::SPLIT_BITS;

/// Bits of the hash that choose the bucket.
pub const BUCKET_BITS: u32 = 38;
/// Bits of the hash kept in the index entry.
pub const TAG_BITS: u32 = 16;

// Both fields are in the hash, and do not overlap.
const _: () = assert!(BUCKET_BITS + TAG_BITS <= u64::BITS);

/// Secret of the server. Its images contain it, and nothing else shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u64; 2]);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// A constant for simulations and tests, to which no untrusted client sends keys.
    pub const KNOWN: Self = Self([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

    /// Makes a new secret from the random numbers of the system.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        Ok(Self([getrandom::u64()?, getrandom::u64()?]))
    }

    /// Returns the secret of an image.
    pub(crate) const fn of_words(words: [u64; 2]) -> Self {
        Self(words)
    }

    /// Returns the words, for an image and for a program in the kernel that reads it. Use them
    /// nowhere else.
    pub const fn words(&self) -> [u64; 2] {
        self.0
    }
}

/// Keys that are hashed at once.
pub(crate) const LANES: usize = 8;

/// Hash of a key within its partition. It cannot be computed without the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IndexHash(u64);

impl fmt::Debug for IndexHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("IndexHash")
    }
}

impl IndexHash {
    /// Computes the index hash from the client's hash.
    #[inline(always)]
    pub const fn of(hash: KeyHash, secret: Secret) -> Self {
        let [low, high] = secret.0;
        let mut state = [
            low ^ 0x736f_6d65_7073_6575,
            high ^ 0x646f_7261_6e64_6f6d,
            low ^ 0x6c79_6765_6e65_7261,
            high ^ 0x7465_6462_7974_6573 ^ hash.0,
        ];
        state = sip_round(state);
        state[0] ^= hash.0;
        state[2] ^= 0xff;
        state = sip_round(sip_round(sip_round(state)));
        Self(state[0] ^ state[1] ^ state[2] ^ state[3])
    }

    /// Computes the index hashes of several client's hashes in their place. The compiler makes it one
    /// computation for all where the processor has instructions for that.
    #[inline(always)]
    pub(crate) fn hash_lanes(words: &mut [u64; LANES], secret: Secret) {
        for word in words {
            *word = Self::of(KeyHash(*word), secret).0;
        }
    }

    /// Returns the hash as a word, for storage within the process.
    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    /// Restores the hash from [`IndexHash::word`].
    pub(crate) const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the bucket, for a number of buckets that grows by one at a time.
    #[inline(always)]
    pub const fn bucket(self, buckets: Buckets) -> usize {
        const LOW: u64 = u32::MAX as u64;
        let field = self.0 << (64 - BUCKET_BITS - TAG_BITS) >> (64 - BUCKET_BITS);
        // The high bits choose one of the first buckets, the low bits one of those split from it. Numbers of
        // buckets have 32 bits: products of such numbers are what vectors of words can compute.
        let (first, high, low) = (buckets.first & LOW, field >> 32, field & LOW);
        let chosen = (high * first + ((low * first) >> 32)) >> (BUCKET_BITS - 32);
        let mask = (2 << buckets.level) - 1;
        let bucket = chosen + first * (field & mask & LOW);
        // Without the highest of these bits, which is set, if that bucket does not exist yet: half of the
        // time, so without a branch.
        let half = first << buckets.level;
        (if bucket >= buckets.count { bucket - half } else { bucket }) as usize
    }

    /// Returns the lowest bits that choose the bucket: each tells in which half of a bucket the key belongs
    /// when the index doubles.
    #[inline]
    pub const fn split_bits(self) -> u64 {
        self.0 >> TAG_BITS & ((1 << SPLIT_BITS) - 1)
    }

    /// Returns the tag, never zero (MICA 4.3.2: zero means an empty entry, so zero becomes one).
    #[inline]
    pub const fn tag(self) -> u64 {
        let tag = self.0 & ((1 << TAG_BITS) - 1);
        if tag == 0 { 1 } else { tag }
    }
}

#[inline(always)]
const fn sip_round([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
    let (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
    let (a, c) = (a.rotate_left(32).wrapping_add(d), c.wrapping_add(b));
    let (b, d) = (b.rotate_left(17) ^ c, d.rotate_left(21) ^ a);
    [a, b, c.rotate_left(32), d]
}

/// Number of buckets of an index: linear hashing (Litwin, VLDB 1980) from any first number on. One
/// more bucket moves keys from one bucket ([`Buckets::split_from`]) to the new one, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    /// Initial number of buckets.
    first: u64,
    count: u64,
    /// Number of complete doublings of the initial number.
    level: u32,
}

/// Position of the level in the packed word.
const LEVEL_SHIFT: u32 = 56;

impl Buckets {
    /// Makes the initial buckets, of which there are one or more.
    pub const fn new(first: u64) -> Self {
        Self { first, count: first, level: 0 }
    }

    /// Makes `count` buckets, grown from `first`, which is not more.
    pub const fn of(first: u64, count: u64) -> Self {
        let mut level = 0;
        while first << (level + 1) < count {
            level += 1;
        }
        Self { first, count, level }
    }

    /// Unpacks the word of [`Buckets::pack`], which leaves out the first number.
    #[inline]
    pub const fn unpack(first: u64, word: u64) -> Self {
        Self { first, count: word & ((1 << LEVEL_SHIFT) - 1), level: (word >> LEVEL_SHIFT) as u32 }
    }

    /// Packs count and level into one word.
    pub const fn pack(self) -> u64 {
        self.count | (self.level as u64) << LEVEL_SHIFT
    }

    /// Returns the number of buckets.
    #[inline]
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Returns the number of complete doublings.
    #[inline]
    pub const fn level(self) -> u32 {
        self.level
    }

    /// Returns one bucket more, whose number is the present count.
    pub const fn grown(self) -> Self {
        let level = self.level_of_next();
        Self { count: self.count + 1, level, ..self }
    }

    /// Returns the bucket that is split when the next one is added.
    pub const fn split_from(self) -> u64 {
        self.count - (self.first << self.level_of_next())
    }

    /// Returns the bucket that was split when the last one was added, if one was.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Frozen values: images and the program in the kernel depend on each of them. The client's
    /// hash, the index's; bucket of 1,000,003 that were 1,000, tag. All with [`Secret::KNOWN`], the
    /// key of the paper's own vector. A program that reproduces that vector computed them.
    const GOLDEN: [(u64, u64, usize, u64); 4] = [
        (0, 0xabac_0158_050f_c4dc, 271_687, 0xc4dc),
        (1, 0x6d47_f8f6_7a13_2c23, 531_124, 0x2c23),
        (0x2d06_8005_38d3_94c2, 0x1448_7022_59c4_3297, 452_131, 0x3297),
        (u64::MAX, 0x3f43_7d1f_5d17_07cc, 279_054, 0x07cc),
    ];

    fn grown(first: u64, count: u64) -> Buckets {
        (first..count).fold(Buckets::new(first), |buckets, _| buckets.grown())
    }

    /// Chooses one of the first buckets by the high bits; then takes as many low bits as number the
    /// existing copies of the first buckets, one bit less if that copy does not exist yet.
    fn bucket_naive(hash: u64, first: u64, count: u64) -> usize {
        let field = (hash >> 16) % (1 << 38);
        let base = (field as u128 * first as u128 / (1 << 38)) as u64;
        let mut copies = 1;
        while first * copies < count {
            copies *= 2;
        }
        let bucket = base + first * (field % copies);
        (if bucket < count { bucket } else { base + first * (field % (copies / 2)) }) as usize
    }

    #[test]
    fn golden_vectors_of_the_index_hash_hold() {
        for (key_hash, hash, bucket, tag) in GOLDEN {
            let of = IndexHash::of(KeyHash(key_hash), Secret::KNOWN);
            let actual = (of.0, of.bucket(grown(1000, 1_000_003)), of.tag());
            assert_eq!(actual, (hash, bucket, tag), "{key_hash:#x}: {:#x}", of.0);
        }
    }

    #[test]
    fn one_bit_of_the_clients_hash_or_of_the_secret_changes_half_of_the_index_hash() {
        let all = |low, hash| IndexHash::of(KeyHash(hash), Secret([low, 2])).0;
        let (mut of_hash, mut of_secret) = (0, 0);
        for number in 0..1000u64 {
            let bit = 1 << (number % 64);
            of_hash += (all(1, number) ^ all(1, number ^ bit)).count_ones();
            of_secret += (all(1, number) ^ all(1 ^ bit, number)).count_ones();
        }
        for changed in [of_hash, of_secret] {
            assert!((31_000..33_000).contains(&changed), "{changed} of 64,000");
        }
    }

    #[test]
    fn debug_output_hides_secrets_and_hashes() {
        assert_eq!(format!("{:?}", Secret::random().unwrap()), "Secret");
        let hash = IndexHash::of(KeyHash(5), Secret::KNOWN);
        assert_eq!(format!("{hash:?}"), "IndexHash");
    }

    #[test]
    fn two_secrets_differ() {
        assert_ne!(Secret::random().unwrap(), Secret::random().unwrap());
    }

    proptest! {
        #[test]
        fn parts_stay_in_range_and_follow_their_own_bits(
            hash in any::<u64>(), bit in 0u32..64, first in 1u64..1000, count in 0u64..100_000,
        ) {
            let (one, other) = (IndexHash(hash), IndexHash(hash ^ 1 << bit));
            prop_assert!((1..1 << TAG_BITS).contains(&one.tag()));
            let buckets = grown(first, first + count);
            prop_assert_eq!(buckets, Buckets::of(first, first + count));
            prop_assert_eq!(Buckets::unpack(first, buckets.pack()), buckets);
            prop_assert!((one.bucket(buckets) as u64) < buckets.count());
            prop_assert_eq!(one.bucket(buckets), bucket_naive(hash, first, first + count));
            let (before, after) = (one.bucket(buckets) as u64, one.bucket(buckets.grown()) as u64);
            prop_assert_eq!(buckets.grown().last_split_from(), Some(buckets.split_from()));
            prop_assert!(before == after || after == buckets.count() && before == buckets.split_from());
            if !(16..54).contains(&bit) {
                prop_assert_eq!(one.bucket(buckets), other.bucket(buckets));
            }
            if bit >= 16 {
                prop_assert_eq!(one.tag(), other.tag());
            }
        }
    }

    #[test]
    fn several_keys_have_the_hashes_that_they_have_alone() {
        let mut words = [0, 1, 2, u64::MAX, 1 << 63, 77, 0x2d06_8005_38d3_94c2, 9];
        let alone = words.map(|word| IndexHash::of(KeyHash(word), Secret::KNOWN).word());
        IndexHash::hash_lanes(&mut words, Secret::KNOWN);
        assert_eq!(words, alone);
    }

    #[test]
    fn a_tag_of_zero_becomes_one() {
        assert_eq!(IndexHash(0x1234_0000).tag(), 1);
    }
}
