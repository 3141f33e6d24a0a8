//! Allocation and release of blocks.

use super::{ALLOCATED_UNITS, BLOCK_UNITS_MIN, FREE, Heap, PREVIOUS_FREE};
use crate::limits::{FIT_CANDIDATE_BYTES, FIT_CANDIDATES_MAX};
use crate::region::copy_budget;

impl Heap<'_> {
    /// Allocates a block of at least `units` words, from the smallest free block that is large
    /// enough. Sets its header to its size, which may be a little more than `units`: the rest stays
    /// with the block when it is too small for a block. The other words keep their contents.
    /// Returns `None`, and changes nothing, when no free block is large enough or `units` is more
    /// than the largest block.
    #[inline]
    pub(crate) fn allocate(&self, units: usize) -> Option<usize> {
        let units = units.max(BLOCK_UNITS_MIN);
        self.allocate_quickly(units).or_else(|| {
            let (block, class) = self.last_fit(units)?;
            self.allocate_front(block, class, units);
            Some(block)
        })
    }

    /// Allocates like [`Heap::allocate`], but examines few candidates: it may miss a block. `units`
    /// are at least those of the smallest block.
    #[inline]
    pub(super) fn allocate_quickly(&self, units: usize) -> Option<usize> {
        let (block, class) =
            if units <= self.units_exact { self.first_from(units)? } else { self.first_fit(units)? };
        self.allocate_front(block, class, units);
        Some(block)
    }

    /// Allocates the first `units` words of a free block, which is of a class and large enough.
    #[inline]
    pub(super) fn allocate_front(&self, block: usize, class: usize, units: usize) {
        let whole = self.free_block_units(block);
        let rest = whole - units;
        if rest < BLOCK_UNITS_MIN {
            self.unlink(block, whole);
            let next = block + whole;
            self.store(next, self.load(next) & !PREVIOUS_FREE);
            self.store(block, whole as u64);
            self.units_free_sub(whole);
        } else {
            let remainder = block + units;
            if self.class(rest) == class {
                self.replace(block, remainder, class);
            } else {
                self.unlink(block, whole);
                self.push(remainder, rest);
            }
            self.tag_free(remainder, rest);
            self.store(block, units as u64);
            self.units_free_sub(units);
        }
    }

    /// Returns the first block of the smallest class from `class` on that has one, and its class.
    /// Drops a list that damage has broken, with the space that it leads to.
    #[inline]
    fn first_from(&self, class: usize) -> Option<(usize, usize)> {
        loop {
            let class = self.class_with_blocks(class)?;
            if let Some(block) = self.sound_head(class) {
                return Some((block, class));
            }
            self.unmark(class);
            self.recount_free();
        }
    }

    /// Returns a block for a size without a class of its own, and its class: the first that is
    /// large enough among a few in the class of the size, where some are too small, or any of a
    /// larger class.
    #[cold]
    fn first_fit(&self, units: usize) -> Option<(usize, usize)> {
        if units > self.units_max {
            return None;
        }
        self.first_of_class(units, FIT_CANDIDATES_MAX).or_else(|| self.first_from(self.class(units) + 1))
    }

    /// Returns the first block that is large enough in all of the class of such a size: the last
    /// resort.
    #[cold]
    fn last_fit(&self, units: usize) -> Option<(usize, usize)> {
        if units <= self.units_exact || units > self.units_max {
            return None;
        }
        self.first_of_class(units, self.units() / self.units_exact)
    }

    /// Returns the first block that is large enough among this many in the class of a size.
    fn first_of_class(&self, units: usize, candidates: usize) -> Option<(usize, usize)> {
        let class = self.class(units);
        let mut candidate = self.has_blocks(class).then(|| self.head(class));
        for _ in 0..candidates {
            let block = candidate?;
            let whole = self.sound_free_units(block)?;
            if whole >= units && self.class(whole) == class {
                return Some((block, class));
            }
            copy_budget::spend(FIT_CANDIDATE_BYTES);
            candidate = self.next(block);
        }
        None
    }

    /// Frees a block, and merges it with its free neighbours. Changes nothing when the block is
    /// free already: free blocks overlap in a damaged image.
    #[inline]
    pub(crate) fn free(&self, position: usize) {
        let header = self.load(position);
        if header & FREE != 0 {
            return;
        }
        let units = (header & ALLOCATED_UNITS) as usize;
        let (mut first, mut end) = (position, position + units);
        let next = self.load(end);
        if next & FREE == 0 {
            self.store(end, next | PREVIOUS_FREE);
        } else if let Some(next_units) = self.sound_free_units(end) {
            self.unlink(end, next_units);
            end += next_units;
        }
        if header & PREVIOUS_FREE != 0 {
            let previous_units = self.load(position - 1) as usize;
            let before = position.wrapping_sub(previous_units);
            if before < position && self.sound_free_units(before) == Some(previous_units) {
                first = before;
                self.unlink(first, previous_units);
            }
        }
        self.push(first, end - first);
        self.tag_free(first, end - first);
        self.keep_cursor_out_of(first, end);
        if first != position {
            // The word is inside of a free block now; a second free of it changes nothing.
            self.store(position, header | FREE);
        }
        self.units_free_add(units);
    }
}
