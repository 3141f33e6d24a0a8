//! A partition: an index and a space of items, addressed by offsets, written by one thread at a
//! time.
//!
//! ```text
//! header | heap state (store) | items: small log, main log (cache) or heap (store) -> ... <- buckets
//! ```
//! `docs/partition-image.md` specifies the image. Its header holds what changes and what a reader
//! of the image needs; this struct holds copies of what does not change.

pub(crate) mod ages;
mod chain;
pub(crate) mod chunks;
pub(crate) mod compaction;
pub(crate) mod eviction;
mod geometry;
pub(crate) mod item;
pub(crate) mod limit;
pub(crate) mod listener;
pub(crate) mod namespace;
pub(crate) mod pages;
mod prefetch;
pub(crate) mod samples;
mod semantics;

use std::io;
use std::sync::{Arc, OnceLock};

use micanite_memory::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use micanite_wire::hash::KeyHash;

pub(crate) use geometry::PartitionLayout;
pub(crate) use prefetch::{Changes, Hint, UNSURE};
pub use semantics::Semantics;

use crate::access::lock::Lock;
use crate::access::{Access, Route, RouteWord};
use crate::heap::Heap;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::{Buckets, IndexHash};
use crate::index::walkers::Walkers;
use crate::limits::IMAGE_HEADER_WORDS;
use crate::log::{Log, LogKind};
use crate::partition::ages::Ages;
use crate::partition::chunks::Chunks;
use crate::partition::compaction::Compaction;
use crate::partition::limit::Limit;
use crate::partition::listener::EvictionListener;
use crate::partition::pages::Pages;
use crate::partition::samples::Samples;
use crate::region::{Field, Region, Word};

/// A partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub region: Region,
    pub layout: PartitionLayout,
    pub offset_mask: u64,
    /// Changes of this process that can void a hint: of entries, and of the places to which they lead. An
    /// item that is overwritten where it is changes neither.
    pub changes: Changes,
    /// True if the policy may move an item when it is requested.
    pub moves_on_get: bool,
    /// Limit of the memory that it uses.
    pub limit: Limit,
    /// One while an entry leads to the item in the reserve of a store.
    pub reserve_is_taken: AtomicU64,
    /// Pages that are committed.
    pub pages: Pages,
    /// Advance of the tails for which one more bucket has to be scanned.
    pub scan_interval_units: u64,
    pub lock: Lock,
    /// Counted by readers, who may not write the image.
    pub read_retries: AtomicU64,
    /// Access mode and owner.
    pub route: RouteWord,
    /// Last word of an item of average length, counted from its first: for prefetching.
    item_last_word: AtomicU64,
    /// Requests that readers could not count in the items themselves.
    pub samples: Samples,
    /// Listener of evictions; all partitions of a cache share it.
    pub eviction_listener: Arc<EvictionListener>,
    /// True if a client has asked for access times: then new items of meta commands record them
    /// from the beginning.
    follows_accesses: AtomicBool,
    /// State of compaction, in a store.
    pub compaction: Compaction,
    /// Storage times of items that do not record them.
    pub ages: Ages,
    /// Second of the last sweep for an insertion that found nothing, if there was no flush since.
    pub sweep_failed_s: AtomicU32,
    /// Walks and copies in the partition.
    pub walkers: Walkers,
    /// Chunk table, if there is a cache area.
    pub chunks: OnceLock<Box<Chunks>>,
}

/// Place of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub log: LogKind,
    pub offset: u64,
    /// Word of the region at which it begins.
    pub position: usize,
}

impl Partition {
    /// Maps an empty partition.
    pub fn new(layout: PartitionLayout) -> io::Result<Self> {
        let bytes = layout.region_words as usize * 8;
        let region = match layout.limit_words < layout.region_words {
            // Reserved huge pages would be taken for all of it.
            true => Region::sparse(bytes)?,
            false => Region::private(bytes)?,
        };
        let partition = Self::of(region, layout);
        partition.format();
        Ok(partition)
    }

