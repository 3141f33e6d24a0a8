//! Compaction of a store whose free space is scattered: items move down, a few at a time, so that
//! free blocks become one.
//!
//! A pass visits the blocks from its beginning to the end of the space. Each item moves to a free
//! block below: the best fit if that lies below, else the front of the free block just before the
//! item, if it is large enough. So the free block just before the pass grows, and at the end of the
//! pass it is the last block. An item stays where it is if no block below is large enough: then it
//! is larger than the free block just before it. So after a pass from the first block on, the free
//! blocks other than the last are together smaller than the items that stayed: in a store whose
//! items take a hundredth of its space, the last block has 98 % of it.
//!
//! A move writes the copy, points the entry to it, and frees the old block, with the version of the
//! bucket odd: readers see either place, and a process that is killed leaves one of them in the
//! index, whose item is whole.
//!
//! Three cases need a compaction: the index, when an item lies where the next bucket is to be; an
//! item that no free block is large enough for; and a sparse store whose free space is not at its
//! end, before many new items come between the old ones. After a refusal upkeep continues it. A
//! pass begins near the end of the space, where the copying of a few items makes space for the
//! index. If it did not make the space, the next one begins at the first block, and so do those of
//! a sparse store.

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;

use crate::index::entry::Entry;
use crate::limits::{
    COMPACT_FREE_SHARE, COMPACT_INDEX_UNITS, COMPACT_ITEM_UNITS, COMPACT_PER_ITEM_UNIT,
    COMPACT_SAMPLE_BUCKETS, COMPACT_VISIT_UNITS, FOLLOW_UNITS, SCATTERED_SHARE, SPARSE_SHARE,
};
use crate::log::LogKind;
use crate::partition::Place;
use crate::region::{Field, copy_budget};
use crate::writer::{Found, Writer};

use crate::partition::compaction::{Aim, Gap};

/// Buckets for each call that ends at once, after a pass from the first block that made no space.
/// Calls for an item continue if more space is free than before, or they need less.
const BUCKETS_PER_PAUSE: u64 = 8;

