//! Bitmap of the classes that have a free block: a bit each, and two levels above that mark the
//! nonzero words below.

use super::{BITMAP_MIDDLE, BITMAP_TOP, CLASS_UNITS_EXACT, Heap, classes};

// Three levels of 64 reach all classes, also from behind the last one.
const _: () = assert!(classes::count(CLASS_UNITS_EXACT) < 63 << 12);

/// Returns the words of the lowest level.
#[inline]
pub(super) const fn leaf_words(units_exact: usize) -> usize {
    classes::count(units_exact).div_ceil(64)
}

/// Returns the words of the level above, one of them for the leaf behind the last.
#[inline]
pub(super) const fn middle_words(units_exact: usize) -> usize {
    leaf_words(units_exact) / 64 + 1
}

/// Returns the bits of a word from `first` on.
#[inline]
const fn from(first: usize) -> u64 {
    !0 << (first % 64)
}

impl Heap<'_> {
    /// Returns whether a class has a block: its list head is valid only then.
    #[inline]
    pub(super) fn has_blocks(&self, class: usize) -> bool {
        self.load(self.leaves_word + class / 64) >> (class % 64) & 1 != 0
    }

    /// Marks a class as having blocks; returns whether it was marked.
    #[inline]
    pub(super) fn mark(&self, class: usize) -> bool {
        let leaf = class / 64;
        let bits = self.load(self.leaves_word + leaf);
        let bit = 1 << (class % 64);
        if bits & bit != 0 {
            return true;
        }
        self.store(self.leaves_word + leaf, bits | bit);
        if bits == 0 {
            let middle = self.state_word + BITMAP_MIDDLE + leaf / 64;
            self.store(middle, self.load(middle) | 1 << (leaf % 64));
            let top = self.state_word + BITMAP_TOP;
            self.store(top, self.load(top) | 1 << (leaf / 64));
        }
        false
    }

    /// Marks a class as having no blocks.
    #[inline]
    pub(super) fn unmark(&self, class: usize) {
        let leaf = class / 64;
        let bits = self.load(self.leaves_word + leaf) & !(1 << (class % 64));
        self.store(self.leaves_word + leaf, bits);
        if bits == 0 {
            let middle = self.state_word + BITMAP_MIDDLE + leaf / 64;
            let bits = self.load(middle) & !(1 << (leaf % 64));
            self.store(middle, bits);
            if bits == 0 {
                let top = self.state_word + BITMAP_TOP;
                self.store(top, self.load(top) & !(1 << (leaf / 64)));
            }
        }
    }

    /// Returns the smallest class from `class` on that has a block.
    #[inline]
    pub(super) fn class_with_blocks(&self, class: usize) -> Option<usize> {
        let bits = self.load(self.leaves_word + class / 64) & from(class);
        if bits != 0 {
            return Some(class / 64 * 64 + bits.trailing_zeros() as usize);
        }
        let leaf = class / 64 + 1;
        let middle_word = self.state_word + BITMAP_MIDDLE;
        let mut middle = leaf / 64;
        let mut bits = self.load(middle_word + middle) & from(leaf);
        if bits == 0 {
            let top = self.load(self.state_word + BITMAP_TOP) & from(middle + 1);
            if top == 0 {
                return None;
            }
            middle = top.trailing_zeros() as usize;
            bits = self.load(middle_word + middle);
        }
        let leaf = middle * 64 + bits.trailing_zeros() as usize;
        // A level that marks a leaf without blocks, or one that does not exist, is damaged.
        if leaf >= self.heads_word - self.leaves_word {
            return None;
        }
        let bits = self.load(self.leaves_word + leaf);
        (bits != 0).then(|| leaf * 64 + bits.trailing_zeros() as usize)
    }

    /// Returns the largest class that has a block.
    #[cfg(all(test, not(loom)))]
    pub(super) fn class_largest(&self) -> Option<usize> {
        let highest = |bits: u64| bits.checked_ilog2().map(|bit| bit as usize);
        let middle = highest(self.load(self.state_word + BITMAP_TOP))?;
        let bits = self.load(self.state_word + BITMAP_MIDDLE + middle);
        let leaf = middle * 64 + highest(bits)?;
        let bits = self.load(self.leaves_word + leaf);
        Some(leaf * 64 + highest(bits)?)
    }

    /// Marks all classes as having no blocks. The heads of the lists need no change.
    pub(super) fn unmark_all(&self) {
        for word in self.state_word + BITMAP_TOP..self.heads_word {
            self.store(word, 0);
        }
    }
}
