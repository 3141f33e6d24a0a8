//! The page by which a reader tells the server of its requests. The server makes it, the reader writes it.
//!
//! ```text
//! word 0: notes written | 1: hits | 2: misses | ... | ring of hashes
//! ```
//!
//! The ring is lossy: the reader waits for nobody, and a server that comes late takes the last notes. The
//! server writes nothing here, takes a bounded number of words at a time, and believes no number that
//! cannot be: whatever a reader writes, items become a little too recent at worst.

use std::borrow::Borrow;

use micanite_memory::sync::Ordering;
use micanite_memory::{PAGE_BYTES, Region};

/// Bytes of the page.
pub const NOTES_BYTES: usize = PAGE_BYTES;
/// Notes that the ring holds, a power of two.
pub const SLOTS: usize = if cfg!(loom) { 2 } else { 256 };
/// First word of the ring. The counts have a line of their own.
const FIRST_SLOT: usize = if cfg!(loom) { 4 } else { 64 };
const WRITTEN: usize = 0;
const HITS: usize = 1;
const MISSES: usize = 2;
/// No reader has more requests than this in a nanosecond.
const REQUESTS_PER_NS_MAX: u64 = 1;

const _: () = assert!(SLOTS.is_power_of_two() && (FIRST_SLOT + SLOTS) * 8 <= NOTES_BYTES);

/// The reader's end. One thread writes it.
#[derive(Debug)]
pub struct NoteWriter<R = Region> {
    region: R,
    written: u64,
    hits: u64,
    misses: u64,
}

impl<R: Borrow<Region>> NoteWriter<R> {
    /// Begins to write a page of zeros.
    pub fn new(region: R) -> Self {
        Self { region, written: 0, hits: 0, misses: 0 }
    }

    /// Notes a request for the key of this hash, which the server wants to know of.
    #[inline]
    pub fn note(&mut self, hash: u64) {
        let slot = FIRST_SLOT + (self.written as usize & (SLOTS - 1));
        self.region.borrow().word(slot).store(hash, Ordering::Relaxed);
        self.written = self.written.wrapping_add(1);
        // The slot comes first: the server finds the hash.
        self.region.borrow().word(WRITTEN).store(self.written, Ordering::Release);
    }

    /// Counts gets.
    #[inline]
    pub fn count(&mut self, hits: u64, misses: u64) {
        if hits > 0 {
            self.hits += hits;
            self.region.borrow().word(HITS).store(self.hits, Ordering::Relaxed);
        }
        if misses > 0 {
            self.misses += misses;
            self.region.borrow().word(MISSES).store(self.misses, Ordering::Relaxed);
        }
    }
}

/// Counts since the last visit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Notes taken.
    pub notes: u64,
    /// Gets that found an item.
    pub hits: u64,
    /// Gets that found none.
    pub misses: u64,
    /// The page holds what no reader writes.
    pub is_nonsense: bool,
}

/// The server's end.
#[derive(Debug)]
pub struct NoteTaker<R = Region> {
    region: R,
    taken: u64,
    hits: u64,
    misses: u64,
    visited_ns: u64,
}

impl<R: Borrow<Region>> NoteTaker<R> {
    /// Begins to read a page of zeros, at a time of a clock.
    pub fn new(region: R, now_ns: u64) -> Self {
        Self { region, taken: 0, hits: 0, misses: 0, visited_ns: now_ns }
    }

