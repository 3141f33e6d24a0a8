//! Output: a caller's bytes, which replies, statistics and lines of watchers fill from the front.

mod key;

pub(crate) use key::{encode_key, is_word};

/// Bytes that are filled from the front.
#[derive(Debug)]
pub struct Output<'a> {
    bytes: &'a mut [u8],
    filled: usize,
}

impl<'a> Output<'a> {
    /// Continues `bytes`, of which the first `filled` are filled.
    #[inline]
    pub fn new(bytes: &'a mut [u8], filled: usize) -> Self {
        Self { bytes, filled }
    }

    /// Returns the number of bytes that are filled.
    #[inline]
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Returns the number of bytes that are free.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Appends bytes. There must be room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.bytes[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    /// Appends the bytes that `write` puts into the room. It returns their number.
    #[inline]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.filled += write(&mut self.bytes[self.filled..]);
    }

    /// Appends `bytes` and lends them for writing.
    #[inline]
    pub(crate) fn give(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += bytes;
        &mut self.bytes[start..self.filled]
    }

    /// Returns the bytes after the first `filled`.
    #[inline]
    pub(crate) fn since(&self, filled: usize) -> &[u8] {
        &self.bytes[filled..self.filled]
    }

    /// Removes the bytes after the first `filled`.
    #[inline]
    pub(crate) fn truncate(&mut self, filled: usize) {
        debug_assert!(filled <= self.filled);
        self.filled = filled;
    }
}
