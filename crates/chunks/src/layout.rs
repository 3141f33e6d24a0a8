//! Bytes of the cache area. All words are little endian.
//!
//! ```text
//! 0       constants: magic, layout version, partition bits, bytes of a page, number of pages
//! 4096    records, 64 bytes each: incarnation, void word, second of a flush that is due (0: none)
//! ...     pages, from the next multiple of 4096
//!
//! chunk, a multiple of 64 bytes
//! 0       version, 0 while it is dead     24      hash of the key
//! 8       incarnation                     32      expiry second 32 (0: never), flags 32
//! 16      void word                       40      key length 32, value length 32
//! 48      checksum                        56      key, then value
//! ```

use micanite_wire::hash::{KeyHash, PARTITION_BITS};
use std::ops::Range;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: u64 = u64::from_le_bytes(*b"MicaArea");
const LAYOUT_VERSION: u64 = 1;
const CONSTANTS: usize = 5;
const WORD_BYTES: usize = 8;
/// Loom makes an object of each word.
const ALIGNMENT_BYTES: usize = if cfg!(loom) { 64 } else { 4096 };

/// Alignment of chunks, and the bytes of the smallest.
pub const UNIT_BYTES: usize = 64;
/// Bytes of the constants, with which the region begins.
pub const CONSTANTS_BYTES: usize = CONSTANTS * WORD_BYTES;
/// Bytes between the records of two partitions.
pub const RECORD_STRIDE_BYTES: usize = 64;
/// Bytes of a record that mean something.
pub const RECORD_BYTES: usize = 3 * WORD_BYTES;
/// Bytes of a chunk before the key.
pub const HEADER_BYTES: usize = 7 * WORD_BYTES;
/// Longest item, with its header, whose checksum includes the value. Readers of longer ones read the header
/// a second time.
pub const CHECKED_BYTES_MAX: usize = if cfg!(loom) { UNIT_BYTES } else { 32 << 10 };
/// Largest page.
pub const PAGE_BYTES_MAX: usize = 1 << 30;

/// Words of a chunk that a checksum covers besides key and value.
pub(crate) const HEADER_WORDS: usize = 6;
pub(crate) const VERSION: usize = 0;

const _: () = assert!(CONSTANTS_BYTES <= ALIGNMENT_BYTES);
const _: () = assert!(RECORD_BYTES <= RECORD_STRIDE_BYTES && RECORD_STRIDE_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(HEADER_BYTES == (HEADER_WORDS + 1) * WORD_BYTES && HEADER_BYTES <= UNIT_BYTES);
const _: () = assert!(ALIGNMENT_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(UNIT_BYTES <= CHECKED_BYTES_MAX && PAGE_BYTES_MAX <= u32::MAX as usize);

/// Returns the word of the `count`-th version or void count. The multiplier is odd, so words do not repeat,
/// and a mixture of the bytes of two words is not a third.
pub(crate) const fn spread(count: u64) -> u64 {
    count.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the count of a word of [`spread`].
pub(crate) const fn unspread(word: u64) -> u64 {
    word.wrapping_mul(0xf1de_83e1_9937_733d)
}

const _: () = assert!(unspread(spread(7)) == 7);

/// Place and version of a chunk, as a client knows them. It is a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub offset: u64,
    /// Bytes of header, key and value.
    pub bytes: u32,
    pub version: u64,
}

impl Entry {
    /// Returns whether a reader must read the header a second time, after the rest.
    pub const fn needs_second_header(&self) -> bool {
        self.bytes as usize > CHECKED_BYTES_MAX
    }
}

/// Sizes of an area: partitions, and the pages that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    partition_bits: u32,
    page_bytes: usize,
    pages: usize,
}

impl Geometry {
    /// Returns the sizes of an area of at most `bytes`, or `None` if a partition would have no page.
    pub fn new(partition_bits: u32, page_bytes: usize, bytes: usize) -> Option<Self> {
        if partition_bits > PARTITION_BITS || page_bytes == 0 {
            return None;
        }
        let pages = bytes.checked_sub(pages_start(partition_bits))? / page_bytes;
        Self { partition_bits, page_bytes, pages }.checked()
    }

    /// Returns the sizes of an area of so many pages, or `None` if a partition would have no page.
    pub fn of_pages(partition_bits: u32, page_bytes: usize, pages: usize) -> Option<Self> {
        Self { partition_bits, page_bytes, pages }.checked()
    }

    fn checked(self) -> Option<Self> {
        let is_valid = self.partition_bits <= PARTITION_BITS
            && self.page_bytes.is_multiple_of(UNIT_BYTES)
            && (UNIT_BYTES..=PAGE_BYTES_MAX).contains(&self.page_bytes)
            && self.pages >= self.partitions();
        let bytes = self.pages.checked_mul(self.page_bytes)?;
        bytes.checked_add(pages_start(self.partition_bits)).filter(|_| is_valid).map(|_| self)
    }

    /// Decodes the constants of a region, whose bytes may be anything.
    pub fn decode(constants: &[u8]) -> Option<Self> {
        let words = words::<CONSTANTS>(constants)?;
        let [MAGIC, LAYOUT_VERSION, partition_bits, page_bytes, pages] = words else {
            return None;
        };
        let partition_bits = u32::try_from(partition_bits).ok().filter(|bits| *bits <= PARTITION_BITS)?;
        let (page_bytes, pages) = (usize::try_from(page_bytes).ok()?, usize::try_from(pages).ok()?);
        Self { partition_bits, page_bytes, pages }.checked()
    }

    pub(crate) const fn constants(&self) -> [u64; CONSTANTS] {
        let partition_bits = self.partition_bits as u64;
        [MAGIC, LAYOUT_VERSION, partition_bits, self.page_bytes as u64, self.pages as u64]
    }

    /// Returns the bytes of the region.
    pub const fn bytes(&self) -> usize {
        self.page_start(self.pages)
    }

    pub const fn partitions(&self) -> usize {
        1 << self.partition_bits
    }

    pub const fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub const fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the offset of the record of a partition.
    pub const fn record_offset(&self, partition: usize) -> usize {
        ALIGNMENT_BYTES + partition * RECORD_STRIDE_BYTES
    }

    pub(crate) const fn page_start(&self, page: usize) -> usize {
        pages_start(self.partition_bits) + page * self.page_bytes
    }

    pub(crate) const fn pages_of(&self, partition: usize) -> Range<usize> {
        let (share, rest) = (self.pages >> self.partition_bits, self.pages % self.partitions());
        let first = partition * share + if partition < rest { partition } else { rest };
        first..first + share + (partition < rest) as usize
    }

    /// Returns whether the entry lies within one page.
    pub fn contains(&self, entry: Entry) -> bool {
        let offset = usize::try_from(entry.offset).ok();
        let Some(offset) = offset.and_then(|offset| offset.checked_sub(self.page_start(0))) else {
            return false;
        };
        let bytes = entry.bytes as usize;
        offset.is_multiple_of(UNIT_BYTES)
            && bytes >= HEADER_BYTES
            && bytes <= self.page_bytes
            && offset / self.page_bytes < self.pages
            && offset % self.page_bytes <= self.page_bytes - bytes
    }

    /// Returns the byte ranges that a read of an entry brings: the record of the key's partition, and the
    /// chunk. An entry that leads elsewhere has none.
    pub fn ranges(&self, hash: KeyHash, entry: Entry) -> Option<[Range<usize>; 2]> {
        let record = self.record_offset(hash.partition(self.partition_bits));
        let chunk = self.contains(entry).then_some(entry.offset as usize)?;
        Some([record..record + RECORD_BYTES, chunk..chunk + entry.bytes as usize])
    }
}

const fn pages_start(partition_bits: u32) -> usize {
    (ALIGNMENT_BYTES + (RECORD_STRIDE_BYTES << partition_bits)).next_multiple_of(ALIGNMENT_BYTES)
}

/// Record of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub incarnation: u64,
    pub void: u64,
    /// 0: no flush is due.
    pub flush_s: u64,
}

