//! A region on the heap, for loom and miri: the same interface, a few words, no mapping. The
//! mirror is a wrap of the index.

use std::io;

use crate::Pages;
use crate::sync::AtomicU64;

/// See the mapped `Region`: the same interface.
#[derive(Debug)]
pub struct Region {
    words: Box<[AtomicU64]>,
    words_visible: usize,
}

impl Region {
    /// A region of `bytes`, zeroed.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Self::mirrored(bytes, 0)
    }

    /// A region of `bytes` whose first `mirror_bytes` follow again after its end.
    pub fn mirrored(bytes: usize, mirror_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            words_visible: (bytes + mirror_bytes) / 8,
        })
    }

    /// Words that may be addressed, the mirror included.
    #[inline]
    pub fn words(&self) -> usize {
        self.words_visible
    }

    /// The word at `index`.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words_visible);
        &self.words[index % self.words.len()]
    }

    /// `N` words from `first` on; not across the end.
    #[inline]
    pub fn array<const N: usize>(&self, first: usize) -> &[AtomicU64; N] {
        self.words[first..]
            .first_chunk()
            .expect("words within the region")
    }

    /// `words` words from `first` on; not across the end.
    #[inline]
    pub(crate) fn slice(&self, first: usize, words: usize) -> &[AtomicU64] {
        &self.words[first..first + words]
    }

    /// Nothing to prefetch.
    pub fn prefetch(&self, _word: usize) {}

    /// Always small.
    pub fn pages(&self) -> Pages {
        Pages::Small
    }

    /// Nothing to collapse.
    pub fn collapse(&self, _first_byte: usize, _bytes: usize) -> bool {
        false
    }

    /// Present already.
    pub fn populate(&self) {}
}
