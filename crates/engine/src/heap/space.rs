//! The space as a whole: made, made anew, cut at its end, walked.

use super::classes::POSITION_BITS;
use super::{ALLOCATED_UNITS, BLOCK_UNITS_MIN, END, FIRST, FREE, FREE_TOTAL, Heap, PREVIOUS_FREE};

/// The header of the last word of the space: a block that is never free.
const SENTINEL: u64 = 1;

impl Heap<'_> {
    /// Makes the words from `first_word` to before `end_word` one free block. The last word of
    /// them is the heap's own.
    pub(crate) fn format(&self, first_word: usize, end_word: usize) {
        let made = self.rebuild(first_word, end_word, std::iter::empty());
        assert!(made, "a space of less than a block");
    }

    /// Makes tags and lists anew, after a crash: the blocks listed, position and units in order
    /// of position, are allocated, all else between `first_word` and `end_word` is free. The
    /// caller's bits of their headers stay.
    ///
    /// Returns false when the list is not one that this heap can have given out (an overlap, a
    /// gap that is smaller than a block, a block out of bounds): nothing can be relied on then.
    #[must_use]
    pub(crate) fn rebuild(
        &self,
        first_word: usize,
        end_word: usize,
        allocated: impl Iterator<Item = (usize, usize)>,
    ) -> bool {
        assert!(0 < first_word && first_word < end_word && end_word < 1 << POSITION_BITS);
        assert!(end_word <= self.region.words());
        self.unmark_all();
        self.store(self.state_word + FIRST, first_word as u64);
        self.store(self.state_word + END, end_word as u64);
        self.store(self.state_word + FREE_TOTAL, 0);
        let sentinel = end_word - 1;
        let mut reached = first_word;
        for (block, units) in allocated {
            let fits = block <= sentinel && units <= sentinel - block;
            if !fits || units < BLOCK_UNITS_MIN || units > ALLOCATED_UNITS as usize {
                return false;
            }
            let Some(before) = self.rebuild_gap(reached, block) else {
                return false;
            };
            let callers = self.load(block) & !(FREE | PREVIOUS_FREE | ALLOCATED_UNITS);
            self.store(block, callers | before | units as u64);
            reached = block + units;
        }
        let Some(before) = self.rebuild_gap(reached, sentinel) else {
            return false;
        };
        self.store(sentinel, SENTINEL | before);
        true
    }

    /// Makes the words from `first` to before `end` a free block, if there are any; returns the
    /// bit that the header at `end` needs. `None`: this cannot be.
    fn rebuild_gap(&self, first: usize, end: usize) -> Option<u64> {
        match end.checked_sub(first)? {
            0 => Some(0),
            units if units < BLOCK_UNITS_MIN => None,
            units => {
                self.tag_free(first, units);
                self.push(first, units);
                self.units_free_add(units);
                Some(PREVIOUS_FREE)
            }
        }
    }

    /// Takes `units` words off the end of the space. False, and nothing changes, when they are
    /// not all free, or would leave a free block that is too small to be one.
    pub(crate) fn shrink_end(&self, units: usize) -> bool {
        let sentinel = self.end() - 1;
        if self.load(sentinel) & PREVIOUS_FREE == 0 {
            return units == 0;
        }
        let whole = self.load(sentinel - 1) as usize;
        let block = sentinel - whole;
        let Some(rest) = whole.checked_sub(units) else {
            return false;
        };
        if (1..BLOCK_UNITS_MIN).contains(&rest) {
            return false;
        }
        self.unlink(block, whole);
        if rest == 0 {
            self.store(block, SENTINEL);
        } else {
            self.store(sentinel - units, SENTINEL | PREVIOUS_FREE);
            self.tag_free(block, rest);
            self.push(block, rest);
        }
        self.store(self.state_word + END, (sentinel + 1 - units) as u64);
        self.units_free_sub(units);
        true
    }

    /// Words of the largest free block. Reads all free blocks of about that size when it is
    /// larger than those that have a class of their own.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn units_largest(&self) -> usize {
        let head = self.class_largest().map(|class| self.head(class));
        std::iter::successors(head, |&block| self.next(block))
            .map(|block| self.free_block_units(block))
            .max()
            .unwrap_or(0)
    }

    /// Visits all blocks in order of position: position, units, whether it is free.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn walk(&self, mut visit: impl FnMut(usize, usize, bool)) {
        let mut block = self.load(self.state_word + FIRST) as usize;
        loop {
            let header = self.load(block);
            let is_free = header & FREE != 0;
            let bits = if is_free {
                super::FREE_UNITS
            } else {
                ALLOCATED_UNITS
            };
            let units = header & bits;
            // Not by its position: between two stores of a cut there are two of them.
            if units == SENTINEL {
                return;
            }
            assert!(
                units >= BLOCK_UNITS_MIN as u64,
                "a broken header at {block}"
            );
            visit(block, units as usize, is_free);
            block += units as usize;
        }
    }
}
