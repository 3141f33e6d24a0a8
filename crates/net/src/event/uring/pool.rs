//! Buffers that the kernel receives into, and their unread contents in inboxes.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::{Submitter, types::BufRingEntry};

use crate::limits::{URING_BUFFER_BYTES, URING_BUFFERS};

/// The kernel's number of the buffer group. A ring has one.
pub(super) const GROUP: u16 = 0;
const NONE: u16 = u16::MAX;
const PAGE_BYTES: usize = 4096;

/// Received input of a stream: a chain of buffers in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inbox {
    first: u16,
    last: u16,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl Inbox {
    #[inline]
    pub fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// Unread part of a buffer, and the next buffer of the inbox.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u32,
    to: u32,
    next: u16,
}

/// A pool of buffers. A buffer is either the kernel's (in the shared ring, or taken from there by a
/// receive) or ours (named by a completion and not given back yet).
#[derive(Debug)]
pub(super) struct Pool {
    /// Ring of buffers that the kernel may take, shared with the kernel.
    ring: Pages<BufRingEntry>,
    memory: Pages<u8>,
    tail: u16,
    /// Number of buffers that are ours.
    ours: usize,
    pieces: Box<[Piece; URING_BUFFERS]>,
}

/// Zeroed memory at a page boundary.
struct Pages<T> {
    start: NonNull<T>,
    layout: Layout,
}

impl<T> Pages<T> {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("a few pages");
        // SAFETY: the length is not zero: both callers pass products of constants.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start.cast()) else {
            handle_alloc_error(layout);
        };
        Self { start, layout }
    }
}

impl<T> std::fmt::Debug for Pages<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.layout.size();
        formatter.debug_struct("Pages").field("bytes", &bytes).finish()
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and dropped once.
        unsafe { dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

impl Pool {
    /// Creates a pool whose buffers are all ours and in no inbox. [`Self::register`] has to follow.
    pub fn new() -> Self {
        let empty = Piece { from: 0, to: 0, next: NONE };
        Self {
            ring: Pages::new(URING_BUFFERS * size_of::<BufRingEntry>()),
            memory: Pages::new(URING_BUFFERS * URING_BUFFER_BYTES),
            tail: 0,
            ours: URING_BUFFERS,
            pieces: Box::new([empty; URING_BUFFERS]),
        }
    }

    /// Gives all buffers to the kernel.
    ///
    /// # Safety
    /// The pool must outlive the ring of the submitter, and be registered once.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub unsafe fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let start = self.ring.start.as_ptr() as u64;
        // SAFETY: the memory holds as many entries as are said, zeroed, at a page boundary, and the
        // caller lets it live as long as the ring.
        unsafe { submitter.register_buf_ring_with_flags(start, URING_BUFFERS as u16, GROUP, 0)? };
        for buffer in 0..URING_BUFFERS {
            self.give_back(buffer as u16);
        }
        Ok(())
    }

    /// Returns whether the kernel has a buffer to receive into.
    #[inline]
    pub fn can_receive(&self) -> bool {
        self.ours < URING_BUFFERS
    }

    /// Returns how many buffers are in inboxes.
    #[cfg(test)]
    pub fn ours(&self) -> usize {
        self.ours
    }

    /// Takes a buffer that a completion named, with so many bytes.
    #[inline]
    pub fn take(&mut self, buffer: u16, bytes: usize) {
        self.ours += 1;
        self.pieces[usize::from(buffer)] =
            Piece { from: 0, to: bytes.min(URING_BUFFER_BYTES) as u32, next: NONE };
    }

    /// Gives a buffer back to the kernel.
    #[inline]
    pub fn give_back(&mut self, buffer: u16) {
        let slot = usize::from(self.tail) % URING_BUFFERS;
        let from = usize::from(buffer) * URING_BUFFER_BYTES;
        // SAFETY: `buffer` is below URING_BUFFERS, so this is within the memory.
        let start = unsafe { self.memory.start.add(from) };
        // SAFETY: `slot` is below URING_BUFFERS, so this is within the ring.
        let mut entry = unsafe { self.ring.start.add(slot) };
        // SAFETY: the kernel does not read this slot before the tail passes it, because no more
        // buffers are out than the ring has slots; nobody else refers to it.
        let entry = unsafe { entry.as_mut() };
        entry.set_addr(start.as_ptr() as u64);
        entry.set_len(URING_BUFFER_BYTES as u32);
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
        self.ours -= 1;
        // SAFETY: the start of the ring, whose first entry lends its reserved field to the tail.
        let tail = unsafe { BufRingEntry::tail(self.ring.start.as_ptr()) };
        // SAFETY: valid and aligned as above; the kernel only reads it.
        let tail = unsafe { &*tail.cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }

    /// Appends one of our buffers to an inbox.
    #[inline]
    pub fn push(&mut self, inbox: &mut Inbox, buffer: u16) {
        if inbox.is_empty() {
            inbox.first = buffer;
        } else {
            self.pieces[usize::from(inbox.last)].next = buffer;
        }
        inbox.last = buffer;
    }

    /// Copies from an inbox. Gives completely read buffers back to the kernel.
    #[inline]
    pub fn read(&mut self, inbox: &mut Inbox, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while !inbox.is_empty() && filled < into.len() {
            let buffer = inbox.first;
            let Piece { from, to, next } = self.pieces[usize::from(buffer)];
            let count = ((to - from) as usize).min(into.len() - filled);
            let at = usize::from(buffer) * URING_BUFFER_BYTES + from as usize;
            // SAFETY: within the memory: `to` is at most the length of a buffer.
            let start = unsafe { self.memory.start.add(at) };
            // SAFETY: the buffer stands in an inbox, so it is ours: the kernel does not write it
            // until it is given back. Its bytes were zero or written by the kernel.
            let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), count) };
            into[filled..filled + count].copy_from_slice(bytes);
            filled += count;
            if from + count as u32 == to {
                inbox.first = next;
                self.give_back(buffer);
            } else {
                self.pieces[usize::from(buffer)].from += count as u32;
            }
        }
        filled
    }

    /// Gives all buffers of an inbox back unread.
    pub fn discard(&mut self, inbox: &mut Inbox) {
        while !inbox.is_empty() {
            let buffer = inbox.first;
            inbox.first = self.pieces[usize::from(buffer)].next;
            self.give_back(buffer);
        }
    }
}
