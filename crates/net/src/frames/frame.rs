//! A buffer of a queue, and the frame in it.

use std::ptr::NonNull;
use std::slice;

/// One buffer of a queue with the frame that lies in it. Whoever has it has the buffer to himself,
/// until it is given back to its queue.
#[derive(Debug)]
pub struct Frame {
    memory: NonNull<u8>,
    room_bytes: u32,
    start: u32,
    bytes: u32,
    /// What the queue knows the buffer by: its offset in a UMEM, the address of an mbuf.
    pub(crate) handle: u64,
    /// Bytes of the headers up to the network layer, and of those of the network layer, of a frame
    /// that leaves; for queues that have checksums computed by hardware.
    pub header_bytes: (u8, u8),
}

// SAFETY: a frame is the only way to its buffer, which any thread may touch.
unsafe impl Send for Frame {}

impl Frame {
    /// The frame of `bytes` at `start` of a buffer.
    ///
    /// # Safety
    /// The `room_bytes` at `memory` can be read and written, are initialised, and nobody else
    /// touches them before the frame is given back to the queue that it is from.
    ///
    /// # Panics
    /// When the frame does not lie in the buffer.
    #[inline]
    pub unsafe fn new(
        memory: NonNull<u8>,
        room_bytes: u32,
        (start, bytes): (u32, u32),
        handle: u64,
    ) -> Self {
        assert!(start <= room_bytes && bytes <= room_bytes - start);
        Self {
            memory,
            room_bytes,
            start,
            bytes,
            handle,
            header_bytes: (0, 0),
        }
    }

    /// What its queue knows the buffer by: as it was made with.
    #[inline]
    pub const fn handle(&self) -> u64 {
        self.handle
    }

    /// Where in its buffer the frame begins.
    #[inline]
    pub const fn start(&self) -> usize {
        self.start as usize
    }

    /// The frame's length.
    #[inline]
    pub const fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of the frame.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: it lies in the buffer (checked when it was made and moved), which is ours.
        let start = unsafe { self.memory.add(self.start as usize) };
        // SAFETY: as above; the reference lives no longer than that to the frame.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.bytes as usize) }
    }

    /// The whole buffer.
    #[inline]
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: the buffer is ours alone, and the reference lives no longer than that to the frame.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.room_bytes as usize) }
    }

    /// The frame now begins at `start` of the buffer and has `bytes`.
    ///
    /// # Panics
    /// When it would not lie in the buffer.
    #[inline]
    pub fn place(&mut self, start: usize, bytes: usize) {
        let room = self.room_bytes as usize;
        assert!(start <= room && bytes <= room - start);
        (self.start, self.bytes) = (start as u32, bytes as u32);
    }

    /// Asks for the headers, for they are read soon.
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

    /// Where the bytes behind the frame begin, at the next cache line.
    #[inline]
    pub(super) fn behind(&self) -> usize {
        // A buffer begins at a cache line, or near enough to one.
        (self.start as usize + self.bytes as usize).next_multiple_of(64)
    }

    /// Whether the buffer has so many bytes from `at` on.
    #[inline]
    pub(super) const fn has_room(&self, at: usize, bytes: usize) -> bool {
        at + bytes <= self.room_bytes as usize
    }

    /// The bytes of the frame, for longer than the reference to it.
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

    /// The rest of the buffer from `at` on, for writing while the frame itself is lent.
    ///
    /// # Panics
    /// When that is not behind the frame.
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
