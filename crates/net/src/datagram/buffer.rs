//! Memory that begins at a cache line.

pub(super) const LINE_BYTES: usize = 64;

/// A fixed number of zeroed bytes. Untouched pages cost nothing.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
}

impl Buffer {
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + LINE_BYTES].into_boxed_slice();
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        Self { bytes, start }
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}
