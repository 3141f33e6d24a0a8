//! Registered memory: buffers of transfers, and areas that peers read.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use micanite_memory::{PAGE_BYTES, Region, WORD_BYTES};
use nix::sys::mman::{MmapAdvise, madvise};

use crate::domain::{Domain, Registration};
use crate::error::Error;

/// Bytes of an encoded [`RemoteArea`].
const REMOTE_BYTES: usize = 24;

/// Whole pages, zeroed at first, which stay in place.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for Pages {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Result<Self, Error> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE_BYTES);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, PAGE_BYTES).ok());
        let layout = layout.ok_or(Error::OutOfRange)?;
        // SAFETY: the layout has at least one page.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or_else(|| Error::Unavailable("out of memory".to_owned()))?;
        Ok(Self { start, layout })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and whoever used it has ended.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Memory of a transfer.
#[cfg_attr(not(feature = "libfabric"), expect(dead_code, reason = "no domain reads it"))]
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub registration: &'a Registration,
    pub start: *mut u8,
    pub bytes: usize,
}

impl Place<'_> {
    /// Splits the place into its first bytes and the others.
    pub(crate) fn split(self, at: usize) -> (Self, Self) {
        let at = at.min(self.bytes);
        let behind = Self { start: self.start.wrapping_add(at), bytes: self.bytes - at, ..self };
        (Self { bytes: at, ..self }, behind)
    }
}

/// Registered memory for one transfer at a time: bytes to send, or room for what is received or read.
///
/// A transfer takes it, so that nobody sees or frees the bytes meanwhile.
#[derive(Debug)]
pub struct Buffer {
    registered: Arc<Registered>,
    start: NonNull<u8>,
    bytes: usize,
}

/// Memory of a buffer, or of all parts of one.
#[derive(Debug)]
struct Registered {
    /// `None`: libfabric has kept the registration, so the memory is never freed.
    pages: Option<Pages>,
    registration: Registration,
    domain: Arc<Domain>,
}

// SAFETY: it owns its part of the memory, which no other buffer has.
unsafe impl Send for Buffer {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(domain: &Arc<Domain>, bytes: usize) -> Result<Self, Error> {
        let pages = Pages::new(bytes)?;
        let start = pages.start;
        // SAFETY: the pages live beside the registration until it has ended.
        let registration = unsafe { domain.register(start.as_ptr(), pages.layout.size(), false) }?;
        let registered = Registered { pages: Some(pages), registration, domain: Arc::clone(domain) };
        Ok(Self { registered: Arc::new(registered), start, bytes })
    }

    /// Splits the buffer into two, which share one registration. This keeps the first `at` bytes, and the
    /// returned one has the others. The memory is freed with the last part.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    #[must_use]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.bytes);
        // SAFETY: within the buffer, or at its end.
        let start = unsafe { self.start.add(at) };
        let rest = Self { registered: Arc::clone(&self.registered), start, bytes: self.bytes - at };
        self.bytes = at;
        rest
    }

    /// Returns the first bytes as the place of a transfer.
    pub(crate) fn place(&self, bytes: usize) -> Place<'_> {
        assert!(bytes <= self.bytes);
        Place { registration: &self.registered.registration, start: self.start.as_ptr(), bytes }
    }

    /// Returns whether it was registered in this domain.
    pub(crate) fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.registered.domain, domain)
    }
}

impl Buffer {
    /// Gives the memory of whole pages back to the system, though a transfer has the buffer. The addresses
    /// stay, and their bytes are zeros.
    pub(crate) fn discard(&mut self) {
        let start = self.start.as_ptr();
        let skipped = start.align_offset(PAGE_BYTES).min(self.bytes);
        let bytes = (self.bytes - skipped) / PAGE_BYTES * PAGE_BYTES;
        let Some(first) = NonNull::new(start.wrapping_add(skipped).cast()).filter(|_| bytes > 0) else {
            return;
        };
        // SAFETY: whole pages of this buffer, which nobody else has and which are private and anonymous. They
        // stay mapped, so a provider that still reads them reads zeros. Nobody borrows them, because a
        // transfer has the buffer.
        let discarded = unsafe { madvise(first, bytes, MmapAdvise::MADV_DONTNEED) };
        // A system that refuses keeps the memory, and nothing else changes.
        let _ = discarded;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated and zeroed, and no other buffer has them; no transfer is under
        // way, since it would have self.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and self is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if !self.domain.unregister(&self.registration) {
            std::mem::forget(self.pages.take());
        }
    }
}

