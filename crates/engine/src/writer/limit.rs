//! Follows the limit of the memory of a partition, bit by bit, as upkeep.
//!
//! For less memory the space of items ends earlier. A log evicts its oldest items, and moves the others to
//! its beginning; items of the small log move to main, as long as that has room. A heap moves items down.
//! For more memory the end of the space rises, and a log moves what is left of the lap before to its tail,
//! so that the lap goes on into the new space.
//!
//! The header holds the gaps. A gap becomes longer once nothing lies in it, and before the data space ends
//! at it. It becomes shorter after the data space has grown. So a killed process leaves a data space that
//! is too long at most, and recovery computes its end from the gap.

use micanite_memory::sync::Ordering::Relaxed;

use crate::access::Epochs;
use crate::limits::{FOLLOW_UNITS, FOLLOW_VISIT_UNITS};
use crate::log::LogKind;
use crate::partition::Place;
use crate::partition::limit::{Gap, Gaps};
use crate::region::{Field, LogField, copy_budget};
use crate::writer::Writer;

/// Bytes that are given back in the time in which one is copied.
const RETURN_COST_SHARE: usize = 4;
/// Bytes charged for a new end of a space: the kernel clears a huge page there, or fills pages of a file.
const NEW_END_BYTES: usize = 2 << 20;
/// Least units by which the space of a store is shortened at a time, unless it then has its length.
const HEAP_STEP_UNITS: u64 = 8 << 10;

