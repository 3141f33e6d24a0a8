//! A region on the heap, for loom and miri: the same interface, a few words, no mapping.

use std::io;

use crate::sync::AtomicU64;
use crate::{HEAD_WORDS, Pages};

/// Memory with the interface of the mapped `Region`.
#[derive(Debug)]
pub struct Region {
    words: Box<[AtomicU64]>,
}

impl Region {
    /// Creates a zeroed region.
    pub fn private(bytes: usize) -> io::Result<Self> {
        Ok(Self { words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Creates a zeroed region.
    pub fn sparse(bytes: usize) -> io::Result<Self> {
        Self::private(bytes)
    }

    /// Returns the bytes of a page.
    pub fn page_bytes(&self) -> usize {
        crate::PAGE_BYTES
    }

    /// Unsupported here.
    pub fn give_back(&self, _first_byte: usize, _bytes: usize) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Does nothing: the memory is present.
    pub fn commit(&self, _first_byte: usize, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Unsupported here.
    pub fn file(_file: &std::fs::File, _bytes: usize) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Unsupported here.
    pub fn descriptor(_descriptor: impl std::os::fd::AsFd, _bytes: usize) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Unsupported here.
    pub fn foreign(_descriptor: impl std::os::fd::AsFd, _bytes: usize) -> io::Result<Self> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Unsupported here.
    pub fn readable(_bytes: usize) -> io::Result<(Self, std::os::fd::OwnedFd)> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Unsupported here.
    pub fn exchange(_bytes: usize) -> io::Result<(Self, std::os::fd::OwnedFd)> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Unsupported here.
    pub(crate) fn wipe_on_fork(&self) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// Returns the number of words.
    #[inline]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// Returns `N` words from `first` on.
    #[inline]
    pub fn array<const N: usize>(&self, first: usize) -> &[AtomicU64; N] {
        self.words[first..].first_chunk().expect("words within the region")
    }

    /// Returns the first words.
    pub fn head(&self) -> &[AtomicU64; HEAD_WORDS] {
        self.array(0)
    }

    /// Returns the word at `index`. Panics beyond the end.
    pub fn head_word(&self, index: usize) -> &AtomicU64 {
        self.word(index)
    }

    /// Returns `words` words from `first` on. Panics beyond the end.
    #[inline]
    pub(crate) fn slice(&self, first: usize, words: usize) -> &[AtomicU64] {
        &self.words[first..first + words]
    }

    /// Does nothing.
    pub fn prefetch(&self, _word: usize) {}

    /// Returns false.
    pub fn is_file(&self) -> bool {
        false
    }

    /// Returns small pages.
    pub fn pages(&self) -> Pages {
        Pages::Small
    }

    /// Does nothing.
    pub fn collapse(&self, _first_byte: usize, _bytes: usize) -> bool {
        false
    }

    /// Does nothing.
    pub fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing.
    pub fn sync_first(&self, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// Does nothing.
    pub fn probe_huge(&mut self, _first_byte: usize) {}

    /// Does nothing: the memory is present already.
    pub fn populate(&self) {}

    /// Does nothing: the memory is present already.
    pub fn populate_range(&self, _first_byte: usize, _bytes: usize) {}
}
