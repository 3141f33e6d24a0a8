//! The pages of a partition that are committed: all but those of holes, which lie in its two gaps.
//!
//! A hole takes no memory, and no space of a file system. A touch would make its page present again: beyond
//! the limit, and in a full file system it would end the process. So pages go back in this order:
//!
//! 1. The header has the gap, and the hole is noted. Whoever looks from now on stays out of it.
//! 2. Each worker has left the batch in which it could have looked before ([`Epochs`]).
//! 3. Nobody else pins the pages: walks, copies, moves to NUMA nodes, and huge pages do. They wait meanwhile.
//!
//! Pages come again before they leave the hole. Other processes that read files are in no batch: they look at
//! the gaps of the header, and get [`OUTSIDE_GRACE`] between two looks.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use micanite_memory::HUGE_PAGE_BYTES;
use micanite_memory::sync::Ordering::Relaxed;
use micanite_memory::sync::{AtomicBool, AtomicU64};

use crate::access::Epochs;
use crate::index::walkers::{Walkers, Walking};
use crate::limits::{BUCKET_WORDS, COLLAPSE_PAGES_MAX, RETURN_BYTES_MAX, RETURN_BYTES_MIN};
use crate::log::LogKind;
use crate::partition::Partition;
use crate::partition::limit::{Gap, Gaps};
use crate::region::{Field, LogField};

/// Time in which another process uses what it has read in the header.
const OUTSIDE_GRACE: Duration = Duration::from_secs(1);

/// A range of bytes, from the first to before the second.
type Range = (u64, u64);

const NOWHERE: Range = (u64::MAX, 0);

fn common(one: Range, other: Range) -> Range {
    let (first, end) = (one.0.max(other.0), one.1.min(other.1));
    if first < end { (first, end) } else { NOWHERE }
}

fn bytes(range: Range) -> u64 {
    range.1.saturating_sub(range.0)
}

/// A range that the writer changes, and any thread looks at.
#[derive(Debug)]
struct Noted([AtomicU64; 2]);

impl Default for Noted {
    fn default() -> Self {
        Self([AtomicU64::new(NOWHERE.0), AtomicU64::new(NOWHERE.1)])
    }
}

impl Noted {
    fn get(&self) -> Range {
        let [first, end] = &self.0;
        (first.load(Relaxed), end.load(Relaxed))
    }

    /// Notes a range that contains the one before, or lies in it, so that a mixture of both does as well.
    fn set(&self, (first, end): Range) {
        self.0[0].store(first, Relaxed);
        self.0[1].store(end, Relaxed);
    }
}

/// The moment at which holes were noted that have still pages.
#[derive(Debug)]
struct Grace {
    began: Instant,
    moment: Box<[u64]>,
}

/// Holes of a partition, and who keeps pages from going back.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    holes: [Noted; 2],
    /// The parts of the holes whose pages have gone back.
    given: [Noted; 2],
    /// True if a reader has to look where the holes are.
    has_holes: AtomicBool,
    /// True if another process writes the partition.
    is_foreign: bool,
    pins: Walkers,
    /// True if the file system had no space for more of the index: it is tried again in upkeep.
    has_no_margin: AtomicBool,
    /// Locked by the writer, in upkeep.
    grace: Mutex<Option<Grace>>,
    /// Bytes at the beginning of the region, and at its end, with huge pages under them.
    collapsed: [AtomicU64; 2],
}

impl Pages {
    /// Keeps pages from going back until the result is dropped: for threads outside of a batch. Waits for
    /// one call to the system.
    pub fn pin(&self) -> Walking {
        self.pins.enter()
    }
}

impl Partition {
    /// Returns whether words can be touched: they are in the region, and in no hole. What a reader has read
    /// beside the writer may lead anywhere.
    #[inline(always)]
    pub fn is_present(&self, first_word: usize, words: usize) -> bool {
        let end = first_word.saturating_add(words);
        end <= self.region.words()
            && (!self.pages.has_holes.load(Relaxed) || self.is_committed(first_word, end))
    }

