//! Where replies go: somebody's bytes, filled from the front.

/// Replies that were produced and not taken yet.
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

    /// Bytes that are filled.
    #[inline]
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Bytes that are not.
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

    /// Appends what `write` puts at the start of the room and returns the length of.
    #[inline]
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut [u8]) -> usize) {
        self.filled += write(&mut self.bytes[self.filled..]);
    }

    /// Appends `bytes` that somebody else writes.
    #[inline]
    pub(super) fn give(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += bytes;
        &mut self.bytes[start..self.filled]
    }

    /// What was appended since `filled` bytes were there.
    #[inline]
    pub(super) fn since(&self, filled: usize) -> &[u8] {
        &self.bytes[filled..self.filled]
    }

    /// Takes back what was appended since `filled` bytes were there.
    #[inline]
    pub(super) fn truncate(&mut self, filled: usize) {
        debug_assert!(filled <= self.filled);
        self.filled = filled;
    }
}