    /// Takes what was noted since the last visit, at most the ring and the last `notes_max`, and calls
    /// `visit` with each hash. Any word may be anything.
    pub fn take(&mut self, now_ns: u64, notes_max: u64, mut visit: impl FnMut(u64)) -> Taken {
        let most = now_ns.saturating_sub(self.visited_ns).saturating_mul(REQUESTS_PER_NS_MAX);
        self.visited_ns = now_ns;
        let mut taken = Taken::default();
        let mut since = |word: usize, seen: &mut u64| {
            let now = self.region.borrow().word(word).load(Ordering::Relaxed);
            let count = now.wrapping_sub(*seen);
            *seen = now;
            taken.is_nonsense |= count > most;
            if count > most { 0 } else { count }
        };
        (taken.hits, taken.misses) = (since(HITS, &mut self.hits), since(MISSES, &mut self.misses));
        let written = self.region.borrow().word(WRITTEN).load(Ordering::Acquire);
        let count = written.wrapping_sub(self.taken);
        taken.is_nonsense |= count > most.max(SLOTS as u64);
        taken.notes = count.min(SLOTS as u64).min(notes_max);
        self.taken = written;
        for back in (1..=taken.notes).rev() {
            let slot = FIRST_SLOT + (written.wrapping_sub(back) as usize & (SLOTS - 1));
            visit(self.region.borrow().word(slot).load(Ordering::Relaxed));
        }
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: u64 = u64::MAX;

    fn ends() -> (NoteWriter, NoteTaker) {
        let (region, descriptor) = Region::exchange(NOTES_BYTES).unwrap();
        let theirs = Region::descriptor(&descriptor, NOTES_BYTES).unwrap();
        (NoteWriter::new(theirs), NoteTaker::new(region, 0))
    }

    #[test]
    fn notes_arrive_in_their_order_and_the_last_ones_survive() {
        let (mut writer, mut taker) = ends();
        let mut found = Vec::new();
        (1..=10).for_each(|hash| writer.note(hash));
        writer.count(10, 2);
        let taken = taker.take(1000, ALL, |hash| found.push(hash));
        assert_eq!(found, Vec::from_iter(1..=10));
        assert_eq!(taken, Taken { notes: 10, hits: 10, misses: 2, is_nonsense: false });
        assert_eq!(taker.take(2000, ALL, |_| panic!("taken twice")), Taken::default());
        found.clear();
        (1..=1000).for_each(|hash| writer.note(hash));
        let taken = taker.take(3000, ALL, |hash| found.push(hash));
        assert_eq!(found, Vec::from_iter(1000 - SLOTS as u64 + 1..=1000));
        assert!(!taken.is_nonsense);
        found.clear();
        (1..=100).for_each(|hash| writer.note(hash));
        assert_eq!(taker.take(4000, 3, |hash| found.push(hash)).notes, 3);
        assert_eq!(found, [98, 99, 100]);
    }

    proptest! {
        /// Whatever a page holds, the server takes no more than the ring and counts no more than can be.
        #[test]
        fn any_page_is_taken_in_bounds(
            words in proptest::collection::vec(any::<u64>(), 3), steps in 1..20u64,
        ) {
            let (region, descriptor) = Region::exchange(NOTES_BYTES).unwrap();
            let theirs = Region::descriptor(&descriptor, NOTES_BYTES).unwrap();
            let mut taker = NoteTaker::new(region, 0);
            for step in 1..=steps {
                for (word, value) in words.iter().enumerate() {
                    theirs.word(word).store(value.wrapping_mul(step), Ordering::Relaxed);
                }
                let mut visits = 0;
                let taken = taker.take(step * 1000, ALL, |_| visits += 1);
                prop_assert!(visits <= SLOTS as u64);
                prop_assert_eq!(taken.notes, visits);
                prop_assert!(taken.hits <= 1000 && taken.misses <= 1000);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A note that is counted is in its slot: the server takes hashes that were written, in their order, and
    /// no zeros. It covers the release of the count and its acquisition.
    #[test]
    fn loom_a_counted_note_is_in_its_slot() {
        loom::model(|| {
            let region = Arc::new(Region::private((FIRST_SLOT + SLOTS) * 8).unwrap());
            let mut writer = NoteWriter::new(Arc::clone(&region));
            let writing = thread::spawn(move || (11..11 + SLOTS as u64).for_each(|hash| writer.note(hash)));
            let mut taker = NoteTaker::new(region, 0);
            let mut found = Vec::new();
            for visit in 1..=2 {
                taker.take(visit, u64::MAX, |hash| found.push(hash));
            }
            writing.join().unwrap();
            taker.take(3, u64::MAX, |hash| found.push(hash));
            assert_eq!(found, Vec::from_iter(11..11 + SLOTS as u64));
        });
    }

    /// A reader that is faster than the server loses notes, and the server takes nothing else than notes.
    #[test]
    fn loom_an_overrun_ring_holds_notes_alone() {
        loom::model(|| {
            let region = Arc::new(Region::private((FIRST_SLOT + SLOTS) * 8).unwrap());
            let mut writer = NoteWriter::new(Arc::clone(&region));
            let hashes = 11..=11 + SLOTS as u64;
            let written = hashes.clone();
            let writing = thread::spawn(move || written.for_each(|hash| writer.note(hash)));
            let mut taker = NoteTaker::new(region, 0);
            let mut found = Vec::new();
            for visit in 1..=2 {
                let taken = taker.take(visit, u64::MAX, |hash| found.push(hash));
                assert!(taken.notes <= SLOTS as u64);
            }
            writing.join().unwrap();
            assert!(found.iter().all(|hash| hashes.contains(hash)), "{found:?}");
        });
    }
}
