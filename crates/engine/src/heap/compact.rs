//! Support for a compaction, which moves items down so that free blocks become one: its cursor, and
//! allocation below an item.

use super::{ALLOCATED_UNITS, CURSOR, FIRST, FREE, Heap, PREVIOUS_FREE};

impl Heap<'_> {
    /// Returns the first word of the space.
    pub(crate) fn first(&self) -> usize {
        self.load(self.state_word + FIRST) as usize
    }

    /// Returns the words of all blocks.
    pub(crate) fn units(&self) -> usize {
        self.end() - 1 - self.first()
    }

    /// Returns the block that a compaction has reached, or the sentinel. Blocks may be allocated
    /// and freed meanwhile: the cursor stays the beginning of a block.
    pub(crate) fn cursor(&self) -> Option<usize> {
        Some(self.load(self.state_word + CURSOR) as usize).filter(|&block| block != 0)
    }

    /// Sets the cursor to the beginning of a block, or clears it at the end of the compaction.
    pub(crate) fn set_cursor(&self, block: Option<usize>) {
        self.store(self.state_word + CURSOR, block.unwrap_or(0) as u64);
    }

    /// Moves the cursor out of the words from `first` to before `end`, which have become one block.
    #[inline]
    pub(super) fn keep_cursor_out_of(&self, first: usize, end: usize) {
        let cursor = self.load(self.state_word + CURSOR) as usize;
        if first < cursor && cursor < end {
            self.set_cursor(Some(first));
        }
    }

    /// Returns the words of the free block that begins here; zero if it is not free.
    pub(crate) fn units_free_at(&self, block: usize) -> usize {
        if self.load(block) & FREE == 0 {
            return 0;
        }
        self.free_block_units(block)
    }

    /// Returns the words of the free block at the end of the space; zero if there is none.
    pub(crate) fn units_free_at_end(&self) -> usize {
        let sentinel = self.end() - 1;
        if self.load(sentinel) & PREVIOUS_FREE == 0 {
            return 0;
        }
        self.load(sentinel - 1) as usize
    }

    /// Returns the first allocated block from the block or sentinel `from` on.
    pub(crate) fn next_allocated(&self, from: usize) -> Option<usize> {
        let block = from + self.units_free_at(from);
        (block < self.end() - 1).then_some(block)
    }

    /// Allocates a block of at least `units` words below the allocated block `position`: the one
    /// that [`Heap::allocate`] finds among few, or else the front of the free block just before.
    pub(crate) fn allocate_below(&self, position: usize, units: usize) -> Option<usize> {
        if let Some(block) = self.allocate_quickly(units.max(super::BLOCK_UNITS_MIN)) {
            if block < position {
                return Some(block);
            }
            self.free(block);
        }
        let header = self.load(position);
        debug_assert!(header & FREE == 0 && header & ALLOCATED_UNITS != 0);
        if header & PREVIOUS_FREE == 0 {
            return None;
        }
        let whole = self.load(position - 1) as usize;
        let units = units.max(super::BLOCK_UNITS_MIN);
        if whole < units {
            return None;
        }
        let block = position.wrapping_sub(whole);
        if self.sound_free_units(block) != Some(whole) {
            return None;
        }
        self.allocate_front(block, self.class(whole), units);
        Some(block)
    }
}
