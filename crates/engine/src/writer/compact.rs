//! Room in a store whose free space is scattered: items move down, a few at a time, so that free
//! blocks become one.
//!
//! A pass goes through the blocks from its begin to the end of the space. An item that it comes to
//! moves to a free block below: the best fit if that lies below, else the front of the free block
//! just before the item, if it is large enough. So the free block that the pass drags along grows,
//! and at the end of the pass it is the last block. An item stays where it is if nothing below is
//! large enough: then it is larger than the free block just before it. So after a pass from the
//! first block on, the free blocks other than the last are together smaller than the items that
//! stayed: in a store whose items take a hundredth of its space, the last block has 98 % of it.
//!
//! A move writes the copy beside, points the entry to it, and frees the old block, with the version
//! of the bucket odd: readers see either place, and a process that is killed leaves one of them in
//! the index, whose item is whole.
//!
//! It is done for the index, when an item lies where the next bucket is to be; for an item that no
//! free block is large enough for; and in a sparse store whose free space is not at its end, before
//! many new items have come between the old ones. A pass begins near the end of the space, where the copying
//! of a few items makes room for the index. If it did not make the room, the next one begins at the
//! first block, and so do those of a sparse store.

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::{AtomicU64, fence};

use crate::index::entry::Entry;
use crate::limits::{
    COMPACT_FREE_SHARE, COMPACT_INDEX_UNITS, COMPACT_ITEM_UNITS, COMPACT_PER_ITEM_UNIT,
    COMPACT_SAMPLE_BUCKETS, COMPACT_VISIT_UNITS, SCATTERED_SHARE, SPARSE_SHARE,
};
use crate::log::Which;
use crate::partition::{Field, Place};
use crate::writer::{Found, Writer};

/// Calls that end without a pass, after a pass from the first block that made no room: one for so
/// many buckets.
const BUCKETS_PER_PAUSE: u64 = 8;

/// How far the compaction of a partition is, beside the heap's cursor. Only the writer uses it.
#[derive(Debug)]
pub(crate) struct Compaction {
    /// Work that calls have done beyond what they may do, in units: the next ones do less.
    debt_units: AtomicU64,
    /// Whether the next pass begins at the first block.
    whole: AtomicU64,
    /// Calls to come that do nothing.
    pause: AtomicU64,
    /// The bucket at which the begin of the next pass is looked for.
    bucket: AtomicU64,
    /// Units of all items that were moved.
    moved_units: AtomicU64,
}

impl Compaction {
    pub fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            debt_units: zero(),
            whole: zero(),
            pause: zero(),
            bucket: zero(),
            moved_units: zero(),
        }
    }

    pub fn moved_units(&self) -> u64 {
        self.moved_units.load(Relaxed)
    }
}

/// What a pass has come to.
#[derive(Clone, Copy)]
struct Gap {
    /// Units of the free block there.
    units: u64,
    /// Whether it is the last block.
    last: bool,
}

