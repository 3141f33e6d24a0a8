//! Size classes, and the pages that they hold.

use super::slots::{List, NONE};
use crate::layout::UNIT_BYTES;

/// Chunks of one size.
#[derive(Debug)]
pub struct Class {
    pub chunk_bytes: u32,
    pub chunks_per_page: u32,
    pub pages: u32,
    /// Page whose last chunks were never used.
    pub carving: u32,
    pub free: List,
    /// The chunk used last, or under FIFO published last, is the first.
    pub living: List,
    /// Number of dying chunks, without those of the page that is being emptied.
    pub dying: u32,
    /// Loads that found no chunk since a class last won a page.
    pub failures: u32,
}

impl Class {
    /// Returns the classes of a page, by size: 1.25 apart or more, the last one a page. A size that leaves
    /// bytes of a page unused grows, as far as the number of chunks stays.
    pub fn all(page_bytes: usize) -> Vec<Self> {
        let mut classes = Vec::new();
        let mut bytes = UNIT_BYTES;
        while bytes <= page_bytes {
            let chunks = page_bytes / bytes;
            let fitting = page_bytes / chunks / UNIT_BYTES * UNIT_BYTES;
            classes.push(Self::new(fitting, chunks));
            bytes = (fitting + fitting / 4).next_multiple_of(UNIT_BYTES).max(fitting + UNIT_BYTES);
        }
        classes
    }

    fn new(chunk_bytes: usize, chunks: usize) -> Self {
        Self {
            chunk_bytes: chunk_bytes as u32,
            chunks_per_page: chunks as u32,
            pages: 0,
            carving: NONE,
            free: List::EMPTY,
            living: List::EMPTY,
            dying: 0,
            failures: 0,
        }
    }
}

/// Page of a partition.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// [`NONE`]: free.
    pub class: u32,
    /// Chunks that were used since the class has the page.
    pub carved: u32,
    /// Carved chunks that are not absent.
    pub present: u32,
    pub living: u32,
    pub dying: u32,
    pub is_emptied: bool,
}

impl Page {
    pub const FREE: Self =
        Self { class: NONE, carved: 0, present: 0, living: 0, dying: 0, is_emptied: false };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_units_and_waste_little() {
        for page_bytes in [64, 128, 192, 256, 1024, 4096, 1 << 20, 8 << 20, crate::layout::PAGE_BYTES_MAX] {
            let classes = Class::all(page_bytes);
            assert_eq!(classes.last().unwrap().chunk_bytes as usize, page_bytes);
            assert_eq!(classes[0].chunk_bytes, 64);
            for (smaller, larger) in classes.iter().zip(&classes[1..]) {
                let (small, large) = (smaller.chunk_bytes as usize, larger.chunk_bytes as usize);
                assert!(small % 64 == 0 && large > small && large >= small + small / 4, "{small} {large}");
                // Few chunks in a page: the next size that makes their number smaller is further away.
                assert!(large <= 2 * small + 64);
                assert!(large > page_bytes / 16 || large <= small + small / 4 + small / 8 + 64);
                assert!(small * smaller.chunks_per_page as usize <= page_bytes);
            }
        }
    }
}