    #[inline(never)]
    fn is_committed(&self, first_word: usize, end_word: usize) -> bool {
        let range = (first_word as u64 * 8, end_word as u64 * 8);
        let holes = match self.pages.is_foreign {
            true if self.gaps() == Gaps::default() => return true,
            true => [Gap::Small, Gap::Main].map(|gap| self.pages_of(gap)),
            false => self.pages.holes.each_ref().map(Noted::get),
        };
        holes.into_iter().all(|hole| bytes(common(hole, range)) == 0)
    }

    /// Returns the ranges of bytes that are committed, in order.
    fn committed(&self) -> [Range; 3] {
        let [small, main] = self.pages.holes.each_ref().map(Noted::get);
        let end = self.region.words() as u64 * 8;
        // A hole that is nowhere ends the range before it nowhere.
        let (small, main) = match (bytes(small), bytes(main)) {
            (0, 0) => ((end, end), (end, end)),
            (0, _) => (main, (end, end)),
            (_, 0) => (small, (end, end)),
            _ => (small, main),
        };
        [(0, small.0), (small.1, main.0), (main.1, end)]
    }

    /// Records that the partition is another process's, whose gaps may change.
    pub fn set_foreign(&mut self) {
        self.pages.is_foreign = true;
        self.pages.has_holes.store(true, Relaxed);
    }

    fn note_hole(&self, gap: Gap, hole: Range, given: Range) {
        self.pages.holes[gap as usize].set(hole);
        self.pages.given[gap as usize].set(given);
        let has_holes = self.pages.holes.iter().any(|hole| bytes(hole.get()) > 0);
        self.pages.has_holes.store(has_holes, Relaxed);
    }

    /// Records that the pages of the gaps were never present.
    pub fn note_holes(&self) {
        let holes = self.layout.holes(self.gaps(), self.buckets(), self.region.page_bytes());
        for (gap, hole) in [Gap::Small, Gap::Main].into_iter().zip(holes) {
            let hole = if bytes(hole) > 0 { hole } else { NOWHERE };
            self.note_hole(gap, hole, hole);
        }
    }

    /// Records that the file system has no space for the margin before the index.
    pub fn go_without_margin(&self) {
        self.pages.has_no_margin.store(true, Relaxed);
    }

    /// Returns the ranges of bytes, one in each gap, that need not be present until the index grows.
    pub fn holes_without_margin(&self) -> [Range; 2] {
        [Gap::Small, Gap::Main].map(|gap| self.pages_beside(gap, 0))
    }

    /// Gives all pages of the gaps back to the system, of a partition that no thread uses yet.
    pub fn return_gaps(&self) {
        let has_margin = !self.pages.has_no_margin.load(Relaxed);
        let least = if has_margin { RETURN_BYTES_MIN } else { 1 };
        for gap in [Gap::Small, Gap::Main] {
            let hole = if has_margin { self.pages_of(gap) } else { self.pages_beside(gap, 0) };
            if bytes(hole) >= least {
                self.note_hole(gap, hole, NOWHERE);
                while self.return_some(gap) > 0 {}
            }
        }
    }

    /// Takes what has left a gap at its beginning out of its hole. It is committed ([`Self::commit`]).
    pub fn shrink_hole(&self, gap: Gap) {
        let (first, end) = self.pages.holes[gap as usize].get();
        if self.keep_hole(gap, (self.pages_of(gap).0, end)) {
            // The committed pages are small ones.
            let huge = HUGE_PAGE_BYTES as u64;
            self.pages.collapsed[0].fetch_min(first / huge * huge, Relaxed);
        }
    }

    /// Lets a hole end where a range does. Returns whether it became smaller.
    fn keep_hole(&self, gap: Gap, range: Range) -> bool {
        let before = self.pages.holes[gap as usize].get();
        let hole = common(before, range);
        if hole != before {
            self.note_hole(gap, hole, common(self.pages.given[gap as usize].get(), hole));
        }
        hole != before
    }

