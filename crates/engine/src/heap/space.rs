//! The space as a whole: formatting, rebuilding, its end, walks.

use super::classes::POSITION_BITS;
use super::{ALLOCATED_UNITS, BLOCK_UNITS_MIN, END, FIRST, FREE, FREE_TOTAL, Heap, PREVIOUS_FREE};

/// Header of the last word of the space: a block that is never free.
const SENTINEL: u64 = 1;

impl Heap<'_> {
    /// Makes the words from `first_word` to before `end_word` one free block. The heap keeps the
    /// last word of them.
    pub(crate) fn format(&self, first_word: usize, end_word: usize) {
        let made = self.rebuild(first_word, end_word, std::iter::empty());
        assert!(made, "a space of less than a block");
    }

    /// Makes tags and lists anew, after a crash. The listed blocks, position and units in order of
    /// position, are allocated; all else between `first_word` and `end_word` is free. The caller's
    /// bits of their headers stay.
    ///
    /// The space ends a few words earlier where the last gap is smaller than a block, which
    /// [`Heap::lower_end`] leaves behind. Returns false when this heap cannot have made the listed
    /// blocks (an overlap, another gap that is smaller than a block, a block out of bounds): the
    /// heap is then unusable.
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
        self.set_cursor(None);
        let mut sentinel = end_word - 1;
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
        if sentinel - reached < BLOCK_UNITS_MIN {
            sentinel = reached;
            self.store(self.state_word + END, sentinel as u64 + 1);
        }
        let Some(before) = self.rebuild_gap(reached, sentinel) else {
            return false;
        };
        self.store(sentinel, SENTINEL | before);
        true
    }

    /// Makes the words from `first` to before `end` a free block, if there are any. Returns the bit
    /// that the header at `end` needs, or `None` if such a gap is impossible.
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

    /// Ends the space at `end_word`, or a few words before it if the free block left there would be
    /// too small. Returns false, and changes nothing, when the words behind are not free.
    pub(crate) fn lower_end(&self, end_word: usize) -> bool {
        let sentinel = self.end() - 1;
        if end_word > sentinel {
            return true;
        }
        if self.load(sentinel) & PREVIOUS_FREE == 0 {
            return false;
        }
        let whole = self.load(sentinel - 1) as usize;
        let block = sentinel.wrapping_sub(whole);
        let Some(rest) = (end_word - 1).checked_sub(block) else {
            return false;
        };
        if self.sound_free_units(block) != Some(whole) {
            return false;
        }
        self.unlink(block, whole);
        let lowered = if rest < BLOCK_UNITS_MIN {
            self.store(block, SENTINEL);
            block
        } else {
            self.store(block + rest, SENTINEL | PREVIOUS_FREE);
            self.tag_free(block, rest);
            self.push(block, rest);
            block + rest
        };
        self.store(self.state_word + END, lowered as u64 + 1);
        self.units_free_sub(sentinel - lowered);
        if self.cursor().is_some_and(|cursor| cursor > lowered) {
            self.set_cursor(None);
        }
        true
    }

    /// Ends the space at `end_word` again, which is behind its end. (If the words between are too
    /// few for a block, the end stays.)
    pub(crate) fn raise_end(&self, end_word: usize) {
        let (before, after) = (self.end() - 1, end_word - 1);
        if after < before + BLOCK_UNITS_MIN {
            return;
        }
        let previous_free = self.load(before) & PREVIOUS_FREE;
        self.store(after, SENTINEL);
        self.store(before, (after - before) as u64 | previous_free);
        self.store(self.state_word + END, end_word as u64);
        self.free(before);
    }

    /// Returns the words of the largest free block. Reads all free blocks of about that size when
    /// it is larger than those that have a class of their own.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn units_largest(&self) -> usize {
        let head = self.class_largest().map(|class| self.head(class));
        std::iter::successors(head, |&block| self.next(block))
            .map(|block| self.free_block_units(block))
            .max()
            .unwrap_or(0)
    }

    /// Visits all blocks in order of position, with position, units, and true if free.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn walk(&self, mut visit: impl FnMut(usize, usize, bool)) {
        let mut block = self.load(self.state_word + FIRST) as usize;
        loop {
            let header = self.load(block);
            let is_free = header & FREE != 0;
            let bits = if is_free { super::FREE_UNITS } else { ALLOCATED_UNITS };
            let units = header & bits;
            // The size identifies it, not the position: between two stores of a cut there are two.
            if units == SENTINEL {
                return;
            }
            assert!(units >= BLOCK_UNITS_MIN as u64, "a broken header at {block}");
            visit(block, units as usize, is_free);
            block += units as usize;
        }
    }
}
