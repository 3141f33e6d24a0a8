//! Every limit of the engine, and the relations between them, proved here.

use crate::index::hash::TAG_BITS;

/// Longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// The most requests of one batch.
pub const BATCH_REQUESTS_MAX: usize = 64;
/// Entries of a bucket: with its version word it fills a cache line.
pub const BUCKET_ENTRIES: usize = 7;
/// Words of a bucket.
pub const BUCKET_WORDS: usize = 8;
/// Units that the space of an item may have more than the largest item needs: what was left of a
/// free block and was too small for one.
pub const ITEM_UNITS_MORE: u64 = 16;
/// Bits of an offset in an index entry, in units of 8 bytes: 48 bits of bytes.
pub const OFFSET_BITS: u32 = 45;
/// Longest value that an item can hold.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// Shortest "longest value" that can be configured.
pub const VALUE_BYTES_MAX_MIN: usize = 1 << 10;
/// Least memory of a cache.
pub const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Words of the pages at the start of a partition image.
pub const IMAGE_HEADER_WORDS: usize = if cfg!(loom) { 80 } else { 2048 };
/// The least memory of a partition, when there is more than one: small memories still hold
/// large values.
pub const PARTITION_BYTES_MIN: usize = 16 << 20;
/// A partition has room for at least this many of the largest items, when there is more than one.
pub const PARTITION_ITEMS_MIN: usize = 16;
/// A store whose memory outlives the process holds back room for its largest item, but at most one
/// part in so many of a partition: for overwriting when everything else is taken. Where there is
/// more than one partition it is room for the largest item.
pub const RESERVE_SHARE: u64 = 16;
/// Marks of a partition that say when items were stored.
pub const AGE_MARKS_MAX: usize = 64;
/// The most bytes of one partition: bucket numbers have 32 bits, positions in the heap 32 bits
/// of 8-byte units.
pub const PARTITION_BYTES_MAX: usize = 16 << 30;
/// A main bucket may be split once the index holds this many items per 16 entries.
pub const INDEX_LOAD_SIXTEENTHS: u64 = 13;
/// In a cache one spare bucket comes with this many main ones: 14 to 15 bytes of index per item,
/// where a tenth takes 15 to 17.
pub const MAIN_PER_SPARE_CACHE: u64 = 5;
/// In a store one spare bucket comes with this many main ones (MICA 4.3.3: a tenth).
pub const MAIN_PER_SPARE_STORE: u64 = 10;
/// Buckets of a chain, the main one included: a lookup visits no more. At its end a cache evicts the
/// oldest item of the chain, and a store refuses. Random keys come to no such end: where a cache has
/// no entry left, 8.4 of them lie in a chain on average and 16.8 in one that is still to be split;
/// that one has more than 70 with a probability below 10^-22, and any of the 2^28 chains of
/// the largest partition with one below 10^-12 (`tests/chains.rs`).
pub const CHAIN_BUCKETS_MAX: usize = 10;
/// Items of one tag in a chain: a lookup compares no more keys. At that number a cache evicts the
/// oldest of them, and a store refuses. An insertion of a random key meets as many with a probability
/// below 10^-22.
pub const CHAIN_TAG_ITEMS_MAX: usize = 6;
/// Huge pages that are put under an image in one go: an end waits for them, and each takes milliseconds, or many more where the CPUs
/// are busy, for the kernel asks every one of them.
pub const COLLAPSE_PAGES_MAX: usize = 1;
/// Buckets that one call of the sweep visits, at most.
pub const SWEEP_BUCKETS: usize = 512;
/// A bucket that the sweep visits for an insertion counts for the turn as if so many bytes were moved: its line and those
/// of its items lie far from each other.
pub const SWEEP_BUCKET_BYTES: usize = 1 << 10;
/// An item that is evicted counts for the turn as if so many bytes were moved.
pub const EVICT_BYTES: usize = 128;
/// Optimistic reads of one request before it takes the lock of the partition.
pub const READ_ATTEMPTS_MAX: usize = if cfg!(loom) { 1 } else { 8 };
/// Bytes of values that one request copies in vain before it takes the lock of the partition: a
/// long value beside a key that is written all the time is seldom read whole.
pub const READ_BYTES_IN_VAIN_MAX: usize = 64 << 10;
/// Rounds of optimistic reads by a worker that may only read, before it asks the owner.
pub const READ_ROUNDS_MAX: usize = 4;
/// Attempts of a snapshot to copy what a bucket leads to beside its writer, before it takes the
/// lock of the partition.
pub const COPY_ATTEMPTS_MAX: usize = 64;
/// Attempts of a walk to visit a bucket beside its writer, before it takes the lock.
pub const VISIT_ATTEMPTS_MAX: usize = 64;
/// Times that a write yields to another thread whose unfinished item is in its way, before it is
/// refused as if there were no space.
pub const BUSY_ROUNDS_MAX: usize = 1 << 14;
/// Values of this length or more are copied outside of the partition's lock.
pub const LONG_VALUE_BYTES: usize = 1024;
/// Bytes that a turn moves within the memory before it ends ([`crate::Worker::begin_turn`]): so many of the largest values, and at
/// least [`TURN_MOVED_BYTES_MIN`]. With fewer, eviction could not give a second chance to a large item.
pub const TURN_MOVED_VALUES: usize = 2;
/// See [`TURN_MOVED_VALUES`].
pub const TURN_MOVED_BYTES_MIN: usize = 1 << 20;
/// Namespaces of a partition that can be invalid at a time.
pub const NAMESPACES_MAX: usize = if cfg!(loom) { 2 } else { 256 };
/// The largest count of requests that an item remembers since it was stored or moved.
pub const FREQUENCY_MAX: u64 = 3;

