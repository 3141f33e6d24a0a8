//! Recovery after a process was killed: it completes or removes what the process was doing.
//!
//! Stores to the image happen in program order (the release orderings and fences of the writer
//! define it), so the image holds some prefix of them. A prefix can leave behind:
//!
//! | left behind | what is done |
//! |---|---|
//! | an entry that is dirty | removed: only the cache area had the newest value |
//! | an odd version | made even: entries lead to whole items at every moment |
//! | an item of a cache that is busy | its entry is removed: a value was being written over another |
//! | an item of a store in the reserve | moved to the heap, where its key's old item was |
//! | an entry twice in a chain, or in the bucket that it was moved out of | one is removed |
//! | a split that was not finished | finished |
//! | spare buckets that are in no chain | freed |
//! | space of a store that no entry leads to | freed: the heap is made anew from the entries |
//! | counters that are one item behind | counted anew, from the entries (store) or along the logs (cache) |
//! | a round of the sweep | begun anew, after all dangling entries are cleared |
//!
//! A store loses nothing by this: of an item in the index at most one word is overwritten at a time
//! (expiry, state, counts), and an entry is one word. Recovery may be killed as well: it then
//! begins anew.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::image::check::{Checked, ensure};
use crate::image::starts::Starts;
use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::hash::Buckets;
use crate::limits::{BUCKET_ENTRIES, CHAIN_BUCKETS_MAX, STAMP_END};
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::Partition;
use crate::region::{Field, LogField};
use crate::writer::{Found, Writer};

/// A recovery, with the right to write.
struct Recovery<'a> {
    partition: &'a Partition,
    writer: Writer<'a>,
}

impl Partition {
    /// Repairs an image that was checked. The error describes damage that no killed process leaves
    /// behind.
    pub(crate) fn recover(&self) -> Checked {
        Recovery { partition: self, writer: self.writer(0) }.run()
    }
}

