//! A partition: an index and a log, addressed by offsets, written by one thread at a time.
//!
//! The image (index with its header page, log) is specified in `docs/partition-image.md`. The
//! header page holds what changes and what a reader of the image needs to know; this struct
//! holds copies of what does not change.

use std::io;

use micanite_memory::sync::{AtomicU64, Ordering};
use micanite_memory::{HUGE_PAGE_BYTES, Pages, Region};
use micanite_wire::hash::KeyHash;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::{BUCKET_WORDS, IMAGE_HEADER_WORDS};
use crate::lock::Lock;
use crate::log::item::Header;
use crate::stats::Stats;
use crate::writer::Writer;

/// "MICANITE" in ASCII, little endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"MICANITE");
/// Provisional until the engine is complete: changes with every change of the bytes.
pub(crate) const LAYOUT_VERSION: u64 = 1;

/// Words of the header page. A line of what never changes, a line of what every write changes,
/// a line for the scan, then counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Field {
    Magic = 0,
    LayoutVersion = 1,
    Seed = 2,
    PartitionNumber = 3,
    PartitionBits = 4,
    Buckets = 5,
    LogUnits = 6,
    OffsetBits = 7,

    Tail = 8,
    Head = 9,
    LapStart = 10,
    FlushMark = 11,

    ScanBucket = 16,
    ScanTail = 17,
    Expiring = 18,

    ItemsLive = 24,
    UnitsLive = 25,
    ItemsAppended = 26,
    EvictedLog = 27,
    EvictedBucket = 28,
    Expired = 29,
    Reinserted = 30,
    BucketsScanned = 31,
    DanglingCleared = 32,
    ItemsOverwritten = 33,
}

const _: () = assert!((Field::ItemsOverwritten as usize) < IMAGE_HEADER_WORDS);

/// The sizes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionLayout {
    pub number: usize,
    pub partition_bits: u32,
    pub seed: u64,
    pub buckets: u64,
    pub log_units: u64,
    /// Units of the largest item, which the log's mirror covers.
    pub item_units_max: u64,
    /// Width of the offsets in entries: [`crate::limits::OFFSET_BITS`] but in tests.
    pub offset_bits: u32,
    /// A requested item this far from the tail moves there.
    pub reinsert_distance_units: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Partition {
    pub index: Region,
    pub log: Region,
    pub layout: PartitionLayout,
    pub offset_mask: u64,
    /// The tail may advance this far before one more bucket has to be scanned.
    pub scan_interval_units: u64,
    pub lock: Lock,
    /// Counted by readers, who may not write the image.
    pub read_retries: AtomicU64,
    /// How much of the log huge pages have been put under.
    pub collapsed_bytes: AtomicU64,
}

impl Partition {
    /// Maps an empty partition.
    pub fn new(layout: PartitionLayout) -> io::Result<Self> {
        let offset_mask = (1 << layout.offset_bits) - 1;
        // An entry is dangling once the tail is a log ahead of it, and looks valid again once the
        // tail is the whole width ahead: between the two, the scan has to come by. It gets half
        // of that distance for a lap.
        let scan_interval_units = (offset_mask + 1 - layout.log_units) / 2 / layout.buckets;
        assert!(
            layout.log_units <= (offset_mask + 1) / 4,
            "offsets too narrow for the log"
        );
        assert!(
            scan_interval_units > 0,
            "offsets too narrow for the log and its buckets"
        );
        let index_words = IMAGE_HEADER_WORDS + layout.buckets as usize * BUCKET_WORDS;
        let partition = Self {
            index: Region::private(index_words * 8)?,
            log: Region::mirrored(
                layout.log_units as usize * 8,
                layout.item_units_max as usize * 8,
            )?,
            layout,
            offset_mask,
            scan_interval_units,
            lock: Lock::new(),
            read_retries: AtomicU64::new(0),
            collapsed_bytes: AtomicU64::new(0),
        };
        partition.write_header();
        Ok(partition)
    }

    fn write_header(&self) {
        let layout = &self.layout;
        // Offsets begin one log in: no offset, hence no CAS value, is zero.
        let start = layout.log_units;
        for (field, value) in [
            (Field::Magic, MAGIC),
            (Field::LayoutVersion, LAYOUT_VERSION),
            (Field::Seed, layout.seed),
            (Field::PartitionNumber, layout.number as u64),
            (Field::PartitionBits, u64::from(layout.partition_bits)),
            (Field::Buckets, layout.buckets),
            (Field::LogUnits, layout.log_units),
            (Field::OffsetBits, u64::from(layout.offset_bits)),
            (Field::Tail, start),
            (Field::Head, start),
            (Field::LapStart, start),
            (Field::ScanTail, start),
        ] {
            self.set(field, value);
        }
    }