    /// Makes the pages of a range of bytes present. Returns false if the file system has no space. Only the
    /// writer may call it.
    pub fn commit(&self, first: u64, end: u64) -> bool {
        [Gap::Small, Gap::Main].into_iter().all(|gap| {
            let part = common(self.pages.holes[gap as usize].get(), (first, end));
            if bytes(part) == 0 {
                return true;
            }
            let page = self.region.page_bytes() as u64;
            let part = (part.0 / page * page, part.1.next_multiple_of(page));
            let is_present = self.region.commit(part.0 as usize, bytes(part) as usize).is_ok();
            let again = common(part, self.pages.given[gap as usize].get());
            if !is_present && bytes(again) > 0 {
                // Some of them may have come.
                drop(self.region.give_back(again.0 as usize, bytes(again) as usize));
            }
            is_present
        })
    }

    /// Makes pages present into which the index may grow. Returns false if the file system has no space.
    fn keep_margin(&self) -> bool {
        let hole = self.pages.holes[Gap::Main as usize].get();
        let end = self.pages_of(Gap::Main).1;
        if bytes(hole) == 0 || hole.1 <= end {
            return true;
        }
        let is_present = self.commit(end, hole.1);
        if is_present {
            self.keep_hole(Gap::Main, (0, end));
        }
        self.pages.has_no_margin.store(!is_present, Relaxed);
        is_present
    }

    /// Returns whether the index may grow by the bucket of a number: pages of a file are not made present by
    /// a store, which would end the process if the disk is full. Makes them present if need be and possible.
    /// Only the writer may call it.
    pub fn may_add_bucket(&self, number: u64) -> bool {
        let lines = self.layout.index_lines(number + 1) - self.layout.index_lines(self.buckets());
        let words = lines as usize * BUCKET_WORDS;
        let is_there = || self.is_present(self.index_first() as usize - words, words);
        is_there() || !self.pages.has_no_margin.load(Relaxed) && self.keep_margin() && is_there()
    }

    /// Returns whether a hole is to become larger, or has pages.
    fn has_pages_left(&self, gap: Gap) -> bool {
        let hole = self.pages.holes[gap as usize].get();
        self.has_more(gap) || hole != self.pages.given[gap as usize].get()
    }

    /// Returns whether a gap has more pages at an end of its hole than may stay.
    fn has_more(&self, gap: Gap) -> bool {
        let (all, hole) = (self.pages_of(gap), self.pages.holes[gap as usize].get());
        match bytes(hole) {
            0 => bytes(all) >= RETURN_BYTES_MIN,
            _ => all.1 >= hole.1 + RETURN_BYTES_MIN || all.0 + RETURN_BYTES_MIN <= hole.0,
        }
    }

    /// Returns whether all pages of the gaps have gone back.
    pub fn has_returned_gaps(&self) -> bool {
        !self.has_pages_left(Gap::Small) && !self.has_pages_left(Gap::Main)
    }

    /// Returns the bytes of a gap whose pages have gone back, for tests.
    #[cfg(all(test, not(any(loom, miri))))]
    pub fn given_bytes(&self, gap: Gap) -> u64 {
        bytes(self.pages.given[gap as usize].get())
    }