impl Writer<'_> {
    /// Does a bounded piece of a compaction, so that the last `units` of the space become free.
    /// Returns whether they are.
    #[cold]
    pub fn compact_for_index(&self, units: u64, units_max: u64) -> bool {
        self.compact(units_max, |gap| gap.last && gap.units >= units)
    }

    /// After an item of `units` has got its space: does a bounded piece of a compaction if the store
    /// is sparse and much of its free space is not at the end.
    #[inline]
    pub fn compact_if_sparse(&self, units: u64) {
        let heap = self.partition.heap();
        let (all, free) = (heap.units(), heap.units_free());
        let scattered = free.saturating_sub(heap.units_free_at_end());
        if all.saturating_sub(free) * SPARSE_SHARE <= all && scattered * SCATTERED_SHARE > free {
            self.compact_sparse(units);
        }
    }

    #[cold]
    fn compact_sparse(&self, units: u64) {
        let heap = self.partition.heap();
        if heap.cursor().is_none() {
            self.partition.compaction.whole.store(1, Relaxed);
        }
        let most = COMPACT_INDEX_UNITS + COMPACT_PER_ITEM_UNIT * units;
        self.compact(most, |gap| gap.last);
    }

    /// Does a bounded piece of a compaction, so that there is a free block of `units`. Returns
    /// whether there is.
    #[cold]
    pub fn compact_for_item(&self, units: u64) -> bool {
        let most = COMPACT_ITEM_UNITS + COMPACT_PER_ITEM_UNIT * units;
        self.compact(most, |gap| gap.units >= units)
    }

    /// Compacts until it is enough, or `units_max` units of work are done; one move may exceed them.
    fn compact(&self, units_max: u64, is_enough: impl Fn(Gap) -> bool) -> bool {
        let heap = self.partition.heap();
        let state = &self.partition.compaction;
        if heap.units_free() * COMPACT_FREE_SHARE < heap.units() {
            return false;
        }
        let pause = state.pause.load(Relaxed);
        if pause > 0 {
            state.pause.store(pause - 1, Relaxed);
            return false;
        }
        let mut left = units_max as i64 - state.debt_units.load(Relaxed) as i64;
        let made = self.compact_within(&mut left, is_enough);
        let debt = if left < 0 { left.unsigned_abs() } else { 0 };
        state.debt_units.store(debt, Relaxed);
        if made {
            state.whole.store(0, Relaxed);
        }
        made
    }

    fn compact_within(&self, left: &mut i64, is_enough: impl Fn(Gap) -> bool) -> bool {
        let heap = self.partition.heap();
        while *left > 0 {
            let cursor = heap.cursor().unwrap_or_else(|| self.begin_of_pass());
            let Some(position) = heap.next_allocated(cursor) else {
                heap.set_cursor(None);
                let units = heap.units_free_at(cursor) as u64;
                if is_enough(Gap { units, last: true }) {
                    return true;
                }
                if self.end_in_vain() {
                    return false;
                }
                continue;
            };
            *left -= COMPACT_VISIT_UNITS;
            let header = self.partition.header(position);
            if !self.partition.has_room(position, header) {
                // Of a damaged image: it does not say where the next block begins.
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
            if is_enough(Gap { units, last: false }) {
                return true;
            }
        }
        false
    }

    /// Where the next pass begins: at the item that is nearest to the end, of those in some
    /// buckets; or at the first block.
    fn begin_of_pass(&self) -> usize {
        let p = self.partition;
        let state = &p.compaction;
        let first = p.heap().first();
        if state.whole.load(Relaxed) != 0 {
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

    /// A pass has ended without the room that was asked for. Returns whether no other one follows
    /// at once.
    fn end_in_vain(&self) -> bool {
        let state = &self.partition.compaction;
        let whole = state.whole.load(Relaxed) != 0;
        if whole {
            let pause = self.partition.buckets() / BUCKETS_PER_PAUSE;
            state.pause.store(pause, Relaxed);
        }
        state.whole.store(u64::from(!whole), Relaxed);
        whole
    }

    /// Moves the item at a position to a lower one, or removes it if it has expired or was
    /// invalidated. False if it stays.
    fn move_down(&self, position: usize, left: &mut i64) -> bool {
        let p = self.partition;
        let place = store_place(position);
        let header = p.header(position);
        if header.is_busy() || !p.holds(position, header) {
            return false;
        }
        let hash = self.hash_at(position);
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
        let Some(target) = self.copy_below(&found) else {
            return false;
        };
        let units = p.header(target.position).units();
        p.bucket(hash).write(|| {
            let entry = self.entry_of(hash, &target);
            p.word(slot).store(entry.0, Release);
            // Whoever finds the image after a kill finds the entry changed before the item is.
            fence(Release);
            p.heap().free(position);
        });
        p.subtract(Field::UnitsLive, found.header.units());
        p.add(Field::UnitsLive, units);
        p.add(Field::Moves, 1);
        let moved = p.compaction.moved_units() + units;
        p.compaction.moved_units.store(moved, Relaxed);
        *left -= units as i64;
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
        let header = if found.header.cas_given() {
            header.with_cas_given()
        } else {
            header
        };
        let header = header
            .with_frequency(found.header.frequency())
            .with_fetched(found.header.is_fetched())
            .with_heap_bits_of(p.header(position));
        self.copy_item(found, position, header, cas);
        Some(store_place(position))
    }
}

const fn store_place(position: usize) -> Place {
    Place {
        log: Which::Small,
        offset: position as u64,
        position,
    }
}