/// Registered memory that peers can read, and not write, while this lives. The server's threads write it by
/// the words of its region; a reader may see any mixture of old and new words.
#[derive(Debug)]
pub struct Area {
    region: Arc<Region>,
    registration: Registration,
    domain: Arc<Domain>,
}

impl Area {
    pub(crate) fn new(domain: &Arc<Domain>, region: Arc<Region>) -> Result<Self, Error> {
        if region.words() == 0 {
            return Err(Error::OutOfRange);
        }
        let start = std::ptr::from_ref(region.word(0)).cast_mut().cast();
        let bytes = region.words() * WORD_BYTES;
        // SAFETY: the region lives in the area, and then in the domain until the endpoint is shut.
        let registration = unsafe { domain.register(start, bytes, true) }?;
        Ok(Self { region, registration, domain: Arc::clone(domain) })
    }

    /// Returns the memory.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Returns the numbers that a peer needs to read it. The key is a secret from those who may not.
    pub fn remote(&self) -> RemoteArea {
        let bytes = (self.region.words() * WORD_BYTES) as u64;
        RemoteArea { key: self.registration.key, base: self.registration.base, bytes }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // If libfabric keeps the registration, the memory must stay: the domain cannot be closed then,
        // either.
        if !self.domain.unregister(&self.registration) {
            std::mem::forget(Arc::clone(&self.region));
        }
        self.domain.retire(Arc::clone(&self.region));
    }
}

/// Another process's area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteArea {
    pub key: u64,
    /// The number that offsets are added to: an address in the other process, or zero.
    pub base: u64,
    pub bytes: u64,
}

impl RemoteArea {
    /// Encodes it for a message: three little-endian numbers.
    pub fn encode(&self) -> [u8; REMOTE_BYTES] {
        let mut bytes = [0; REMOTE_BYTES];
        for (number, place) in [self.key, self.base, self.bytes].into_iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reverses [`RemoteArea::encode`], and ignores what is behind it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Self { key: number(0)?, base: number(8)?, bytes: number(16)? })
    }

    /// Returns the remote address of a range within the area.
    pub(crate) fn address_of(&self, offset: u64, bytes: usize) -> Result<u64, Error> {
        let end = offset.checked_add(bytes as u64).ok_or(Error::OutOfRange)?;
        if end > self.bytes {
            return Err(Error::OutOfRange);
        }
        self.base.checked_add(offset).ok_or(Error::OutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        let area = RemoteArea { key: 1 << 63, base: 0x1234_5678_9abc, bytes: 4096 };
        let mut bytes = area.encode().to_vec();
        assert_eq!(RemoteArea::decode(&bytes[..23]), None);
        bytes.push(7);
        assert_eq!(RemoteArea::decode(&bytes), Some(area));
    }

    #[test]
    fn ranges_stay_within_the_area() {
        let area = RemoteArea { key: 0, base: 1000, bytes: 64 };
        assert_eq!(area.address_of(0, 64), Ok(1000));
        assert_eq!(area.address_of(64, 0), Ok(1064));
        assert_eq!(area.address_of(1, 64), Err(Error::OutOfRange));
        assert_eq!(area.address_of(u64::MAX, 2), Err(Error::OutOfRange));
        let high = RemoteArea { base: u64::MAX, ..area };
        assert_eq!(high.address_of(1, 1), Err(Error::OutOfRange));
    }
}