    /// Gives some pages of the gaps back to the system, as soon as nobody can touch them. Returns how many
    /// bytes. Only the writer may call it.
    pub fn return_pages(&self, epochs: &Epochs, has_outside_readers: bool) -> u64 {
        // Where the file system has no space for it, pages that go back make some.
        self.keep_margin();
        if self.has_returned_gaps() {
            return 0;
        }
        let mut grace = self.pages.grace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Grace { began, moment }) = &*grace {
            if !epochs.have_passed(moment) || has_outside_readers && began.elapsed() < OUTSIDE_GRACE {
                return 0;
            }
            let gaps = [Gap::Small, Gap::Main];
            let give = || gaps.into_iter().map(|gap| self.return_some(gap)).sum();
            let given = self.pages.pins.without(give);
            if given != Some(0) {
                return given.unwrap_or(0);
            }
        }
        let mut is_new = false;
        for gap in [Gap::Small, Gap::Main].into_iter().filter(|gap| self.has_more(*gap)) {
            let (all, hole) = (self.pages_of(gap), self.pages.holes[gap as usize].get());
            // A margin that could not be made present stays in the hole.
            let hole = (all.0.min(hole.0), all.1.max(hole.1));
            self.note_hole(gap, hole, self.pages.given[gap as usize].get());
            is_new = true;
        }
        *grace = is_new.then(|| Grace { began: Instant::now(), moment: epochs.now() });
        0
    }

    /// Gives the next pages of a hole back, at most [`RETURN_BYTES_MAX`]. Returns how many bytes.
    fn return_some(&self, gap: Gap) -> u64 {
        let (hole, given) = (self.pages.holes[gap as usize].get(), self.pages.given[gap as usize].get());
        let most = |(first, end): Range| (first, end.min(first + RETURN_BYTES_MAX));
        let next = match bytes(given) {
            0 if bytes(hole) == 0 => return 0,
            0 => most(hole),
            _ if given.1 < hole.1 => most((given.1, hole.1)),
            _ => (hole.0.max(given.0.saturating_sub(RETURN_BYTES_MAX)), given.0),
        };
        if bytes(next) > 0 {
            // A system that takes no pages back would not take them later, so they count as given.
            drop(self.region.give_back(next.0 as usize, bytes(next) as usize));
            let all = if bytes(given) == 0 { next } else { (next.0.min(given.0), next.1.max(given.1)) };
            self.pages.given[gap as usize].set(all);
        }
        bytes(next)
    }

    /// Tries whether the pages of a file can become huge ones, where it has 2 MiB without a hole.
    pub fn probe_huge(&mut self) {
        let huge = HUGE_PAGE_BYTES as u64;
        let whole = |(first, end): &Range| first.next_multiple_of(huge) + huge <= *end;
        if let Some((first, _)) = self.committed().into_iter().find(whole) {
            self.region.probe_huge(first.next_multiple_of(huge) as usize);
        }
    }

    /// Touches all pages that are committed.
    pub fn populate(&self) {
        let _pin = self.pages.pin();
        for range in self.committed() {
            self.region.populate_range(range.0 as usize, bytes(range) as usize);
        }
    }

    /// Puts huge pages under the parts that have come into use since the last call: items from the
    /// beginning of the region on, the index from its end. Leaves out what is not wholly committed. Returns
    /// whether more than one call does is left.
    pub fn collapse_used(&self) -> bool {
        let _pin = self.pages.pin();
        let used_words = if self.is_store() {
            self.layout.heap_first() as u64 + self.get(Field::UnitsLive)
        } else {
            let main = self.log(LogKind::Main);
            let lapped = main.get(LogField::LapStart) != main.get(LogField::LapBefore);
            let units = if lapped { u64::MAX } else { main.lap_units() };
            main.get(LogField::First).saturating_add(units)
        };
        let huge = HUGE_PAGE_BYTES as u64;
        let data_end = used_words.min(self.get(Field::DataEnd)) * 8 / huge * huge;
        let end = self.region.words() as u64 * 8 / huge * huge;
        let index_bytes = (end / huge).saturating_sub((self.index_first() * 8).div_ceil(huge)) * huge;
        let [data, index] = &self.pages.collapsed;
        let mut left = COLLAPSE_PAGES_MAX;
        for (done, bytes) in [(data, data_end), (index, index_bytes)] {
            loop {
                let before = done.load(Relaxed);
                if before >= bytes {
                    break;
                }
                if left == 0 {
                    return true;
                }
                let first = if std::ptr::eq(done, data) { before } else { end - before - huge };
                if self.is_present(first as usize / 8, HUGE_PAGE_BYTES / 8) {
                    left -= 1;
                    self.region.collapse(first as usize, HUGE_PAGE_BYTES);
                }
                let _ = done.compare_exchange(before, before + huge, Relaxed, Relaxed);
            }
        }
        false
    }
}