impl Writer<'_> {
    /// Brings the memory of the partition nearer to its limit: bounded work.
    pub fn follow_limit(&self) {
        let p = self.partition;
        let wanted = p.layout.gaps(p.limit.words());
        if p.gaps() != wanted {
            self.change_gaps(wanted);
        } else {
            p.end_change_of_limit();
            self.unroll();
        }
    }

    /// Gives some pages that the limit leaves unused back to the system.
    pub fn return_pages(&self, epochs: &Epochs, has_outside_readers: bool) {
        if !copy_budget::is_spent() {
            let returned = self.partition.return_pages(epochs, has_outside_readers);
            copy_budget::spend(returned as usize / RETURN_COST_SHARE);
        }
    }

    fn change_gaps(&self, wanted: Gaps) {
        let p = self.partition;
        let mut left_units = FOLLOW_UNITS;
        let now = p.gaps();
        let mut shortens = false;
        if wanted.small > now.small || wanted.main > now.main {
            p.limit.unrolls.store(0, Relaxed);
        }
        let small_units = p.layout.small_units() - wanted.small;
        let end = || p.layout.data_end(p.buckets()) - wanted.main;
        if wanted.small < now.small {
            self.lengthen_small(now.small, wanted.small);
        } else if wanted.small > now.small {
            match self.shorten_log(LogKind::Small, small_units, end(), &mut left_units) {
                true => p.set(Field::SmallGap, wanted.small),
                false => shortens = true,
            }
        }
        // Items that have moved to main may have let the index grow.
        let end = end();
        if wanted.main <= now.main {
            p.limit.heap_units_max.store(u64::MAX, Relaxed);
            self.raise_end(now.main, wanted.main);
        } else if p.is_store() {
            self.lower_heap(end);
        } else {
            let first = p.log(LogKind::Main).get(LogField::First);
            let is_short = self.shorten_log(LogKind::Main, end - first, end, &mut left_units);
            if is_short && p.log(LogKind::Main).lower_end(end) {
                self.end_data_at(end, wanted.main);
            } else {
                shortens = true;
            }
        }
        p.limit.shortens.store(u64::from(shortens), Relaxed);
    }

    /// Ends the data space where nothing lies behind.
    fn end_data_at(&self, end: u64, gap: u64) {
        debug_assert_eq!(end, self.partition.layout.data_end(self.partition.buckets()) - gap);
        self.partition.set(Field::MainGap, gap);
        self.partition.set(Field::DataEnd, end);
    }

    fn lengthen_small(&self, now: u64, wanted: u64) {
        let p = self.partition;
        if copy_budget::is_spent() {
            return;
        }
        copy_budget::spend(NEW_END_BYTES);
        let end = p.log(LogKind::Main).get(LogField::First);
        let Some(gap) = p.shorten_gap(end - now, now, wanted) else {
            return;
        };
        p.set(Field::SmallGap, gap);
        p.shrink_hole(Gap::Small);
        p.log(LogKind::Small).set(LogField::Limit, p.layout.small_units() - gap);
        p.limit.unrolls.store(1, Relaxed);
    }

    fn raise_end(&self, now: u64, wanted: u64) {
        let p = self.partition;
        if now == wanted || copy_budget::is_spent() {
            return;
        }
        copy_budget::spend(NEW_END_BYTES);
        let Some(gap) = p.shorten_gap(p.data_end(p.buckets()), now, wanted) else {
            return; // the file system has no space, and may have it later
        };
        let end = p.layout.data_end(p.buckets()) - gap;
        p.set(Field::DataEnd, end);
        p.set(Field::MainGap, gap);
        p.shrink_hole(Gap::Main);
        if p.is_store() {
            p.heap().raise_end(end as usize);
        } else {
            let log = p.log(LogKind::Main);
            log.set(LogField::Limit, end - log.get(LogField::First));
            p.limit.unrolls.store(1, Relaxed);
        }
    }

    /// Lowers the end of a heap as far as the free space at its end allows, and moves items down.
    fn lower_heap(&self, end: u64) {
        let p = self.partition;
        let heap = p.heap();
        p.limit.heap_units_max.store(p.heap_units_until(end), Relaxed);
        let now = p.get(Field::DataEnd);
        let lowest = (heap.end() - heap.units_free_at_end()) as u64;
        let reached = end.max(lowest);
        let is_step = reached == end || reached + HEAP_STEP_UNITS <= now;
        if is_step && !copy_budget::is_spent() && heap.lower_end(reached as usize) {
            copy_budget::spend(NEW_END_BYTES);
            self.end_data_at(reached, p.layout.data_end(p.buckets()) - reached);
        }
        if reached > end {
            self.compact_for_limit();
        }
    }

    /// Evicts the oldest items of a log until the others can end within `units`, and moves those that lie
    /// behind that. Main is to end at the word `main_end`: as long as it has room, it takes the items of the
    /// small log. Returns whether nothing lies behind.
    pub(super) fn shorten_log(
        &self,
        which: LogKind,
        units: u64,
        main_end: u64,
        left_units: &mut i64,
    ) -> bool {
        let p = self.partition;
        let log = p.log(which);
        if log.get(LogField::Limit) > units {
            log.set(LogField::Limit, units);
        }
        loop {
            let [tail, head, lap, before] =
                [LogField::Tail, LogField::Head, LogField::LapStart, LogField::LapBefore]
                    .map(|field| log.get(field));
            let is_alone = head >= lap;
            if tail - lap <= units && (is_alone || lap - before <= units) {
                return true;
            }
            if *left_units <= 0 || copy_budget::is_spent() {
                return false;
            }
            if is_alone {
                log.set(LogField::LapBefore, lap);
                log.set(LogField::LapStart, tail);
                continue;
            }
            let position = log.position(head);
            let header = p.header(position);
            if !log.can_step(head, header) {
                self.skip_lap(which);
                continue;
            }
            *left_units -= header.units() as i64 + FOLLOW_VISIT_UNITS;
            let fits = tail - head <= units;
            let place = Place { log: which, offset: head, position };
            if fits && self.requeue_living(place, header) {
                continue;
            }
            let takes = which == LogKind::Small && self.main_takes(header.units(), main_end);
            if takes && self.promote_living(place, header) {
                continue;
            }
            if self.pass_head(which, &mut 0).is_err() {
                return false;
            }
        }
    }

    /// Returns whether main, which is to end at a word, takes an item without an eviction.
    fn main_takes(&self, units: u64, main_end: u64) -> bool {
        let main = self.partition.log(LogKind::Main);
        let limit = (main_end - main.get(LogField::First)).min(main.get(LogField::Limit));
        main.get(LogField::Head) >= main.get(LogField::LapStart) && main.lap_units() + units <= limit
    }

    /// Lets the laps of the logs go on into more space, once nothing is left of the laps before. Then a log
    /// counts as one that fills for the first time.
    fn unroll(&self) {
        let p = self.partition;
        if p.limit.unrolls.load(Relaxed) == 0 {
            return;
        }
        let mut left_units = FOLLOW_UNITS;
        let are_done = [LogKind::Small, LogKind::Main].map(|which| self.unroll_log(which, &mut left_units));
        if are_done == [true; 2] {
            p.limit.unrolls.store(0, Relaxed);
        }
    }

    /// Moves what is left of the lap before to the tail. Returns whether nothing is left.
    fn unroll_log(&self, which: LogKind, left_units: &mut i64) -> bool {
        let log = self.partition.log(which);
        loop {
            let (head, lap) = (log.get(LogField::Head), log.get(LogField::LapStart));
            if head >= lap {
                log.set(LogField::LapBefore, lap);
                return true;
            }
            if *left_units <= 0 || copy_budget::is_spent() {
                return false;
            }
            let position = log.position(head);
            let header = self.partition.header(position);
            if !log.can_step(head, header) {
                self.skip_lap(which);
                continue;
            }
            *left_units -= header.units() as i64 + FOLLOW_VISIT_UNITS;
            let is_moved = self.requeue_living(Place { log: which, offset: head, position }, header);
            if !is_moved && self.pass_head(which, &mut 0).is_err() {
                return false;
            }
        }
    }
}
