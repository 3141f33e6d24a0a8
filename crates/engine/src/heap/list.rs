//! The free lists: doubly linked, last in, first out. The second word of a free block holds the
//! position of the previous block of its list (low half) and of the next (high half); zero is none.
//! Heads take half a word each, and are valid only while the bitmap has their class.

use super::classes::POSITION_BITS;
use super::{FREE, FREE_UNITS, Heap, classes};

const POSITION: u64 = (1 << POSITION_BITS) - 1;

/// The neighbours of a block in its list.
#[derive(Clone, Copy)]
pub(super) struct Links {
    pub previous: usize,
    pub next: usize,
}

/// Returns the words of the list heads.
#[inline]
pub(super) const fn head_words(units_exact: usize) -> usize {
    classes::count(units_exact).div_ceil(2)
}

impl Heap<'_> {
    #[inline]
    pub(super) fn class(&self, units: usize) -> usize {
        classes::class(units, self.units_exact)
    }

    /// Returns the size of a free block.
    #[inline]
    pub(super) fn free_block_units(&self, block: usize) -> usize {
        (self.load(block) & FREE_UNITS) as usize
    }

    /// Writes the tags of a free block.
    #[inline]
    pub(super) fn tag_free(&self, block: usize, units: usize) {
        self.store(block + units - 1, units as u64);
        self.store(block, units as u64 | FREE);
    }

    /// Returns the first block of a class that has one.
    #[inline]
    pub(super) fn head(&self, class: usize) -> usize {
        let heads = self.load(self.heads_word + class / 2);
        (heads >> (class % 2 * 32) & POSITION) as usize
    }

    #[inline]
    fn set_head(&self, class: usize, block: usize) {
        let word = self.heads_word + class / 2;
        let shift = class % 2 * 32;
        let others = self.load(word) & !(POSITION << shift);
        self.store(word, others | (block as u64) << shift);
    }

    #[inline]
    pub(super) fn links(&self, block: usize) -> Links {
        let links = self.load(block + 1);
        Links { previous: (links & POSITION) as usize, next: (links >> POSITION_BITS) as usize }
    }

    #[inline]
    fn set_links(&self, block: usize, links: Links) {
        let word = links.previous as u64 | (links.next as u64) << POSITION_BITS;
        self.store(block + 1, word);
    }

    /// Returns the next block of the list.
    #[inline]
    pub(super) fn next(&self, block: usize) -> Option<usize> {
        Some(self.links(block).next).filter(|&next| next != 0)
    }

    /// Adds a free block at the head of the list of its size.
    #[inline]
    pub(super) fn push(&self, block: usize, units: usize) {
        let class = self.class(units);
        let head = self.mark(class).then(|| self.sound_head(class));
        let next = head.flatten().unwrap_or(0);
        if next != 0 {
            let links = self.links(next);
            self.set_links(next, Links { previous: block, ..links });
        }
        self.set_links(block, Links { previous: 0, next });
        self.set_head(class, block);
    }

    /// Removes a free block from the list of its size.
    #[inline]
    pub(super) fn unlink(&self, block: usize, units: usize) {
        let Links { previous, next } = self.sound_links(block);
        if next != 0 {
            let links = self.links(next);
            self.set_links(next, Links { previous, ..links });
        }
        if previous != 0 {
            let links = self.links(previous);
            self.set_links(previous, Links { next, ..links });
        } else if next != 0 {
            self.set_head(self.class(units), next);
        } else {
            self.unmark(self.class(units));
        }
    }

    /// Puts the free block `to` in the place of `from`, which is of the same class.
    #[inline]
    pub(super) fn replace(&self, from: usize, to: usize, class: usize) {
        let Links { previous, next } = self.sound_links(from);
        self.set_links(to, Links { previous, next });
        if next != 0 {
            let links = self.links(next);
            self.set_links(next, Links { previous: to, ..links });
        }
        if previous != 0 {
            let links = self.links(previous);
            self.set_links(previous, Links { next: to, ..links });
        } else {
            self.set_head(class, to);
        }
    }
}
