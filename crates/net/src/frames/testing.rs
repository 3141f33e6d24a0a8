//! Queues of frames for tests and benchmarks: in memory, and observed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::queue::FrameBurst;
use super::{Frame, FrameQueue, ReceiveChecksums};

/// Frames added by a test, and frames that were sent.
#[derive(Debug)]
pub struct MemoryQueue {
    /// All buffers, zeroed. Those in `free` are unused.
    buffers: Vec<NonNull<[u8]>>,
    free: Vec<usize>,
    /// Frames for [`FrameQueue::recv`].
    pub arriving: VecDeque<Vec<u8>>,
    /// Frames that were sent.
    pub sent: Vec<Vec<u8>>,
    /// Reported state of checksums.
    pub checksums: ReceiveChecksums,
    /// Result of [`FrameQueue::lost`].
    pub lost: u32,
    headroom: usize,
}

// SAFETY: the buffers are owned.
unsafe impl Send for MemoryQueue {}

impl MemoryQueue {
    /// Creates a queue of `buffers` with `room_bytes`, in which frames begin at `headroom`.
    pub fn new(buffers: usize, room_bytes: usize, headroom: usize) -> Self {
        let buffer = |_| NonNull::from(Box::leak(vec![0; room_bytes].into_boxed_slice()));
        Self {
            buffers: (0..buffers).map(buffer).collect(),
            free: (0..buffers).collect(),
            arriving: VecDeque::new(),
            sent: Vec::new(),
            checksums: ReceiveChecksums::Unverified,
            lost: 0,
            headroom,
        }
    }

    /// Returns how many buffers are unused.
    pub fn free_buffers(&self) -> usize {
        self.free.len()
    }

    fn take(&mut self, bytes: usize) -> Option<Frame> {
        let number = self.free.pop()?;
        let buffer = self.buffers[number];
        let memory = buffer.cast::<u8>();
        let place = (self.headroom as u32, bytes as u32);
        // SAFETY: the buffer is initialised, lives as long as the queue, and was nobody's.
        Some(unsafe { Frame::new(memory, buffer.len() as u32, place, number as u64) })
    }
}

impl Drop for MemoryQueue {
    fn drop(&mut self) {
        for buffer in self.buffers.drain(..) {
            // SAFETY: it came from a box, and is given up once.
            drop(unsafe { Box::from_raw(buffer.as_ptr()) });
        }
    }
}

// SAFETY: a buffer is taken off `free` for each frame and put back when the frame comes back.
unsafe impl FrameQueue for MemoryQueue {
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        while !burst.is_full() && !self.free.is_empty() {
            let Some(bytes) = self.arriving.pop_front() else {
                break;
            };
            if let Some(mut frame) = self.take(bytes.len()) {
                let start = frame.start();
                frame.buffer_mut()[start..start + bytes.len()].copy_from_slice(&bytes);
                burst.push(frame);
            }
        }
        Ok(())
    }

    fn alloc(&mut self) -> Option<Frame> {
        self.take(0)
    }

    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        for frame in burst.drain(..) {
            self.sent.push(frame.bytes().to_vec());
            self.free.push(frame.handle as usize);
        }
        Ok(())
    }

    fn free(&mut self, frame: Frame) {
        self.free.push(frame.handle as usize);
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        self.checksums
    }

    fn computes_checksums(&self) -> bool {
        false
    }

    fn lost(&mut self) -> u32 {
        self.lost
    }

    fn unsent(&self) -> u64 {
        0
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frame_bytes_max(&self) -> usize {
        self.buffers.first().map_or(0, |buffer| buffer.len()) - self.headroom
    }
}

/// A call of a queue that moves frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It begins to receive.
    Receives,
    /// It has received so many frames.
    Received(usize),
    /// It begins to send.
    Sends,
    /// It has sent.
    Sent,
}

/// A queue whose receiving and sending is observed.
#[derive(Debug)]
pub struct WatchedQueue<Q, F> {
    /// The queue itself.
    pub queue: Q,
    /// Is told each call.
    pub watch: F,
}

// SAFETY: the queue does all, and does it by this contract.
unsafe impl<Q: FrameQueue, F: FnMut(Call)> FrameQueue for WatchedQueue<Q, F> {
    #[inline]
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        (self.watch)(Call::Receives);
        let received = self.queue.recv(burst);
        (self.watch)(Call::Received(burst.len()));
        received
    }

    #[inline]
    fn alloc(&mut self) -> Option<Frame> {
        self.queue.alloc()
    }

    #[inline]
    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        (self.watch)(Call::Sends);
        let sent = self.queue.send(burst);
        (self.watch)(Call::Sent);
        sent
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        self.queue.free(frame);
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        self.queue.receive_checksums()
    }

    fn computes_checksums(&self) -> bool {
        self.queue.computes_checksums()
    }

    fn lost(&mut self) -> u32 {
        self.queue.lost()
    }

    fn unsent(&self) -> u64 {
        self.queue.unsent()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.queue.descriptor()
    }

    fn frame_bytes_max(&self) -> usize {
        self.queue.frame_bytes_max()
    }
}
