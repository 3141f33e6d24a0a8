//! The header of a partition image, word by word.

use crate::limits::{IMAGE_HEADER_WORDS, NAMESPACES_MAX};

/// "MICANITE" in ASCII, little endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"MICANITE");
/// Changes with every change of the bytes.
pub(crate) const LAYOUT_VERSION: u64 = 7;
/// Version of images that are opened, too: their entries have wider offsets, and no bits for splits.
pub(crate) const LAYOUT_VERSION_WIDE: u64 = 6;

/// Words of the header: a line that never changes, a line that every write changes, a line for each
/// log, a line for upkeep, then counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Field {
    Magic = 0,
    LayoutVersion = 1,
    Seed = 2,
    /// The number in the low half, the bits of all partitions' numbers in the high half.
    PartitionNumber = 3,
    RegionWords = 4,
    SmallUnits = 5,
    ItemUnitsMax = 6,
    /// Offset bits; from bit 8 on: main buckets per spare one; bit 63: store.
    Shape = 7,

    /// Main buckets, and from bit 56 on the doublings of their first number.
    Buckets = 8,
    /// First of the free spare buckets, plus one; they are chained.
    SpareFree = 9,
    /// End of the data space: the word of the lowest bucket, or above it.
    DataEnd = 10,
    ItemsLive = 11,
    UnitsLive = 12,
    /// Entries that were moved by an eviction, a split or a removal: a found item may be elsewhere.
    Moves = 13,
    /// Last stamp that an item of a store got.
    Stamp = 14,
    /// Largest stamp of flushed items (`flush_all`).
    FlushStamp = 15,

    SmallLog = 16,
    MainLog = 24,

    ScanBucket = 32,
    ScanTail = 33,
    Expiring = 34,
    /// Units of deleted and expired items that the head of a log has not passed.
    UnitsLeftEarly = 35,
    /// Namespaces that are invalid.
    Namespaces = 36,
    /// Longest time, in seconds, that an item remained after its expiry: in this round of the
    /// sweep, and in the last one.
    ExpiryLag = 37,
    ExpiryLagLast = 38,
    SparesUsed = 39,

    ItemsInserted = 40,
    EvictedLog = 41,
    EvictedBucket = 42,
    Expired = 43,
    Reinserted = 44,
    BucketsScanned = 45,
    DanglingCleared = 46,
    ItemsOverwritten = 47,
    GhostsMet = 48,
    Promoted = 49,
    BucketsSplit = 50,
    OutOfMemory = 51,
    /// Rounds that the sweep has completed.
    SweepRounds = 52,
    /// Units of `UnitsLeftEarly` in the main log.
    UnitsLeftEarlyInMain = 53,
    /// Items that were evicted, or expired, without a request since they were stored.
    EvictedUnfetched = 54,
    ExpiredUnfetched = 55,

    /// 1 while no process has the image open.
    Clean = 56,
    /// The boot of the machine during which the image was last opened.
    Boot = 57,
    /// Eviction policy of a cache, as a number.
    Eviction = 58,
    /// Initial number of main buckets.
    BucketsFirst = 59,
    /// The secret of the index hash, 128 bits.
    SecretLow = 60,
    SecretHigh = 61,
    /// Units at the end of the small log's space that a limit of the memory leaves unused.
    SmallGap = 62,
    /// Units between the data space and the index that a limit of the memory leaves unused.
    MainGap = 63,

    /// The second of a scheduled flush, 0 = none: in the first partition, for all. It stays until that flush
    /// is done. Models have short headers.
    FlushDue = if cfg!(loom) { 72 } else { 1088 },
}

/// Words of one log's line, from its first word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum LogField {
    /// Offset at which the next item begins.
    Tail = 0,
    /// Offset of the oldest item.
    Head = 1,
    /// Offset at which the current lap began.
    LapStart = 2,
    /// Offset at which the previous lap began.
    LapBefore = 3,
    /// Word of the region where laps begin.
    First = 4,
    /// Units that a lap may have.
    Limit = 5,
    /// Items before this offset are flushed (`flush_all`).
    FlushMark = 6,
    /// Offset of the tail when this process opened the image.
    Opened = 7,
}

/// First word of the table of namespaces: records of four words.
pub(crate) const NAMESPACE_TABLE: usize = 64;
/// Words of a record: hash of the name; tail of the small log, or stamp of a store; tail of the
/// main log; rounds of the sweep.
pub(crate) const NAMESPACE_WORDS: usize = 4;

const _: () = assert!((Field::MainGap as usize) < NAMESPACE_TABLE);
const _: () = assert!(NAMESPACE_TABLE + NAMESPACES_MAX * NAMESPACE_WORDS <= Field::FlushDue as usize);
const _: () = assert!((Field::FlushDue as usize) < IMAGE_HEADER_WORDS);
// The logs' lines follow each other: a log's bit is its line.
const _: () = assert!(Field::MainLog as usize == Field::SmallLog as usize + 8);
