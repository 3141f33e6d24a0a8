//! Prefetching of items, and the hints that it leaves.

use micanite_memory::sync::{AtomicU64, Ordering};

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
#[cfg(test)]
use crate::index::hash::Buckets;
use crate::index::hash::IndexHash;
use crate::index::tags::Tags;
use crate::limits::{BUCKET_ENTRIES, BUCKET_WORDS};
use crate::partition::Partition;
use crate::region::{Field, LogField};

/// Result of prefetching for a key. Only a hint: the entry may have changed since, and be another
/// key's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint<'a> {
    /// Partition of the key. Not a hint: it never changes.
    pub partition: &'a Partition,
    /// Hash of the key within its partition.
    pub hash: IndexHash,
    /// Number of buckets at that time, packed.
    pub buckets: u64,
    /// First word of the main bucket of the key.
    pub bucket: usize,
    /// Word of the first entry with the tag; 0 = there was none.
    pub slot: usize,
    /// The entry; 0 = it led nowhere.
    pub entry: u64,
    /// Position of its item.
    pub position: usize,
    /// Version word of the main bucket, if no entry had the tag.
    pub version: u64,
    /// Word of an empty entry of that bucket; 0 = there was none.
    pub empty: usize,
    /// Changes of the partition at that time, if the worker is its exclusive owner and nothing there needs
    /// a closer look: as long as there is no other, the hint is a fact. Otherwise [`UNSURE`].
    pub changes: u64,
}

/// Counts what can void hints of the exclusive owner. It has a line of its own: its writer writes it more
/// often than others may lose what stands beside it.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts one. Only the exclusive owner may call it.
    #[inline(always)]
    pub fn count(&self) {
        self.0.store(self.now() + 1, Ordering::Relaxed);
    }
}

/// More changes than a partition ever has.
pub(crate) const UNSURE: u64 = u64::MAX;

impl<'a> Hint<'a> {
    /// Makes the hint that nothing was found.
    #[inline]
    pub const fn nothing(partition: &'a Partition, hash: IndexHash) -> Self {
        Self {
            partition,
            hash,
            buckets: 0,
            bucket: 0,
            slot: 0,
            entry: 0,
            position: 0,
            version: 0,
            empty: 0,
            changes: UNSURE,
        }
    }

    /// Returns whether nothing in the partition has changed since, so that the hint is a fact. Only for
    /// the batch of the hint, and the exclusive owner. A hint that nothing was found holds until its bucket
    /// changes, too: [`Self::is_still_absent`].
    #[inline(always)]
    pub fn is_fact(&self) -> bool {
        self.changes == self.partition.changes.now()
    }

    /// Returns whether the key of a hint that is a fact is still absent, if it was: new items came to other
    /// buckets.
    #[inline(always)]
    pub fn is_still_absent(&self) -> bool {
        self.entry == 0 && Bucket::at(&self.partition.region, self.bucket).version_word() == self.version
    }

    /// Returns the spare bucket to search, if nothing was found in the buckets before it.
    #[inline]
    pub const fn spare(&self) -> Option<u64> {
        if self.slot == 0 && self.position != 0 { Some(self.position as u64 - 1) } else { None }
    }
}

impl Partition {
    /// Prefetches the lines of an item of the usual length: its first, its last, and the one behind
    /// the first if it may have three. A line that is not prefetched costs more than all else that
    /// a request does. For longer items the processor prefetches.
    #[inline(always)]
    fn prefetch_span(&self, position: usize) {
        let last = self.item_last_word.load(Ordering::Relaxed) as usize;
        self.region.prefetch(position);
        self.region.prefetch(position + last);
        if last > BUCKET_WORDS {
            self.region.prefetch(position + BUCKET_WORDS);
        }
    }

    /// Measures the average length of the items.
    pub fn measure_items(&self) {
        let items = self.get(Field::ItemsLive).max(1);
        let words = self.get(Field::UnitsLive) / items;
        let last = (words.max(3) - 1).min(2 * BUCKET_WORDS as u64);
        self.item_last_word.store(last, Ordering::Relaxed);
    }

    /// Returns the number of main buckets, packed.
    #[inline(always)]
    pub fn buckets_packed(&self) -> u64 {
        self.region.head()[Field::Buckets as usize].load(Ordering::Relaxed)
    }