    /// Makes a partition of a region that holds one, or is to be formatted.
    pub fn of(region: Region, layout: PartitionLayout) -> Self {
        let offset_mask = (1 << layout.offset_bits) - 1;
        // An entry is dangling once its log's tail is a lap ahead of it, and looks valid again once
        // the tail is the whole width ahead: between the two, the scan has to visit it. The scan
        // gets half of that distance for a lap of its own.
        let buckets_max = layout.buckets_max();
        let scan_interval_units = (offset_mask + 1 - layout.data_units()) / 2 / buckets_max;
        assert!(layout.data_units() <= offset_mask.div_ceil(2), "offsets too narrow for the log");
        assert!(scan_interval_units > 0, "offsets too narrow for the log and its buckets");
        Self {
            region,
            layout,
            offset_mask,
            changes: Changes::new(),
            moves_on_get: layout.policy.reinsert_percent <= 100 && layout.semantics == Semantics::Cache,
            limit: Limit::of(&layout),
            reserve_is_taken: AtomicU64::new(0),
            pages: Pages::default(),
            scan_interval_units,
            lock: Lock::new(),
            read_retries: AtomicU64::new(0),
            route: RouteWord::new(Route { access: Access::Crcw, owner: 0 }),
            item_last_word: AtomicU64::new(2),
            samples: Samples::new(layout.region_words as usize * 8),
            eviction_listener: Arc::default(),
            follows_accesses: AtomicBool::new(false),
            compaction: Compaction::default(),
            ages: Ages::new(),
            sweep_failed_s: AtomicU32::new(u32::MAX),
            walkers: Walkers::default(),
            chunks: OnceLock::new(),
        }
    }

    #[inline]
    pub fn follows_accesses(&self) -> bool {
        self.follows_accesses.load(Ordering::Relaxed)
    }

    pub fn follow_accesses(&self) {
        self.follows_accesses.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_store(&self) -> bool {
        self.layout.semantics == Semantics::Store
    }

    /// Returns whether a position is that of an item in the reserve of a store.
    #[inline]
    pub fn is_in_reserve(&self, position: usize) -> bool {
        position < self.layout.heap_first()
    }

    #[inline]
    pub fn word(&self, index: usize) -> Word<'_> {
        self.region.word(index)
    }

    #[inline]
    pub fn get(&self, field: Field) -> u64 {
        self.region.head_word(field as usize).load(Ordering::Relaxed)
    }

    /// Sets a field. Only the writer may call it.
    #[inline]
    pub fn set(&self, field: Field, value: u64) {
        self.region.head_word(field as usize).store(value, Ordering::Relaxed);
    }

    /// Adds to a field, wrapping. Only the writer may call it.
    #[inline]
    pub fn add(&self, field: Field, value: u64) {
        self.set(field, self.get(field).wrapping_add(value));
    }

    /// Subtracts from a field, down to zero: a kill may have interrupted counting. Only the writer
    /// may call it.
    #[inline]
    pub fn subtract(&self, field: Field, value: u64) {
        self.set(field, self.get(field).saturating_sub(value));
    }

    /// Records that the sweep has something to find. Only the writer may call it.
    pub fn expect_sweep_work(&self) {
        self.set(Field::Expiring, 1);
        self.sweep_failed_s.store(u32::MAX, Ordering::Relaxed);
    }

    /// Returns the number of main buckets.
    #[inline]
    pub fn buckets(&self) -> u64 {
        self.all_buckets().count()
    }

    #[inline]
    pub fn all_buckets(&self) -> Buckets {
        Buckets::unpack(self.layout.buckets, self.get(Field::Buckets))
    }

    /// Returns the hash of a key in the index.
    #[inline(always)]
    pub fn index_hash(&self, hash: KeyHash) -> IndexHash {
        IndexHash::of(hash, self.layout.secret)
    }

    /// Returns the bucket of a key, at the present number of buckets.
    #[inline]
    pub fn bucket(&self, hash: IndexHash) -> Bucket<'_> {
        self.main_bucket(hash.bucket(self.all_buckets()) as u64)
    }

    #[inline]
    pub fn main_bucket(&self, number: u64) -> Bucket<'_> {
        Bucket::at(&self.region, self.layout.main_bucket_word(number))
    }

    #[inline]
    pub fn spare_bucket(&self, number: u64) -> Bucket<'_> {
        Bucket::at(&self.region, self.layout.spare_bucket_word(number))
    }

    #[inline]
    pub fn log(&self, which: LogKind) -> Log<'_> {
        Log::of(&self.region, self.offset_mask, which)
    }

    /// Returns the heap of a store.
    #[inline]
    pub fn heap(&self) -> Heap<'_> {
        Heap::new(&self.region, IMAGE_HEADER_WORDS, self.layout.item_units_max as usize)
    }

    /// Returns the place of the item of an entry, if it is still there and not flushed.
    #[inline(always)]
    pub fn place(&self, entry: Entry) -> Option<Place> {
        if self.is_store() {
            let offset = entry.0 & self.offset_mask;
            return (!entry.is_empty()).then_some(Place {
                log: LogKind::Small,
                offset,
                position: offset as usize,
            });
        }
        let log = LogKind::of(entry.log());
        let (offset, position) = self.log(log).place(entry)?;
        Some(Place { log, offset, position })
    }

    /// Returns whether the item at a place has not been evicted since it was located.
    #[inline]
    pub fn is_live(&self, place: &Place) -> bool {
        self.is_store() || self.log(place.log).is_live(place.offset)
    }
}
