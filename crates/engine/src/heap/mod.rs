//! The space of a store: segregated fits (MICA, NSDI'14, 4.3.3).
//!
//! ```text
//! allocated  | header ...............................................|
//! free       | header | links | .......................... | footer  |
//! the space  | blocks without a gap ...                 | sentinel, one word |
//! ```
//!
//! Blocks tile the space. A free list for each size, eight bytes apart, holds the free ones; blocks
//! larger than [`CLASS_UNITS_EXACT`] share lists of sizes 1/64 apart. A bitmap finds the smallest
//! size with a free block in a few loads. The rest of an allocation becomes a free block of its
//! own. A block that is freed merges with its free neighbours at once. Tags tell which are free:
//! its own header says whether the block before is free (whose footer then gives its beginning),
//! and the next block's header whether that one is.
//!
//! All state lies in the region, addressed by word, so that another process can map an image again.
//! One writer at a time; readers may race with it on any word.
//!
//! # Header words
//!
//! The first word of an allocated block is the header of the caller's item:
//!
//! ```text
//! bits 0..28  units   size of the block, in words: set by allocate, never changed by the caller
//!      28..62         the caller's
//!      62     PREVIOUS_FREE, the heap's: the block just before is free
//!      63     FREE, the heap's: zero, as the block is allocated
//! ```
//!
//! The heap sets and clears `PREVIOUS_FREE` in the header of a live item, whenever its neighbour is
//! freed or allocated. So a writer that rewrites a header reads it again first and keeps that bit,
//! under the same exclusion as the calls to the heap; and a comparison of headers masks it.
//!
//! # Killed at any store
//!
//! The heap writes nothing of a live item but that one bit. [`Heap::rebuild`] makes all else (tags,
//! lists, bitmap) anew from the items in the index, at whatever store the writer was killed,
//! provided that an item is out of the index before it is freed.
//!
//! | file | |
//! |---|---|
//! | `classes` | from a size to its list |
//! | `bitmap` | the lists that have blocks |
//! | `list` | the lists of free blocks |
//! | `allocate` | allocate and free |
//! | `space` | format, rebuild, the end of the space, walks |
//! | `compact` | the cursor of a compaction, and blocks below an item |
//! | `verify` | checks of free blocks before they are used |

mod allocate;
mod bitmap;
#[cfg(all(test, not(loom)))]
mod check;
mod classes;
mod compact;
#[cfg(all(test, not(loom)))]
mod fragmentation;
#[cfg(all(test, not(loom)))]
mod killed;
mod list;
mod space;
#[cfg(all(test, not(loom)))]
mod tests;
mod verify;

use micanite_memory::sync::Ordering;

use crate::region::Region;

pub(crate) use classes::BLOCK_UNITS_MIN;
use classes::{BLOCK_UNITS_MAX, CLASS_UNITS_EXACT};

/// Bit of a header word: this block is free. Zero in every header that a caller sees.
pub(crate) const FREE: u64 = 1 << 63;
/// Bit of a header word: the block just before this one is free. The caller keeps it.
pub(crate) const PREVIOUS_FREE: u64 = 1 << 62;

/// Mask of the size in the header of an allocated block.
const ALLOCATED_UNITS: u64 = (1 << 28) - 1;
/// Mask of the size in the header of a free block, which may be most of a large region.
const FREE_UNITS: u64 = (1 << 48) - 1;

// The header holds the size of a whole block with the rest that was too small to be split off.
const _: () = assert!(BLOCK_UNITS_MAX + BLOCK_UNITS_MIN - 1 <= ALLOCATED_UNITS as usize);

// The state: five words, the middle of the bitmap, its leaves, the heads of the lists.
const END: usize = 0;
const FIRST: usize = 1;
const FREE_TOTAL: usize = 2;
const CURSOR: usize = 3;
const BITMAP_TOP: usize = 4;
const BITMAP_MIDDLE: usize = 5;

/// The heap in a region: the place of its state, and constants that follow from the largest block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap<'a> {
    region: &'a Region,
    state_word: usize,
    units_max: usize,
    units_exact: usize,
    leaves_word: usize,
    heads_word: usize,
}

impl<'a> Heap<'a> {
    /// Makes a handle of the heap whose state begins at `state_word`, for blocks of at most
    /// `units_max` words. Cheap; touches no memory. Both numbers are those that the heap was
    /// formatted with.
    #[inline]
    pub(crate) fn new(region: &'a Region, state_word: usize, units_max: usize) -> Self {
        debug_assert!((BLOCK_UNITS_MIN..=BLOCK_UNITS_MAX).contains(&units_max));
        let units_exact = classes::units_exact(units_max);
        let leaves_word = state_word + BITMAP_MIDDLE + bitmap::middle_words(units_exact);
        Self {
            region,
            state_word,
            units_max,
            units_exact,
            leaves_word,
            heads_word: leaves_word + bitmap::leaf_words(units_exact),
        }
    }

    /// Returns the words of the region that the state takes. Heads of unused lists are never
    /// touched.
    pub(crate) const fn state_words(units_max: usize) -> usize {
        assert!(BLOCK_UNITS_MIN <= units_max && units_max <= BLOCK_UNITS_MAX);
        let units_exact = classes::units_exact(units_max);
        BITMAP_MIDDLE
            + bitmap::middle_words(units_exact)
            + bitmap::leaf_words(units_exact)
            + list::head_words(units_exact)
    }

    /// Returns the word behind the space.
    pub(crate) fn end(&self) -> usize {
        self.load(self.state_word + END) as usize
    }

    /// Returns the words in free blocks.
    #[inline]
    pub(crate) fn units_free(&self) -> usize {
        self.load(self.state_word + FREE_TOTAL) as usize
    }

    #[inline]
    fn units_free_add(&self, units: usize) {
        let total = self.units_free() + units;
        self.store(self.state_word + FREE_TOTAL, total as u64);
    }

    #[inline]
    fn units_free_sub(&self, units: usize) {
        // If lists are damaged, the total may be less than `units`.
        let total = self.units_free().saturating_sub(units);
        self.store(self.state_word + FREE_TOTAL, total as u64);
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.region.word(word).load(Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        #[cfg(all(test, not(loom)))]
        killed::at_a_store();
        self.region.word(word).store(value, Ordering::Relaxed);
    }
}
