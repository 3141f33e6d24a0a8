//! Checks of free blocks before they are used: an image may be damaged.

use super::list::Links;
use super::{
    ALLOCATED_UNITS, BITMAP_MIDDLE, BITMAP_TOP, BLOCK_UNITS_MIN, END, FIRST, FREE, FREE_TOTAL, FREE_UNITS,
    Heap, classes,
};

impl Heap<'_> {
    /// Returns the size of the free block at a word, if its tags are those of one within the space.
    #[inline]
    pub(super) fn sound_free_units(&self, block: usize) -> Option<usize> {
        let sentinel = self.end() - 1;
        if block < self.load(self.state_word + FIRST) as usize || block >= sentinel {
            return None;
        }
        let header = self.load(block);
        let units = (header & FREE_UNITS) as usize;
        let fits = header & FREE != 0 && (BLOCK_UNITS_MIN..=sentinel - block).contains(&units);
        (fits && self.load(block + units - 1) == units as u64).then_some(units)
    }

    /// Returns whether a word may be that of a free block.
    #[inline]
    fn may_be_free(&self, block: usize) -> bool {
        let first = self.load(self.state_word + FIRST) as usize;
        block >= first && block + BLOCK_UNITS_MIN < self.end() && self.load(block) & FREE != 0
    }

    /// Returns the neighbours of a block in its list, without those that do not link back.
    #[inline]
    pub(super) fn sound_links(&self, block: usize) -> Links {
        let Links { previous, next } = self.links(block);
        let leads_back = |previous: usize| self.links(previous).next == block;
        let previous_is_sound = previous != 0 && self.may_be_free(previous) && leads_back(previous);
        Links { previous: if previous_is_sound { previous } else { 0 }, next: self.sound_next(block, next) }
    }

    /// Returns the block behind `block` in its list, if it links back; zero if not.
    #[inline]
    fn sound_next(&self, block: usize, next: usize) -> usize {
        let leads_back = || self.links(next).previous == block;
        let is_sound = next != 0 && self.may_be_free(next) && leads_back();
        if is_sound { next } else { 0 }
    }

    /// Returns the head of the list of a class that has blocks, if it is a block of that class.
    #[inline]
    pub(super) fn sound_head(&self, class: usize) -> Option<usize> {
        let block = self.head(class);
        let units = self.sound_free_units(block)?;
        (self.class(units) == class).then_some(block)
    }

    /// Counts the words of all lists again, after one was given up: those are the usable ones.
    #[cold]
    pub(super) fn recount_free(&self) {
        let mut total = 0;
        for class in (0..classes::count(self.units_exact)).filter(|class| self.has_blocks(*class)) {
            let mut next = self.sound_head(class);
            while let Some(block) = next {
                let units = self.sound_free_units(block).unwrap_or(0);
                total += units;
                // A list that is broken further on, or a circle, ends as well.
                let goes_on = units != 0 && total < self.units();
                next = self.next(block).filter(|_| goes_on);
            }
        }
        self.store(self.state_word + FREE_TOTAL, total as u64);
    }

    /// Checks the whole state, and all free blocks, of a heap from `first` to before `end`. Writes
    /// nothing; the error names the damage.
    pub(crate) fn check_free(&self, first: usize, end: usize) -> Result<(), String> {
        let state = |word: usize| self.load(self.state_word + word) as usize;
        // The words behind the last block are fewer than a block.
        let ends = end - BLOCK_UNITS_MIN < state(END) && state(END) <= end;
        if state(FIRST) != first || !ends || state(FREE_TOTAL) >= end - first {
            return Err("the heap's bounds are not those of the items".into());
        }
        if self.load(self.end() - 1) & (FREE | ALLOCATED_UNITS) != 1 {
            return Err("the heap's last word is not its end".into());
        }
        let mut total = 0;
        for leaf in 0..self.heads_word - self.leaves_word {
            let bits = self.load(self.leaves_word + leaf);
            let middle = self.load(self.state_word + BITMAP_MIDDLE + leaf / 64);
            if (middle >> (leaf % 64) & 1 == 1) != (bits != 0) {
                return Err(format!("the heap's bitmap: word {leaf} is not as the level above says"));
            }
            let classes = (0..64).filter(|bit| bits >> bit & 1 == 1);
            for class in classes.map(|bit| leaf * 64 + bit) {
                self.check_list(class, end - first, &mut total)?;
            }
        }
        self.check_top()?;
        if total != self.units_free() {
            let counted = self.units_free();
            return Err(format!("the heap counts {counted} free units, its lists have {total}"));
        }
        Ok(())
    }

    /// Checks the levels of the bitmap above its leaves: they mark only leaves that exist.
    fn check_top(&self) -> Result<(), String> {
        let top = self.load(self.state_word + BITMAP_TOP);
        let middle_words = self.leaves_word - self.state_word - BITMAP_MIDDLE;
        for leaf in self.heads_word - self.leaves_word..middle_words * 64 {
            let bits = self.load(self.state_word + BITMAP_MIDDLE + leaf / 64);
            if bits >> (leaf % 64) & 1 == 1 {
                return Err(format!("the heap's bitmap: it has no word {leaf}"));
            }
        }
        for middle in 0..64 {
            let word = self.state_word + BITMAP_MIDDLE + middle;
            let has_bits = middle < middle_words && self.load(word) != 0;
            if (top >> middle & 1 == 1) != has_bits {
                return Err("the heap's bitmap: its top is not as the level below".into());
            }
        }
        Ok(())
    }

    /// Checks one list: its blocks are free, of the class, and linked in both directions. Adds
    /// their units to `total`, which may not reach `most`; that ends circles.
    fn check_list(&self, class: usize, most: usize, total: &mut usize) -> Result<(), String> {
        if class >= classes::count(self.units_exact) {
            return Err(format!("the heap has no list {class}"));
        }
        let (mut previous, mut block) = (0, self.head(class));
        loop {
            let units = self.sound_free_units(block).filter(|units| self.class(*units) == class);
            let Some(units) = units.filter(|_| self.links(block).previous == previous) else {
                return Err(format!("the heap's list {class}: no free block of it at word {block}"));
            };
            *total += units;
            if *total >= most {
                return Err(format!("the heap's list {class} does not end"));
            }
            match self.next(block) {
                None => return Ok(()),
                Some(next) => (previous, block) = (block, next),
            }
        }
    }
}
