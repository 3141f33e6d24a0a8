//! Every limit of the engine. Assertions prove the relations between them.

/// Longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// Requests of a batch beyond which more gain nothing: callers collect up to so many.
pub const BATCH_REQUESTS_MAX: usize = 64;
/// Requests of a batch that are prefetched together.
pub const WINDOW_REQUESTS: usize = BATCH_REQUESTS_MAX;
/// Requests of a batch that another worker executes in one go. It serves nobody else meanwhile.
pub const DELEGATED_REQUESTS_MAX: usize = 16;
/// Entries of a bucket: with its version word it fills a cache line.
pub const BUCKET_ENTRIES: usize = 7;
/// Words of a bucket.
pub const BUCKET_WORDS: usize = 8;
/// Extra units that the space of an item may have beyond the largest item: the rest of a free block
/// that was too small to be split off.
pub const ITEM_UNITS_MORE: u64 = 16;
/// Bits of an offset in an index entry, in units of 8 bytes: 43 bits of bytes.
pub const OFFSET_BITS: u32 = 40;
/// Bits of the hash in an index entry that tell in which half of a bucket that is split it belongs, for so
/// many doublings of the index.
pub const SPLIT_BITS: u32 = 5;
/// Longest value that an item can hold.
pub const VALUE_BYTES_MAX: usize = 1 << 30;
/// Least value of the option "longest value".
pub const VALUE_BYTES_MAX_MIN: usize = 1 << 10;
/// Least memory of a cache.
pub const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Words of the pages at the start of a partition image.
pub const IMAGE_HEADER_WORDS: usize = if cfg!(loom) { 80 } else { 2048 };
/// Least memory of a partition, when there is more than one: small memories still hold large
/// values.
pub const PARTITION_BYTES_MIN: usize = 16 << 20;
/// A partition has room for at least this many of the largest items, when there is more than one.
pub const PARTITION_ITEMS_MIN: usize = 16;
/// Largest share of a partition that a store holds back if its memory outlives the process: room
/// for its largest item, for overwriting when everything else is taken. Where there is more than
/// one partition, it is room for the largest item.
pub const RESERVE_SHARE: u64 = 16;
/// Stamps of a store are less than this: it counts its writes. A damaged image may say otherwise.
pub const STAMP_END: u64 = 1 << 62;
/// Marks of a partition that record when items were stored.
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
/// Buckets of a chain, the main one included: a lookup visits no more. At this limit a cache evicts
/// the oldest item of the chain, and a store refuses. Random keys do not reach it: where a cache
/// has no entry left, 8.4 of them lie in a chain on average and 16.8 in one that is still to be
/// split; that one has more than 70 with a probability below 10^-22, and any of the 2^28 chains of
/// the largest partition with one below 10^-12 (`tests/chains.rs`).
pub const CHAIN_BUCKETS_MAX: usize = 10;
/// Items of one tag in a chain: a lookup compares no more keys. At this limit a cache evicts the
/// oldest of them, and a store refuses. An insertion of a random key meets as many with a
/// probability below 10^-22.
pub const CHAIN_TAG_ITEMS_MAX: usize = 6;
/// Huge pages that one call puts under an image. The end of the process waits for the call. Each
/// page takes milliseconds, or many more where the CPUs are busy, because the kernel interrupts
/// every CPU.
pub const COLLAPSE_PAGES_MAX: usize = 1;
/// Buckets that one call of the sweep visits, at most.
pub const SWEEP_BUCKETS: usize = 512;
/// Bytes that a visit of a bucket by the sweep for an insertion is charged to the turn: the lines
/// of the bucket and of its items lie far apart.
pub const SWEEP_BUCKET_BYTES: usize = 1 << 10;
/// Bytes charged to the turn for an eviction.
pub const EVICT_BYTES: usize = 128;
/// Optimistic reads of one request before it takes the lock of the partition.
pub const READ_ATTEMPTS_MAX: usize = if cfg!(loom) { 1 } else { 8 };
/// Bytes of values that one request copies without success before it takes the lock of the partition: a
/// read of a long value seldom succeeds beside a key that is written all the time.
pub const READ_BYTES_WASTED_MAX: usize = 64 << 10;
/// Rounds of optimistic reads by a worker that may only read, before it asks the owner.
pub const READ_ROUNDS_MAX: usize = 4;
/// Attempts of a snapshot to copy what a bucket leads to beside its writer, before it takes the
/// lock of the partition.
pub const COPY_ATTEMPTS_MAX: usize = 64;
/// Attempts of a walk to visit a bucket beside its writer, before it takes the lock.
pub const VISIT_ATTEMPTS_MAX: usize = 64;
/// Times that a write yields to another thread whose unfinished item is in its way. Then it is
/// refused as if there were no space.
pub const BUSY_ROUNDS_MAX: usize = 1 << 14;
/// Values of this length or more are copied outside of the partition's lock.
pub const LONG_VALUE_BYTES: usize = 1024;
/// Largest values whose bytes a turn moves within the memory before it ends
/// ([`crate::Worker::begin_turn`]); the least is [`TURN_MOVED_BYTES_MIN`]. With fewer, eviction
/// could not give a second chance to a large item.
pub const TURN_MOVED_VALUES: usize = 2;
/// Least bytes that a turn may move; see [`TURN_MOVED_VALUES`].
pub const TURN_MOVED_BYTES_MIN: usize = 1 << 20;
/// Namespaces of a partition that can be invalid at a time.
pub const NAMESPACES_MAX: usize = if cfg!(loom) { 2 } else { 256 };
/// Largest request count of an item since it was stored or moved.
pub const FREQUENCY_MAX: u64 = 3;