    /// The one writer, for a caller that is the only user of the partition.
    ///
    /// # Safety
    /// While the writer lives, nobody else writes the partition.
    #[inline]
    #[expect(unsafe_code, reason = "the exclusive owner takes no lock")]
    pub unsafe fn owner(&self) -> Writer<'_> {
        Writer::new(self, false)
    }

    /// The one writer, under the lock.
    #[inline]
    pub fn writer(&self) -> Writer<'_> {
        self.lock.lock();
        Writer::new(self, true)
    }

    /// The one writer, if nobody else is just now.
    #[inline]
    pub fn try_writer(&self) -> Option<Writer<'_>> {
        self.lock.try_lock().then(|| Writer::new(self, true))
    }

    #[inline]
    pub fn bucket(&self, hash: KeyHash) -> Bucket<'_> {
        Bucket::at(&self.index, hash.bucket(self.layout.buckets))
    }

    #[inline]
    pub fn get(&self, field: Field) -> u64 {
        self.index.word(field as usize).load(Ordering::Relaxed)
    }

    /// Only the writer may call it.
    #[inline]
    pub fn set(&self, field: Field, value: u64) {
        self.index
            .word(field as usize)
            .store(value, Ordering::Relaxed);
    }

    /// Adds to a field, wrapping. Only the writer may call it.
    #[inline]
    pub fn add(&self, field: Field, value: u64) {
        self.set(field, self.get(field).wrapping_add(value));
    }

    /// The offset of an entry if its item is still in the log and not flushed.
    #[inline]
    pub fn offset_live(&self, entry: Entry) -> Option<u64> {
        let tail = self.get(Field::Tail);
        let distance = entry.distance(tail, self.offset_mask);
        let offset = tail.wrapping_sub(distance);
        let in_log = !entry.is_empty() && distance != 0 && distance <= tail;
        (in_log && self.is_live(offset)).then_some(offset)
    }

    /// Whether the log still holds what is at `offset` (below the tail), and no flush came since.
    #[inline]
    pub fn is_live(&self, offset: u64) -> bool {
        offset >= self.get(Field::Head) && offset >= self.get(Field::FlushMark)
    }

    /// The word of the log where `offset` lies. A reader may combine an offset and a lap that
    /// are not of the same moment: `None` if they do not fit at all.
    #[inline]
    pub fn position(&self, offset: u64) -> Option<usize> {
        let log_units = self.layout.log_units;
        let mut position = offset.wrapping_sub(self.get(Field::LapStart));
        if position > u64::MAX / 2 {
            position = position.wrapping_add(log_units);
        } else if position >= log_units {
            position -= log_units;
        }
        (position < log_units).then_some(position as usize)
    }

    #[inline]
    pub fn header(&self, position: usize) -> Header {
        Header(self.log.word(position).load(Ordering::Relaxed))
    }

    /// Starts loading the items that the entries of a tag point to.
    #[inline]
    pub fn prefetch_items(&self, hash: KeyHash) {
        let entries = self.bucket(hash).entries();
        let mut matches = crate::index::entry::match_tags(&entries, hash.tag());
        while matches != 0 {
            let entry = Entry(entries[matches.trailing_zeros() as usize]);
            if let Some(position) = self.offset_live(entry).and_then(|at| self.position(at)) {
                self.log.prefetch(position);
                self.log.prefetch(position + BUCKET_WORDS / 2);
            }
            matches &= matches - 1;
        }
    }

    /// Adds this partition's numbers to `total`.
    pub fn add_stats(&self, total: &mut Stats) {
        total.items_live += self.get(Field::ItemsLive);
        total.item_bytes_live += self.get(Field::UnitsLive) * 8;
        total.items_appended += self.get(Field::ItemsAppended);
        total.items_overwritten += self.get(Field::ItemsOverwritten);
        total.evicted_log += self.get(Field::EvictedLog);
        total.evicted_bucket += self.get(Field::EvictedBucket);
        total.expired += self.get(Field::Expired);
        total.reinserted += self.get(Field::Reinserted);
        total.read_retries += self.read_retries.load(Ordering::Relaxed);
        total.buckets_scanned += self.get(Field::BucketsScanned);
        total.dangling_cleared += self.get(Field::DanglingCleared);
    }

    /// Puts huge pages under the part of the log that the tail has passed for the first time.
    pub fn collapse_used_log(&self) {
        let tail = self.get(Field::Tail);
        let used_units = (tail - self.layout.log_units).min(self.layout.log_units);
        let used_bytes = used_units as usize * 8;
        let done_bytes = self.collapsed_bytes.load(Ordering::Relaxed) as usize;
        let whole_bytes = used_bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if self.log.pages() == Pages::Transparent && whole_bytes > done_bytes {
            self.log.collapse(done_bytes, whole_bytes - done_bytes);
            self.collapsed_bytes
                .store(whole_bytes as u64, Ordering::Relaxed);
        }
    }
}
