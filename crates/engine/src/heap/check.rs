//! Every invariant of the heap, for tests.

use std::collections::BTreeMap;

use super::{FREE_TOTAL, FREE_UNITS, Heap, PREVIOUS_FREE, classes};

impl Heap<'_> {
    /// Panics unless blocks, tags, lists, bitmap and sums agree.
    pub(crate) fn check(&self) {
        let free = self.check_blocks();
        let listed = self.check_lists();
        assert_eq!(free, listed, "free blocks and lists");
        let total: usize = free.values().sum();
        assert_eq!(total, self.units_free(), "sum of free blocks");
        assert_eq!(total as u64, self.load(self.state_word + FREE_TOTAL));
        let largest = free.values().copied().max().unwrap_or(0);
        assert_eq!(largest, self.units_largest());
    }

    /// Walks the blocks; returns the free ones with their units.
    fn check_blocks(&self) -> BTreeMap<usize, usize> {
        let mut free = BTreeMap::new();
        let mut previous_is_free = false;
        let mut reached = None;
        self.walk(|block, units, is_free| {
            let header = self.load(block);
            let tagged = header & PREVIOUS_FREE != 0;
            assert_eq!(tagged, previous_is_free, "tag at {block}");
            if is_free {
                assert!(!previous_is_free, "free neighbours at {block}");
                assert_eq!(header & FREE_UNITS, self.load(block + units - 1), "footer");
                free.insert(block, units);
            }
            previous_is_free = is_free;
            reached = Some(block + units);
        });
        let sentinel = self.end() - 1;
        assert_eq!(reached.unwrap_or(sentinel), sentinel);
        let tagged = self.load(sentinel) & PREVIOUS_FREE != 0;
        assert_eq!(tagged, previous_is_free, "tag at the end");
        free
    }

    /// Walks the lists of all classes, by every way of finding them.
    fn check_lists(&self) -> BTreeMap<usize, usize> {
        let mut listed = BTreeMap::new();
        let mut marked = Vec::new();
        for class in 0..classes::count(self.units_exact) {
            if !self.has_blocks(class) {
                continue;
            }
            marked.push(class);
            let mut candidate = Some(self.head(class));
            while let Some(block) = candidate {
                let units = self.free_block_units(block);
                assert_eq!(self.class(units), class, "block {block} in a wrong list");
                assert_eq!(listed.insert(block, units), None, "block {block} listed twice");
                candidate = self.next(block);
            }
        }
        // The levels above the leaves lead to the same classes.
        let first = self.class_with_blocks(0);
        let found = std::iter::successors(first, |&class| {
            let next = class + 1;
            (next < classes::count(self.units_exact)).then(|| self.class_with_blocks(next)).flatten()
        });
        assert!(found.eq(marked.iter().copied()), "levels of the bitmap");
        assert_eq!(self.class_largest(), marked.last().copied());
        listed
    }
}
