//! A buffer of a queue, and the frame in it.

use std::ptr::NonNull;
use std::slice;

/// One buffer of a queue with the frame in it. Its holder has exclusive access to the buffer, until
/// it is given back to its queue.
#[derive(Debug)]
pub struct Frame {
    memory: NonNull<u8>,
    room_bytes: u32,
    start: u32,
    bytes: u32,
    /// Identifies the buffer for the queue: its offset in a UMEM, the address of an mbuf.
    pub(crate) handle: u64,
    /// Bytes of the link headers and of the network header of a frame to send, for queues whose
    /// hardware computes checksums.
    pub header_bytes: (u8, u8),
}

// SAFETY: a frame is the only way to its buffer, which any thread may touch.
unsafe impl Send for Frame {}

impl Frame {
    /// Creates a frame of `bytes` at `start` of a buffer.
    ///
    /// # Safety
    /// The `room_bytes` at `memory` can be read and written, are initialised, and nobody else
    /// touches them before the frame is given back to the queue that it is from.
    ///
    /// # Panics
    /// If the frame does not lie in the buffer.
    #[inline]
    pub unsafe fn new(memory: NonNull<u8>, room_bytes: u32, (start, bytes): (u32, u32), handle: u64) -> Self {
        assert!(start <= room_bytes && bytes <= room_bytes - start);
        Self { memory, room_bytes, start, bytes, handle, header_bytes: (0, 0) }
    }

    /// Returns the handle that the frame was created with.
    #[inline]
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Returns the offset of the frame in its buffer.
    #[inline]
    pub const fn start(&self) -> usize {
        self.start as usize
    }

    /// Returns the frame's length.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Returns whether the frame has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: it lies in the buffer (checked when it was made and moved), which is ours.
        let start = unsafe { self.memory.add(self.start as usize) };
        // SAFETY: as above; the reference lives no longer than that to the frame.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.bytes as usize) }
    }

    /// Returns the whole buffer.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer is ours alone, and the reference lives no longer than that to the
        // frame.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.room_bytes as usize) }
    }

    /// Moves the frame to `start` of the buffer, with `bytes`.
    ///
    /// # Panics
    /// If it would not lie in the buffer.
    #[inline]
    pub fn place(&mut self, start: usize, bytes: usize) {
        let room = self.room_bytes as usize;
        assert!(start <= room && bytes <= room - start);
        (self.start, self.bytes) = (start as u32, bytes as u32);
    }

    /// Prefetches the headers.
    #[inline]
    pub(super) fn prefetch(&self) {
        let start = self.memory.as_ptr().wrapping_add(self.start as usize);
        // SAFETY: a prefetch does not access memory in the sense of the language and never faults.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(start.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start;
    }

    /// Returns the offset of the first cache line after the frame.
    #[inline]
    pub(super) fn behind(&self) -> usize {
        // A buffer begins at a cache line, or close to one.
        (self.start as usize + self.bytes as usize).next_multiple_of(64)
    }

    /// Returns whether the buffer has so many bytes from `at` on.
    #[inline]
    pub(super) const fn has_room(&self, at: usize, bytes: usize) -> bool {
        at + bytes <= self.room_bytes as usize
    }

    /// Returns the bytes of the frame, for longer than the reference to it.
    ///
    /// # Safety
    /// While they are in use, nobody writes to them: the frame is not given back, and
    /// [`Self::buffer_mut`] is not called.
    #[inline]
    pub(super) unsafe fn lend<'a>(&self) -> &'a [u8] {
        // SAFETY: it lies in the buffer.
        let start = unsafe { self.memory.add(self.start as usize) };
        // SAFETY: it is initialised, and the caller keeps it from being written.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.bytes as usize) }
    }

    /// Returns the rest of the buffer from `at` on, for writing while the frame itself is lent.
    ///
    /// # Panics
    /// If `at` is not behind the frame.
    #[inline]
    pub(super) fn rest_mut(&mut self, at: usize) -> &mut [u8] {
        let room = self.room_bytes as usize;
        assert!((self.start + self.bytes) as usize <= at && at <= room);
        // SAFETY: it lies in the buffer, or at its end.
        let rest = unsafe { self.memory.add(at) };
        // SAFETY: the buffer is ours, and this part shares nothing with what is lent.
        unsafe { slice::from_raw_parts_mut(rest.as_ptr(), room - at) }
    }
}