/// Free blocks that an allocation looks at in a class of several sizes before it takes a block of a
/// larger class.
pub const FIT_CANDIDATES_MAX: usize = 16;
/// A block that it looks at in vain counts for the turn as if so many bytes were moved. Where no larger class has a block it
/// looks at all of the class: at most at one for each MiB of a partition.
pub const FIT_CANDIDATE_BYTES: usize = 256;
/// The index of a store gives lines back while it holds less than one item for so many that it grows
/// at.
pub const INDEX_SPARSE_SHARE: u64 = 4;
/// The index of a store gives no lines back while items that a flush has left, and that the sweep has
/// still to find, take more than one word of the space in this many.
pub const UNSWEPT_SHARE: usize = 32;
/// Buckets that are merged in one go, while others wait.
pub const SHRINK_BUCKETS_MAX: u64 = 1024;
/// Times that upkeep does so in a row for a partition.
pub const SHRINK_ROUNDS_MAX: usize = 4;
/// A store compacts only while one word of its space in this many is free: less is hardly worth
/// the copying.
pub const COMPACT_FREE_SHARE: usize = 32;
/// A store is sparse while its items take at most one word of its space in this many.
pub const SPARSE_SHARE: usize = 4;
/// The free space of a store is scattered while more than one word of it in this many is not at its
/// end.
pub const SCATTERED_SHARE: usize = 32;
/// Units that a compaction may copy for an insertion that the index wants to grow after, and for
/// any into a sparse store.
pub const COMPACT_INDEX_UNITS: u64 = 2 << 10;
/// Units that it may copy for an insertion that would be refused, whatever its length.
pub const COMPACT_ITEM_UNITS: u64 = 128 << 10;
/// Units that it may copy besides, for each unit of the item.
pub const COMPACT_PER_ITEM_UNIT: u64 = 8;
/// Looking at an item counts as if so many units were copied: its header, key, bucket and free
/// blocks lie far from each other, and copying 2 KiB takes as long.
pub const COMPACT_VISIT_UNITS: u64 = 256;
/// Buckets among whose items the one nearest to the end of the space is looked for.
pub const COMPACT_SAMPLE_BUCKETS: u64 = 32;

// A bucket is a version word and its entries, and a cache line of 64 bytes.
const _: () = assert!(BUCKET_WORDS == 1 + BUCKET_ENTRIES && BUCKET_WORDS * 8 == 64);
// An entry is one word: tag, two bits that are zero today, log, offset.
const _: () = assert!(TAG_BITS + 2 + 1 + OFFSET_BITS == 64);
// What a lookup compares is in what it visits.
const _: () = assert!(CHAIN_TAG_ITEMS_MAX <= CHAIN_BUCKETS_MAX * BUCKET_ENTRIES);
// A chain holds four times the entries that a bucket has on average where the index has none left,
// and the bucket is one of those that are still to be split, which have twice the load.
const _: () = assert!(
    CHAIN_BUCKETS_MAX * BUCKET_ENTRIES * MAIN_PER_SPARE_CACHE as usize
        >= 4 * 2 * BUCKET_ENTRIES * (MAIN_PER_SPARE_CACHE as usize + 1)
);
// A key length fits its byte in the item header.
const _: () = assert!(KEY_BYTES_MAX < 256);
// Several partitions have room for so many of the largest items that the reserve takes one.
const _: () = assert!(RESERVE_SHARE as usize <= PARTITION_ITEMS_MIN);
// The largest item fits the unit count of its header (28 bits of 8 bytes).
const _: () = assert!(VALUE_BYTES_MAX + KEY_BYTES_MAX + 40 < (1 << 28) * 8);
// An executing batch keeps one bit per request in a word.
const _: () = assert!(BATCH_REQUESTS_MAX <= 64);
// Numbers of buckets fit the chain half of a version word, positions the links of the heap.
const _: () = assert!(PARTITION_BYTES_MAX / 8 < 1 << 32);
