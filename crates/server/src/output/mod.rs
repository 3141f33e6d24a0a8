//! The output: bytes of a caller that replies, statistics, and lines of watchers fill from the front.

mod key;

pub(crate) use key::{encode_key, is_word};

/// Bytes that were produced and not taken yet.
#[derive(Debug)]
pub struct Output<'a> {
    bytes: &'a mut [u8],
    filled: usize,
}

impl<'a> Output<'a> {
    /// Fills `bytes` behind the first `filled`.
    #[inline]
    pub fn new(bytes: &'a mut [u8], filled: usize) -> Self {
        Self { bytes, filled }
    }

    /// The number of bytes that are filled.
    #[inline]
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// The number of bytes that are free.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Appends; there must be room.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let end = self.filled + bytes.len();
        self.bytes[self.filled..end].copy_from_slice(bytes);
        self.filled = end;
    }

    /// Appends what `write` puts into the room. It returns how much that is.
    #[inline]
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.filled += write(&mut self.bytes[self.filled..]);
    }

    /// Appends so many bytes, and lends them to be written.
    #[inline]
    pub(crate) fn give(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += bytes;
        &mut self.bytes[start..self.filled]
    }

    /// The bytes behind the first `filled`.
    #[inline]
    pub(crate) fn since(&self, filled: usize) -> &[u8] {
        &self.bytes[filled..self.filled]
    }

    /// Takes back the bytes behind the first `filled`.
    #[inline]
    pub(crate) fn truncate(&mut self, filled: usize) {
        debug_assert!(filled <= self.filled);
        self.filled = filled;
    }
}
