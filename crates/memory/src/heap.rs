//! A region on the heap, for loom and miri: the same interface, a few words, no mapping.

use std::io;

use crate::Pages;
use crate::sync::AtomicU64;

/// See the mapped `Region`: the same interface.
#[derive(Debug)]
pub struct Region {
    words: Box<[AtomicU64]>,
}

impl Region {
    /// A region of `bytes`, zeroed.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Ok(Self {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Not here.
    pub fn file(_file: &std::fs::File, _bytes: usize) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Not here.
    pub fn descriptor(_descriptor: impl std::os::fd::AsFd, _bytes: usize) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Words that may be addressed.
    #[inline]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// The word at `index`.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// `N` words from `first` on.
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

    /// Nothing to write.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Nothing to write.
    pub fn sync_first(&self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Present already.
    pub fn populate(&self) {}
}