    /// Begins to load the main bucket of a key. `changes` is [`Hint::changes`], loaded before: a bucket that
    /// was chosen while another thread wrote may be the wrong one.
    #[cfg(test)]
    pub fn prefetch_bucket(&self, hash: IndexHash, changes: u64) -> Hint<'_> {
        let buckets = self.buckets_packed();
        let bucket = self.main_bucket(hash.bucket(Buckets::unpack(self.layout.buckets, buckets)) as u64);
        bucket.prefetch();
        Hint { buckets, bucket: bucket.first_word, changes, ..Hint::nothing(self, hash) }
    }

    /// Looks up the item of a key and prefetches it, or the next bucket of the chain if no entry in
    /// this one has the tag. `bucket` is in the cache. Returns whether there is a next bucket to look in.
    #[inline(always)]
    pub fn prefetch_item<T: Tags>(&self, hint: &mut Hint<'_>, bucket: Bucket<'_>) -> bool {
        let is_quiet = hint.changes != UNSURE;
        let (words, tag) = (bucket.words(), hint.hash.tag());
        let matches = T::matches(words, tag);
        if matches == 0 {
            if bucket.first_word == hint.bucket {
                let empty = T::matches(words, 0).trailing_zeros() as usize;
                hint.version = words[0].load(Ordering::Relaxed);
                hint.empty = if empty < BUCKET_ENTRIES { bucket.slot_word(empty) } else { 0 };
            }
            self.prefetch_spare(hint, bucket);
            return hint.spare().is_some();
        }
        let slot = matches.trailing_zeros() as usize % BUCKET_ENTRIES;
        let entry = Entry(words[1 + slot].load(Ordering::Relaxed));
        let position = match is_quiet {
            true => self.position_of_owned(entry),
            // Another writer may have put another entry there meanwhile.
            false => self.place(entry).filter(|_| entry.has_tag(tag)).map(|place| place.position),
        };
        let Some(position) = position else {
            hint.position = 0;
            hint.changes = UNSURE;
            return false;
        };
        self.prefetch_span(position);
        hint.slot = bucket.slot_word(slot);
        hint.entry = entry.0;
        hint.position = position;
        if entry.is_dirty() {
            hint.changes = UNSURE;
        }
        false
    }

    #[inline(always)]
    fn prefetch_spare(&self, hint: &mut Hint<'_>, bucket: Bucket<'_>) {
        hint.position = 0;
        match bucket.next_spare() {
            _ if bucket.is_being_written() => hint.changes = UNSURE,
            Some(number) => {
                self.region.prefetch(self.layout.spare_bucket_word(number));
                hint.position = number as usize + 1;
            }
            None => {}
        }
    }

    /// Returns the position of the item of an entry like [`Self::place`], for the exclusive owner.
    #[inline(always)]
    fn position_of_owned(&self, entry: Entry) -> Option<usize> {
        if self.is_store() {
            return Some((entry.0 & self.offset_mask) as usize);
        }
        let line = Field::SmallLog as usize + 8 * entry.log() as usize;
        let word = |field: LogField| self.region.head()[line + field as usize].load(Ordering::Relaxed);
        let (tail, oldest) = (word(LogField::Tail), word(LogField::Head).max(word(LogField::FlushMark)));
        let offset = tail.wrapping_sub(entry.distance(tail, self.offset_mask));
        // Neither left nor flushed, and below the tail: offsets of other laps of the mask are above it.
        if offset.wrapping_sub(oldest) >= tail.wrapping_sub(oldest) {
            return None;
        }
        let lap = word(LogField::LapStart);
        let start = if offset >= lap { lap } else { word(LogField::LapBefore) };
        Some(word(LogField::First).wrapping_add(offset).wrapping_sub(start) as usize)
    }

    /// Returns [`Hint::changes`] for hints of a worker, to be loaded before anything else of the partition: a
    /// worker may become the owner while it prefetches, but does not cease to be it.
    #[inline(always)]
    pub fn changes_seen(&self, worker: usize) -> u64 {
        let namespaces = &self.region.head()[Field::Namespaces as usize];
        if self.route.is_own(worker) && namespaces.load(Ordering::Relaxed) == 0 {
            self.changes.now()
        } else {
            UNSURE
        }
    }
}