/// Free blocks that an allocation examines in a class of several sizes before it takes a block of a
/// larger class.
pub const FIT_CANDIDATES_MAX: usize = 16;
/// Bytes charged to the turn for an examined block that is too small. Where no larger class has a block
/// the allocation examines the whole class: at most one block for each MiB of a partition.
pub const FIT_CANDIDATE_BYTES: usize = 256;
/// Load below which the index returns lines: one item for this many at which it grows. With 4 a cache of
/// larger items than before kept 5 % of its memory as an index that it did not need.
pub const INDEX_SPARSE_SHARE: u64 = 2;
/// Largest share of the space, one word in this many, that flushed items which the sweep has still
/// to find may take while the index of a store shrinks.
pub const UNSWEPT_SHARE: usize = 32;
/// Buckets that one step merges, while others wait.
pub const SHRINK_BUCKETS_MAX: u64 = 1024;
/// Steps of shrinking in a row that upkeep does for a partition.
pub const SHRINK_ROUNDS_MAX: usize = 4;
/// Least share of free space at which a store compacts, one word in this many: with less, copying
/// costs more than it gains.
pub const COMPACT_FREE_SHARE: usize = 32;
/// Space that a store keeps free for moves when its limit is lowered: one word for so many that items take.
pub const BLOCK_UNITS_SLACK_SHARE: u64 = 16;
/// Units of items that one call evicts or moves for a lower limit.
pub const FOLLOW_UNITS: i64 = 96 << 10;
/// Units of items that an insertion evicts or moves so that the index can grow.
pub const GROWTH_UNITS: i64 = 4 << 10;
/// Units charged for each of these items: their headers and buckets lie far apart.
pub const FOLLOW_VISIT_UNITS: i64 = 48;
/// Bytes of a gap that one call gives back to the system, or takes.
pub const RETURN_BYTES_MAX: u64 = 2 << 20;
/// Least bytes that are given back beside what has gone back already.
pub const RETURN_BYTES_MIN: u64 = 256 << 10;
/// Bytes before the index that stay, so that it can grow: upkeep makes more of them present.
pub const INDEX_MARGIN_BYTES: u64 = 512 << 10;
/// Largest share of its space, one word in this many, that the items of a sparse store take.
pub const SPARSE_SHARE: usize = 4;
/// Share of the free space, one word in this many, above which free space away from the end counts
/// as scattered.
pub const SCATTERED_SHARE: usize = 32;
/// Units that a compaction may copy for an insertion after which the index wants to grow, and for
/// any insertion into a sparse store.
pub const COMPACT_INDEX_UNITS: u64 = 2 << 10;
/// Units that it may copy for an insertion that would be refused, whatever its length.
pub const COMPACT_ITEM_UNITS: u64 = 128 << 10;
/// Units that it may copy in addition, for each unit of the item.
pub const COMPACT_PER_ITEM_UNIT: u64 = 8;
/// Units charged for the examination of an item: its header, key, bucket and free blocks lie far apart,
/// and copying 2 KiB takes as long.
pub const COMPACT_VISIT_UNITS: u64 = 256;
/// Buckets that are sampled for the item nearest to the end of the space.
pub const COMPACT_SAMPLE_BUCKETS: u64 = 32;

/// One-sided reads of an item, as a client's history has them, from which on the item is loaded into the
/// cache area.
pub const READS_OF_LOADED: u32 = 2;
/// Dirty chunks that one hold of a partition copies back for a snapshot or the end of the process.
pub const CHUNKS_CLEANED_MAX: usize = 256;

// A bucket is a version word and its entries, and a cache line of 64 bytes.
const _: () = assert!(BUCKET_WORDS == 1 + BUCKET_ENTRIES && BUCKET_WORDS * 8 == 64);
// A lookup compares items in the buckets that it visits.
const _: () = assert!(CHAIN_TAG_ITEMS_MAX <= CHAIN_BUCKETS_MAX * BUCKET_ENTRIES);
// A chain holds four times the entries that a bucket has on average when the index has none left
// and the bucket is still to be split, which doubles its load.
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
// A window keeps one bit per request in a word.
const _: () = assert!(WINDOW_REQUESTS <= 64);
// Numbers of buckets fit the chain half of a version word, positions the links of the heap.
const _: () = assert!(PARTITION_BYTES_MAX / 8 < 1 << 32);