impl Record {
    /// Decodes the record at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [incarnation, void, flush_s] = words(bytes)?;
        Some(Self { incarnation, void, flush_s })
    }

    pub(crate) const fn words(&self) -> [u64; 3] {
        [self.incarnation, self.void, self.flush_s]
    }
}

/// Header of a chunk, without the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub version: u64,
    pub incarnation: u64,
    pub void: u64,
    pub hash: u64,
    /// 0: it does not expire.
    pub expiry_s: u32,
    pub flags: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
}

impl Header {
    pub(crate) const fn words(&self) -> [u64; HEADER_WORDS] {
        let meta = self.expiry_s as u64 | (self.flags as u64) << 32;
        let lengths = self.key_bytes as u64 | (self.value_bytes as u64) << 32;
        [self.version, self.incarnation, self.void, self.hash, meta, lengths]
    }

    pub(crate) const fn of_words(words: [u64; HEADER_WORDS]) -> Self {
        let [version, incarnation, void, hash, meta, lengths] = words;
        Self {
            version,
            incarnation,
            void,
            hash,
            expiry_s: meta as u32,
            flags: (meta >> 32) as u32,
            key_bytes: lengths as u32,
            value_bytes: (lengths >> 32) as u32,
        }
    }

    /// Decodes the header and the checksum at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let [header @ .., checksum] = words::<{ HEADER_WORDS + 1 }>(bytes)?;
        Some((Self::of_words(header), checksum))
    }

    /// Returns the bytes of header, key and value.
    pub const fn item_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.key_bytes as u64 + self.value_bytes as u64
    }

    /// Returns the checksum over the header, the key, and the value of an item of at most
    /// [`CHECKED_BYTES_MAX`].
    pub fn checksum(&self, key: &[u8], value: &[u8]) -> u64 {
        let mut bytes = [0; HEADER_WORDS * WORD_BYTES];
        for (word, place) in self.words().iter().zip(bytes.as_chunks_mut().0) {
            *place = word.to_le_bytes();
        }
        let checksum = xxh3_64_with_seed(key, xxh3_64(&bytes));
        if self.item_bytes() > CHECKED_BYTES_MAX as u64 {
            return checksum;
        }
        xxh3_64_with_seed(value, checksum)
    }
}

/// Reads `N` words from the start of `bytes`.
fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let words = bytes.as_chunks().0.first_chunk::<N>()?;
    Some(words.map(u64::from_le_bytes))
}
