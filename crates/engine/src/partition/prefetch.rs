//! Prefetching of items, and the hints that it leaves.

use micanite_memory::sync::Ordering;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::IndexHash;
use crate::limits::BUCKET_WORDS;
use crate::partition::Partition;
use crate::region::Field;

/// Result of prefetching for a key. Only a hint: the entry may have changed since, and be another
/// key's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint<'a> {
    /// Partition of the key. Not a hint: it never changes.
    pub partition: &'a Partition,
    /// Hash of the key within its partition.
    pub hash: IndexHash,
    /// Word of the first entry with the tag; 0 = there was none.
    pub slot: usize,
    /// The entry; 0 = it led nowhere.
    pub entry: u64,
    /// Position of its item.
    pub position: usize,
    /// Tails of the logs at that time.
    pub tails: u64,
}

impl<'a> Hint<'a> {
    /// Makes the hint that nothing was found.
    #[inline]
    pub const fn nothing(partition: &'a Partition, hash: IndexHash) -> Self {
        Self { partition, hash, slot: 0, entry: 0, position: 0, tails: 0 }
    }

    /// Makes the hint that a spare bucket has to be searched: its number, without an entry.
    #[inline]
    const fn chained(partition: &'a Partition, hash: IndexHash, number: u64) -> Self {
        Self { position: number as usize + 1, ..Self::nothing(partition, hash) }
    }

    /// Returns the spare bucket to search.
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
        let last = self.item_words.load(Ordering::Relaxed) as usize - 1;
        self.region.prefetch(position);
        self.region.prefetch(position + last.min(2 * BUCKET_WORDS));
        if last > BUCKET_WORDS {
            self.region.prefetch(position + BUCKET_WORDS);
        }
    }

    /// Measures the average length of the items.
    pub fn measure_items(&self) {
        let items = self.get(Field::ItemsLive).max(1);
        let words = self.get(Field::UnitsLive) / items;
        self.item_words.store(words.max(3), Ordering::Relaxed);
    }

    /// Looks up the item of a key and prefetches it, or the next bucket of the chain if no entry in
    /// this one has the tag. `bucket` is in the cache.
    #[inline(always)]
    pub fn prefetch_item(&self, bucket: Bucket<'_>, hash: IndexHash) -> Hint<'_> {
        let entries = bucket.entries();
        let matches = crate::index::entry::match_tags(&entries, hash.tag());
        if matches == 0 {
            return match bucket.next_spare().filter(|_| !bucket.is_being_written()) {
                Some(number) => {
                    let word = self.layout.spare_bucket_word(number);
                    self.region.prefetch(word);
                    Hint::chained(self, hash, number)
                }
                None => Hint::nothing(self, hash),
            };
        }
        let slot = matches.trailing_zeros() as usize;
        let entry = Entry(entries[slot]);
        let tails = self.tails();
        let Some(place) = self.place(entry) else {
            return Hint::nothing(self, hash);
        };
        self.prefetch_span(place.position);
        Hint {
            partition: self,
            hash,
            slot: bucket.slot_word(slot),
            entry: entry.0,
            position: place.position,
            tails,
        }
    }
}
