//! Recovery after a process was killed: it completes or removes what the process was doing.
//!
//! Stores to the image happen in program order (the release orderings and fences of the writer
//! define it), so the image holds some prefix of them. A prefix can leave behind:
//!
//! | left behind | what is done |
//! |---|---|
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
use crate::partition::{Field, LogField, Partition};
use crate::writer::{Found, Writer};

/// Contents of a log: living items, their units, and the units that left early.
#[derive(Clone, Copy, Default)]
struct Counts {
    items: u64,
    units: u64,
    early: u64,
}

impl Partition {
    /// Repairs an image that was checked. The error describes damage that no killed process leaves
    /// behind.
    pub(crate) fn recover(&self) -> Result<(), String> {
        let buckets = self.buckets();
        let used = self.repair_chains()?;
        self.free_unused_spares(&used);
        self.set(Field::DataEnd, self.layout.data_end(buckets));
        self.lock.lock();
        let writer = Writer::new(self, true, 0);
        let mut busy = self.recount_logs();
        busy.sort_unstable();
        for number in 0..buckets {
            writer.tidy(self.main_bucket(number), &busy);
        }
        for position in busy {
            let filler = Header::filler(self.header(position).units());
            writer.set_header(position, filler);
        }
        self.restart_sweep();
        ensure(writer.finish_split(), || "the last split has no room".into())?;
        match self.is_store() {
            true => self.recover_heap(&writer),
            false => Ok(()),
        }
    }

    /// Makes the heap of a store anew, and empties the reserve.
    fn recover_heap(&self, writer: &Writer<'_>) -> Checked {
        let waiting = self.rebuild_heap(writer);
        let waiting = waiting.ok_or_else(|| "the items of the heap overlap".to_owned())?;
        let Some(found) = waiting else {
            return Ok(());
        };
        let hash = writer.hash_at(found.place.position);
        let left = writer.leave_reserve(hash, &found);
        left.map(drop).map_err(|_| "the heap has no room for the item in the reserve".to_owned())
    }

    /// Counts the contents of the logs of a cache by walking them. Returns the positions of busy
    /// items. Gives up a lap with a header that does not lead to the next item.
    pub(crate) fn recount_logs(&self) -> Vec<usize> {
        let mut busy = Vec::new();
        if self.is_store() {
            return busy;
        }
        let counts = [LogKind::Small, LogKind::Main].map(|which| self.count_log(which, &mut busy));
        let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
        self.set(Field::ItemsLive, sum(|counts| counts.items));
        self.set(Field::UnitsLive, sum(|counts| counts.units));
        self.set(Field::UnitsLeftEarly, sum(|counts| counts.early));
        let in_main = counts[LogKind::Main as usize].early;
        self.set(Field::UnitsLeftEarlyInMain, in_main);
        busy
    }

    fn count_log(&self, which: LogKind, busy: &mut Vec<usize>) -> Counts {
        let log = self.log(which);
        let mut counts = Counts::default();
        let mut offset = log.get(LogField::Head);
        while offset < log.get(LogField::Tail) {
            let position = log.position(offset);
            let header = self.header(position);
            if !log.can_step(offset, header) {
                offset = log.end_of_lap(offset);
                log.set(LogField::Head, offset);
                counts = Counts::default();
                continue;
            }
            let units = header.units();
            if header.is_busy() {
                busy.push(position);
            } else if header.left_early() {
                counts.early += units;
            } else if !header.is_dead() && log.is_live(offset) {
                counts.items += 1;
                counts.units += units;
            }
            offset += units;
        }
        counts
    }

    /// Begins the round of the sweep anew. Dangling entries have been cleared, so that entries are
    /// as safe from looking valid again as after a whole round.
    fn restart_sweep(&self) {
        self.set(Field::ScanBucket, 0);
        self.set(Field::ScanTail, self.tails());
        self.set(Field::Expiring, 1);
        self.set(Field::Namespaces, u64::from(self.has_invalid_namespaces()));
    }

    /// Makes versions even, and cuts invalid chains. Returns the spare buckets in use.
    fn repair_chains(&self) -> Checked<Vec<bool>> {
        let spares = self.layout.spares(self.buckets());
        let mut used = vec![false; spares as usize];
        for number in 0..self.buckets() {
            let mut bucket = self.main_bucket(number);
            bucket.repair();
            let mut buckets = 1;
            while let Some(spare) = bucket.next_spare() {
                if buckets == CHAIN_BUCKETS_MAX {
                    // No writer makes a chain this long. A cache may forget items, a store may not.
                    ensure(!self.is_store(), || format!("the chain of bucket {number}"))?;
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
                bucket = self.spare_bucket(spare);
            }
        }
        Ok(used)
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

    /// Makes the heap of a store anew from the items in the index, and counts those that no flush
    /// has made unreachable. Returns the item in the reserve, if there is one; `None` if the items
    /// overlap.
    fn rebuild_heap(&self, writer: &Writer<'_>) -> Option<Option<Found>> {
        let mut blocks = Starts::of(self);
        let mut waiting = None;
        let (mut items_live, mut units_live) = (0, 0);
        let mut stamp = self.get(Field::Stamp);
        for number in 0..self.buckets() {
            for bucket in self.chain(self.main_bucket(number)) {
                for (slot, entry) in bucket.entries().into_iter().map(Entry).enumerate() {
                    if let Some(place) = self.place(entry) {
                        let header = self.header(place.position);
                        stamp = stamp.max(self.stamp(&place, header));
                        if self.is_in_reserve(place.position) {
                            waiting = Some(writer.found_at(bucket.slot_word(slot), place));
                        } else if !blocks.insert(place.position) {
                            return None;
                        }
                        if !self.is_flushed_from_store(&place, header) {
                            items_live += 1;
                            units_live += header.units();
                        }
                    }
                }
            }
        }
        self.set(Field::ItemsLive, items_live);
        self.set(Field::UnitsLive, units_live);
        self.set(Field::Stamp, stamp);
        let first = self.layout.heap_first();
        let end = self.get(Field::DataEnd) as usize;
        let units = |position| (position, self.header(position).units() as usize);
        let blocks = blocks.iter().map(units);
        let rebuilt = self.heap().rebuild(first, end, blocks);
        rebuilt.then_some(waiting)
    }
}

impl Writer<'_> {
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
                self.close_gaps(source);
                if p.get(Field::SpareFree) == 0 {
                    return false;
                }
            }
            self.tidy(source, &[]);
        }
        true
    }

    /// Moves entries until one finds no place. Returns whether all have moved.
    fn finish_some(&self, source: Bucket<'_>, target: Bucket<'_>, buckets: Buckets) -> bool {
        let p = self.partition;
        for bucket in p.chain(source) {
            for slot in 0..BUCKET_ENTRIES {
                let entry = bucket.entry(slot);
                if self.is_sound(entry)
                    && p.place(entry).is_some_and(|place| self.is_in_last(&place, buckets))
                {
                    if !self.is_in_chain(target, entry) {
                        let Some(word) = self.free_slot(target) else {
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
            && (!p.is_store() || p.stamp(&place, header) < STAMP_END)
    }

    /// Removes entries that dangle, that lead to busy items (`busy`: their positions, in order), or
    /// that exist twice, and frees spare buckets that are empty.
    fn tidy(&self, main: Bucket<'_>, busy: &[usize]) {
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
                    None => self.ghost_age(entry).is_some(),
                };
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