impl Writer<'_> {
    /// Does a bounded part of a compaction, so that the last `units` of the space become free.
    /// Returns whether they are.
    #[cold]
    pub fn compact_for_index(&self, units: u64, units_max: u64) -> bool {
        self.compact(units_max, Aim::End(units))
    }

    /// Does a bounded part of a compaction if the store is sparse and much of its free space is not
    /// at the end. Called after space for an item of `units` was reserved.
    #[inline]
    pub fn compact_if_sparse(&self, units: u64) {
        let heap = self.partition.heap();
        let (all, free) = (heap.units(), heap.units_free());
        let scattered = free.saturating_sub(heap.units_free_at_end());
        if all.saturating_sub(free) * SPARSE_SHARE <= all && scattered * SCATTERED_SHARE > free {
            self.compact_sparse(units, free as u64, scattered as u64);
        }
    }

    #[cold]
    fn compact_sparse(&self, units: u64, free: u64, scattered: u64) {
        let state = &self.partition.compaction;
        let most = COMPACT_INDEX_UNITS + COMPACT_PER_ITEM_UNIT * units;
        if state.is_settled(free, scattered) || !copy_budget::allows(most as usize * 8) {
            return;
        }
        if self.partition.heap().cursor().is_none() {
            state.whole.store(1, Relaxed);
        }
        self.compact(most, Aim::Pass);
    }

    /// Does a bounded part of a compaction, so that a free block of `units` exists. Returns whether
    /// it does.
    #[cold]
    pub fn compact_for_item(&self, units: u64) -> bool {
        let most = COMPACT_ITEM_UNITS + COMPACT_PER_ITEM_UNIT * units;
        // Moves free no space; the sweep removes expired items.
        let may_help = self.partition.heap().units_free() as u64 >= units;
        may_help && self.compact(most, Aim::Block(units))
    }

    /// Continues a pass, as upkeep, if an insertion was refused that a compaction could make space
    /// for, until a pass from the first block has ended.
    pub fn compact_for_refused(&self) {
        let (p, state) = (self.partition, &self.partition.compaction);
        let allowed = copy_budget::allows(COMPACT_ITEM_UNITS as usize * 8);
        if !p.is_store() || state.refused.load(Relaxed) == 0 || !allowed {
            return;
        }
        if p.heap().cursor().is_none() {
            state.whole.store(1, Relaxed);
        }
        let whole = state.whole.load(Relaxed);
        if self.compact(COMPACT_ITEM_UNITS, Aim::Pass) {
            // After a pass from near the end follows one from the first block.
            state.refused.store(1 - whole, Relaxed);
        }
    }

    /// Continues a pass from the first block, as upkeep, so that the space can end earlier.
    pub fn compact_for_limit(&self) {
        if copy_budget::is_spent() {
            return;
        }
        if self.partition.heap().cursor().is_none() {
            self.partition.compaction.whole.store(1, Relaxed);
        }
        self.compact(FOLLOW_UNITS as u64, Aim::Pass);
    }

    /// Compacts until the aim is met, or `units_max` units of work are done; one move may exceed
    /// them.
    fn compact(&self, units_max: u64, aim: Aim) -> bool {
        let heap = self.partition.heap();
        let state = &self.partition.compaction;
        let free = heap.units_free();
        if free * COMPACT_FREE_SHARE < heap.units() || state.holds_back(aim, free as u64) {
            return false;
        }
        let of_item = matches!(aim, Aim::Block(_));
        let debt = if of_item { 0 } else { state.debt_units.load(Relaxed) };
        let mut left = units_max as i64 - debt as i64;
        let made = self.compact_within(&mut left, aim);
        if !of_item {
            let debt = if left < 0 { left.unsigned_abs() } else { 0 };
            state.debt_units.store(debt, Relaxed);
        }
        if made {
            state.whole.store(0, Relaxed);
        }
        if units_max >= COMPACT_ITEM_UNITS && !matches!(aim, Aim::Pass) {
            state.refused.store(u64::from(!made), Relaxed);
        }
        made
    }

    fn compact_within(&self, left: &mut i64, aim: Aim) -> bool {
        let heap = self.partition.heap();
        while *left > 0 {
            let cursor = heap.cursor().unwrap_or_else(|| self.begin_of_pass());
            let Some(position) = heap.next_allocated(cursor) else {
                heap.set_cursor(None);
                let units = heap.units_free_at(cursor) as u64;
                self.note_end(units);
                if aim.is_met(Gap { units, last: true }) {
                    return true;
                }
                if self.end_without_space(aim) {
                    return false;
                }
                continue;
            };
            spend(left, COMPACT_VISIT_UNITS);
            let state = &self.partition.compaction;
            state.visits.store(state.visits.load(Relaxed) + 1, Relaxed);
            let header = self.partition.header(position);
            if !self.partition.has_room(position, header) {
                // The image is damaged: the header does not tell where the next block begins.
                heap.set_cursor(None);
                return false;
            }
            let units = header.units();
            heap.set_cursor(Some(position));
            if !self.move_down(position, left) {
                heap.set_cursor(Some(position + units as usize));
                continue;
            }
            let units = heap.cursor().map_or(0, |gap| heap.units_free_at(gap)) as u64;
            if aim.is_met(Gap { units, last: false }) {
                return true;
            }
        }
        false
    }

    /// Returns the beginning of the next pass: the item nearest to the end, among those in some
    /// buckets, or the first block.
    fn begin_of_pass(&self) -> usize {
        let p = self.partition;
        let state = &p.compaction;
        let first = p.heap().first();
        if state.whole.load(Relaxed) != 0 {
            let free = p.heap().units_free() as u64;
            state.free_at_begin.store(free, Relaxed);
            return first;
        }
        let buckets = p.buckets();
        let from = state.bucket.load(Relaxed);
        let mut numbers = (from..from + COMPACT_SAMPLE_BUCKETS.min(buckets)).map(|n| n % buckets);
        let entries = numbers.clone().flat_map(|n| p.main_bucket(n).entries());
        let places = entries.filter_map(|entry| p.place(Entry(entry)));
        let nearest = places.map(|place| place.position).max();
        let next = numbers.next_back().map_or(0, |number| number + 1);
        state.bucket.store(next, Relaxed);
        nearest.map_or(first, |nearest| nearest.max(first))
    }

    /// Records the end of a pass, with this many free units at the end of the space.
    fn note_end(&self, units_at_end: u64) {
        let state = &self.partition.compaction;
        if state.whole.load(Relaxed) != 0 {
            let free = self.partition.heap().units_free() as u64;
            state.settled_free.store(free, Relaxed);
            let scattered = free.saturating_sub(units_at_end);
            state.settled_scattered.store(scattered, Relaxed);
        }
    }

    /// Records that a pass has ended without the requested space. Returns whether no other pass
    /// follows at once.
    fn end_without_space(&self, aim: Aim) -> bool {
        let state = &self.partition.compaction;
        let whole = state.whole.load(Relaxed) != 0;
        if whole {
            let pause = self.partition.buckets() / BUCKETS_PER_PAUSE;
            state.pause.store(pause, Relaxed);
            // The needs of an item and of the index differ.
            let units = match aim {
                Aim::Block(units) => units,
                Aim::End(_) | Aim::Pass => u64::MAX,
            };
            state.failed_units.store(units, Relaxed);
            let free = state.free_at_begin.load(Relaxed);
            state.failed_free.store(free, Relaxed);
        }
        state.whole.store(u64::from(!whole), Relaxed);
        whole
    }

    /// Moves the item at a position down, or removes it if it has expired or was invalidated.
    /// Returns false if it stays.
    fn move_down(&self, position: usize, left: &mut i64) -> bool {
        let p = self.partition;
        let place = store_place(position);
        let header = p.header(position);
        if header.is_busy() || !p.holds(position, header) {
            return false;
        }
        let hash = p.hash_at(position);
        // An item that is not in the index yet stays.
        let Some(slot) = self.slot_of(hash, self.entry_of(hash, &place)) else {
            return false;
        };
        let found = self.found_at(slot, place);
        if found.expiry.has_passed(self.now_s) {
            self.expire(hash, &found);
            return true;
        }
        if self.is_invalid(&found) {
            self.remove(hash, &found);
            return true;
        }
        let Some(found) = self.cleaned(hash, found) else {
            return true;
        };
        let Some(target) = self.copy_below(&found) else {
            return false;
        };
        let units = p.header(target.position).units();
        p.bucket(hash).write(|| {
            let entry = self.entry_of(hash, &target);
            p.word(slot).store(entry.0, Release);
            // The entry changes before the item does, for a process that recovers the image after a
            // kill.
            fence(Release);
            p.heap().free(position);
        });
        p.subtract(Field::UnitsLive, found.header.units());
        p.add(Field::UnitsLive, units);
        p.add(Field::Moves, 1);
        let moved = p.compaction.moved_units() + units;
        p.compaction.moved_units.store(moved, Relaxed);
        spend(left, units);
        true
    }

    /// Writes a copy of an item into a block below it, if there is one.
    fn copy_below(&self, found: &Found) -> Option<Place> {
        let p = self.partition;
        let cas = self.cas_to_keep(found);
        let shape = found.shape(cas.is_some());
        let units = shape.units() as usize;
        let position = p.heap().allocate_below(found.place.position, units)?;
        let Some(header) = shape.header_in(p.header(position).units()) else {
            p.heap().free(position);
            return None;
        };
        let header = if found.header.cas_given() { header.with_cas_given() } else { header };
        let header = header
            .with_frequency(found.header.frequency())
            .with_fetched(found.header.is_fetched())
            .with_heap_bits_of(p.header(position));
        self.copy_item(found, position, header, cas);
        Some(store_place(position))
    }
}

/// Charges work to a call, and to its turn.
fn spend(left: &mut i64, units: u64) {
    *left -= units as i64;
    copy_budget::spend(units as usize * 8);
}

const fn store_place(position: usize) -> Place {
    Place { log: LogKind::Small, offset: position as u64, position }
}