impl Recovery<'_> {
    fn run(&self) -> Checked {
        let p = self.partition;
        let buckets = p.buckets();
        let used = self.repair_chains()?;
        self.free_unused_spares(&used);
        self.remove_dirty();
        p.set(Field::DataEnd, p.data_end(buckets));
        if !p.is_store() {
            let log = p.log(LogKind::Main);
            let units = p.get(Field::DataEnd) - log.get(LogField::First);
            log.set(LogField::Limit, log.get(LogField::Limit).min(units));
        }
        let mut busy = self.writer.recount_logs();
        busy.sort_unstable();
        for number in 0..buckets {
            self.clean_chain(p.main_bucket(number), &busy);
        }
        for position in busy {
            let filler = Header::filler(p.header(position).units());
            self.writer.set_header(position, filler);
        }
        self.restart_sweep();
        ensure(self.finish_split(), || "the last split has no room".into())?;
        match p.is_store() {
            true => self.recover_heap(),
            false => Ok(()),
        }
    }

    /// Removes items of a cache whose newest value was in the cache area only, which ended with the process.
    fn remove_dirty(&self) {
        let p = self.partition;
        if p.is_store() {
            return;
        }
        for bucket in (0..p.buckets()).flat_map(|number| p.chain(p.main_bucket(number))) {
            for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                if entry.tag() == 0 || !entry.is_dirty() {
                    continue;
                }
                p.word(bucket.slot_word(slot)).store(0, Release);
                if let Some(place) = p.place_of_item(entry) {
                    let header = p.header(place.position);
                    if !header.is_busy() {
                        self.writer.set_header(place.position, header.with_dead());
                    }
                }
            }
        }
    }

    /// Makes the heap of a store anew, and empties the reserve.
    fn recover_heap(&self) -> Checked {
        let waiting = self.rebuild_heap();
        let waiting = waiting.ok_or_else(|| "the items of the heap overlap".to_owned())?;
        let Some(found) = waiting else {
            return Ok(());
        };
        let hash = self.partition.hash_at(found.place.position);
        let left = self.writer.leave_reserve(hash, &found);
        left.map(drop).map_err(|_| "the heap has no room for the item in the reserve".to_owned())
    }

    /// Begins the round of the sweep anew. Dangling entries have been cleared, so that entries are
    /// as safe from looking valid again as after a whole round.
    fn restart_sweep(&self) {
        let p = self.partition;
        p.set(Field::ScanBucket, 0);
        p.set(Field::ScanTail, p.tails());
        p.set(Field::Expiring, 1);
        p.set(Field::Namespaces, u64::from(p.has_invalid_namespaces()));
    }

    /// Makes versions even, and cuts invalid chains. Returns the spare buckets in use.
    fn repair_chains(&self) -> Checked<Vec<bool>> {
        let p = self.partition;
        let spares = p.layout.spares(p.buckets());
        let mut used = vec![false; spares as usize];
        for number in 0..p.buckets() {
            let mut bucket = p.main_bucket(number);
            bucket.repair();
            let mut buckets = 1;
            while let Some(spare) = bucket.next_spare() {
                if buckets == CHAIN_BUCKETS_MAX {
                    // No writer makes a chain this long. A cache may forget items, a store may not.
                    ensure(!p.is_store(), || format!("the chain of bucket {number}"))?;
                    bucket.set_next_spare(None);
                    break;
                }
                buckets += 1;
                match used.get_mut(spare as usize) {
                    Some(used) if !*used => *used = true,
                    _ => {
                        // Linked twice: by the list of free ones, or by a chain that was cut.
                        bucket.set_next_spare(None);
                        break;
                    }
                }
                bucket = p.spare_bucket(spare);
            }
        }
        Ok(used)
    }

    fn free_unused_spares(&self, used: &[bool]) {
        let p = self.partition;
        p.set(Field::SpareFree, 0);
        for (number, used) in used.iter().enumerate() {
            if !used {
                p.free_spare(number as u64);
            }
        }
        let used = used.iter().filter(|used| **used).count();
        p.set(Field::SparesUsed, used as u64);
    }

    /// Makes the heap of a store anew from the items in the index, and counts those that no flush
    /// has made unreachable. Returns the item in the reserve, if there is one; `None` if the items
    /// overlap.
    fn rebuild_heap(&self) -> Option<Option<Found>> {
        let p = self.partition;
        let mut blocks = Starts::of(p);
        let mut waiting = None;
        let (mut items_live, mut units_live) = (0, 0);
        let mut stamp = p.get(Field::Stamp);
        for number in 0..p.buckets() {
            for bucket in p.chain(p.main_bucket(number)) {
                for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                    if let Some(place) = p.place(entry) {
                        let header = p.header(place.position);
                        stamp = stamp.max(p.stamp(place.position, header));
                        if p.is_in_reserve(place.position) {
                            waiting = Some(self.writer.found_at(bucket.slot_word(slot), place));
                        } else if !blocks.insert(place.position) {
                            return None;
                        }
                        if !p.is_flushed_from_store(place.position, header) {
                            items_live += 1;
                            units_live += header.units();
                        }
                    }
                }
            }
        }
        p.set(Field::ItemsLive, items_live);
        p.set(Field::UnitsLive, units_live);
        p.set(Field::Stamp, stamp);
        let first = p.layout.heap_first();
        let end = p.get(Field::DataEnd) as usize;
        let units = |position| (position, p.header(position).units() as usize);
        let blocks = blocks.iter().map(units);
        let rebuilt = p.heap().rebuild(first, end, blocks);
        rebuilt.then_some(waiting)
    }

    /// Moves the entries that the last split left in the source. Returns false if a store has no
    /// room for them, which the split had ensured.
    fn finish_split(&self) -> bool {
        let p = self.partition;
        let buckets = p.all_buckets();
        if let Some(from) = buckets.last_split_from() {
            let source = p.main_bucket(from);
            let target = p.main_bucket(buckets.count() - 1);
            // As in a split, the source frees spare buckets as entries leave it.
            while !self.finish_some(source, target, buckets) {
                self.writer.close_gaps(source);
                if p.get(Field::SpareFree) == 0 {
                    return false;
                }
            }
            self.clean_chain(source, &[]);
        }
        true
    }

    /// Moves entries until one finds no place. Returns whether all have moved.
    fn finish_some(&self, source: Bucket<'_>, target: Bucket<'_>, buckets: Buckets) -> bool {
        let p = self.partition;
        for bucket in p.chain(source) {
            for slot in 0..BUCKET_ENTRIES {
                let entry = bucket.entry(slot);
                if self.is_sound(entry) && p.place(entry).is_some_and(|place| p.is_in_last(&place, buckets)) {
                    if !self.is_in_chain(target, entry) {
                        let Some(word) = self.writer.slot_without_eviction(target) else {
                            return false;
                        };
                        p.word(word).store(entry.0, Release);
                    }
                    p.word(bucket.slot_word(slot)).store(0, Release);
                }
            }
        }
        true
    }

    fn is_in_chain(&self, main: Bucket<'_>, entry: Entry) -> bool {
        let mut buckets = self.partition.chain(main);
        buckets.any(|bucket| bucket.entries().contains(&entry.0))
    }

    /// Returns whether an entry leads to a whole item within the data space, or to none.
    fn is_sound(&self, entry: Entry) -> bool {
        let p = self.partition;
        let Some(place) = p.place(entry) else {
            return true;
        };
        if place.position < p.layout.data_first() || place.position >= p.region.words() {
            return false;
        }
        let header = p.header(place.position);
        !header.is_busy()
            && !header.is_dead()
            && p.holds(place.position, header)
            && (!p.is_store() || p.stamp(place.position, header) < STAMP_END)
    }

    /// Removes entries that dangle, that lead to busy items (`busy`: their positions, in order), or
    /// that exist twice, and frees spare buckets that are empty.
    fn clean_chain(&self, main: Bucket<'_>, busy: &[usize]) {
        let p = self.partition;
        let mut seen = Vec::new();
        let mut changed = false;
        for bucket in p.chain(main) {
            changed |= bucket.entries() == [0; BUCKET_ENTRIES] && bucket.first_word != main.first_word;
            for slot in 0..BUCKET_ENTRIES {
                let entry = bucket.entry(slot);
                if entry.is_empty() {
                    continue;
                }
                // Items of a cache are checked when they are requested: in the order of the index
                // that would be slow.
                let sound = match p.place(entry) {
                    _ if p.is_store() => self.is_sound(entry),
                    Some(place) => busy.binary_search(&place.position).is_err(),
                    None => self.writer.ghost_age(entry).is_some(),
                };
                if !sound || seen.contains(&entry.0) {
                    p.word(bucket.slot_word(slot)).store(0, Relaxed);
                    changed = true;
                }
                seen.push(entry.0);
            }
        }
        if changed {
            self.writer.close_gaps(main);
        }
    }
}
