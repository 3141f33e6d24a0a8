//! After a process was killed: what it was doing at that moment is completed or removed.
//!
//! Stores to the image happen in program order (the release orderings and fences of the writer
//! say which), so what is found is some prefix of them. What a prefix can leave behind:
//!
//! | left behind | what is done |
//! |---|---|
//! | an odd version | made even: entries lead to whole items at every moment |
//! | an item that is busy | its entry is removed: a value was being written over another |
//! | an entry twice in a chain, or in the bucket that it was moved out of | one is removed |
//! | a split that was not finished | finished |
//! | spare buckets that are in no chain | freed |
//! | space of a store that no entry leads to | freed: the heap is made anew from the entries |

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::limits::BUCKET_ENTRIES;
use crate::partition::{Field, Partition};
use crate::writer::Writer;

impl Partition {
    /// Repairs the image. False if it is damaged in a way that no killed process leaves behind.
    pub(crate) fn recover(&self) -> bool {
        let buckets = self.buckets();
        if buckets < self.layout.buckets || buckets > self.layout.buckets_max() {
            return false;
        }
        let Some(used) = self.repair_chains() else {
            return false;
        };
        self.free_unused_spares(&used);
        self.set(Field::DataEnd, self.layout.data_end(buckets));
        self.lock.lock();
        let writer = Writer::new(self, true, 0);
        writer.finish_split();
        for number in 0..buckets {
            writer.tidy(self.main_bucket(number));
        }
        !self.is_store() || self.rebuild_heap()
    }

    /// Makes versions even and cuts chains where they are no chains. Returns which spare buckets
    /// are in use.
    fn repair_chains(&self) -> Option<Vec<bool>> {
        let spares = self.layout.spares(self.buckets());
        let mut used = vec![false; spares as usize];
        for number in 0..self.buckets() {
            let mut bucket = self.main_bucket(number);
            bucket.repair();
            while let Some(spare) = bucket.next_spare() {
                match used.get_mut(spare as usize) {
                    Some(used) if !*used => *used = true,
                    _ => {
                        // Linked twice: by the list of free ones, or by a chain that was cut.
                        bucket.set_next_spare(None);
                        break;
                    }
                }
                bucket = self.spare_bucket(spare);
            }
        }
        Some(used)
    }

    fn free_unused_spares(&self, used: &[bool]) {
        self.set(Field::SpareFree, 0);
        for (number, used) in used.iter().enumerate() {
            if !used {
                self.free_spare(number as u64);
            }
        }
        let used = used.iter().filter(|used| **used).count();
        self.set(Field::SparesUsed, used as u64);
    }

    /// Makes the heap of a store anew from the items that the index leads to, and counts those that
    /// no flush has made unreachable.
    fn rebuild_heap(&self) -> bool {
        let mut blocks = Vec::new();
        let (mut items_live, mut units_live) = (0, 0);
        for number in 0..self.buckets() {
            for bucket in self.chain(self.main_bucket(number)) {
                for entry in bucket.entries().map(Entry) {
                    if let Some(place) = self.place(entry) {
                        let header = self.header(place.position);
                        blocks.push((place.position, header.units() as usize));
                        if !self.is_flushed_from_store(&place, header) {
                            items_live += 1;
                            units_live += header.units();
                        }
                    }
                }
            }
        }
        blocks.sort_unstable();
        self.set(Field::ItemsLive, items_live);
        self.set(Field::UnitsLive, units_live);
        let first = self.layout.data_first();
        let end = self.get(Field::DataEnd) as usize;
        self.heap().rebuild(first, end, blocks.into_iter())
    }
}

impl Writer<'_> {
    /// Moves what the last split left in the bucket that was split.
    fn finish_split(&self) {
        let p = self.partition;
        let buckets = p.all_buckets();
        if let Some(from) = buckets.last_split_from() {
            let source = p.main_bucket(from);
            let target = p.main_bucket(buckets.count() - 1);
            for bucket in p.chain(source) {
                for slot in 0..BUCKET_ENTRIES {
                    let entry = bucket.entry(slot);
                    if self.is_sound(entry)
                        && p.place(entry)
                            .is_some_and(|place| self.is_in_last(&place, buckets))
                    {
                        if !self.is_in_chain(target, entry)
                            && let Some(word) = self.free_slot(target)
                        {
                            p.word(word).store(entry.0, Relaxed);
                        }
                        p.word(bucket.slot_word(slot)).store(0, Relaxed);
                    }
                }
            }
        }
    }

    fn is_in_chain(&self, main: Bucket<'_>, entry: Entry) -> bool {
        let mut buckets = self.partition.chain(main);
        buckets.any(|bucket| bucket.entries().contains(&entry.0))
    }

    /// Whether an entry leads to a whole item within the data space, or to none.
    fn is_sound(&self, entry: Entry) -> bool {
        let p = self.partition;
        let Some(place) = p.place(entry) else {
            return true;
        };
        let end = p.get(Field::DataEnd) as usize;
        if place.position < p.layout.data_first() || place.position >= end {
            return false;
        }
        let header = p.header(place.position);
        let units = header.units();
        !header.is_busy()
            && !header.is_dead()
            && header.value_bytes().is_some()
            && units <= p.layout.item_units_max + 16
            && place.position + units as usize <= end
    }

    /// Removes entries that lead nowhere or are there twice.
    fn tidy(&self, main: Bucket<'_>) {
        let p = self.partition;
        let mut seen = Vec::new();
        let mut changed = false;
        for bucket in p.chain(main) {
            for slot in 0..BUCKET_ENTRIES {
                let entry = bucket.entry(slot);
                if entry.is_empty() {
                    continue;
                }
                // Items of a cache are looked at when they are asked for: that would read all of
                // the memory, where this reads the index.
                let sound = !p.is_store() || self.is_sound(entry);
                if !sound || seen.contains(&entry.0) {
                    p.word(bucket.slot_word(slot)).store(0, Relaxed);
                    changed = true;
                }
                seen.push(entry.0);
            }
        }
        if changed {
            self.close_gaps(main);
        }
    }
}
