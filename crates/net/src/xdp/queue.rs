//! Frames of one queue of an interface.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use super::socket::{Binding, RING_ENTRIES, Refused, Socket};
use super::umem::{CHUNK_BYTES, Umem, prefetch};
use crate::frames::{Frame, FrameBurst, FrameQueue, ReceiveChecksums};
use crate::limits::FRAME_BURST_MAX;

/// Chunks of a queue: 16 MiB. It has fewer if not enough memory may be locked.
pub(super) const CHUNKS_MAX: usize = RING_ENTRIES as usize;
/// 2 MiB.
pub(super) const CHUNKS_MIN: usize = 512;
/// Chunks that wait for frames, in copy mode. The number is small so that chunks are reused while
/// they are in the cache.
const RECEIVE_CHUNKS_COPY: u32 = 1024;
/// Chunks that wait for frames, in zero-copy mode, where they also fill the NIC's ring.
const RECEIVE_CHUNKS_ZERO_COPY: u32 = 3072;
/// Chunks that are given to the kernel, or taken back, at once.
const TURN: u32 = FRAME_BURST_MAX as u32;
/// Maximum number of calls to make the kernel send a burst.
const KICKS_MAX: u32 = 4;
/// Interval between reads of the kernel's statistics.
const STATISTICS_PERIOD: Duration = Duration::from_millis(1);
/// Calls between two looks at the clock.
const CALLS_PER_LOOK: u32 = 32;
/// Interval between checks that the interface still exists. They happen only when no frames arrive,
/// because a poll does not show it.
const GONE_PERIOD: Duration = Duration::from_millis(100);
/// Empty receives between two looks at the clock for that check.
const IDLE_PER_LOOK: u32 = 4;

/// A queue of an interface.
#[derive(Debug)]
pub struct XdpQueue {
    socket: Socket,
    umem: Umem,
    chunks: usize,
    /// Unused chunks. The last one is the most likely to be in the cache.
    free: Vec<u32>,
    /// Chunks that wait for frames, or hold one that was not received yet.
    receiving: u32,
    receiving_max: u32,
    /// Chunks with frames to send.
    sending: u32,
    /// Limit for chunks with frames to send, which keeps enough for receiving. Frames beyond it are
    /// dropped.
    sending_max: u32,
    checksums: ReceiveChecksums,
    frame_bytes_max: usize,
    unsent: u64,
    lost: Lost,
    /// Empty receives, wrapping.
    idle: u32,
    /// Time of the last check that the interface still exists.
    looked: Instant,
    is_gone: bool,
}

/// Lost frames at the last read of the kernel's statistics.
#[derive(Debug)]
struct Lost {
    frames: u64,
    asked: Instant,
    calls: u32,
}

impl XdpQueue {
    pub(super) fn open(
        binding: Binding,
        chunks: usize,
        checksums: ReceiveChecksums,
        frame_bytes_max: usize,
    ) -> Result<Self, Refused> {
        let umem = Umem::new(chunks).map_err(|error| ("memory for frames", error))?;
        let socket = Socket::open(&umem, binding)?;
        let receiving_max = match socket.is_zero_copy() {
            true => RECEIVE_CHUNKS_ZERO_COPY,
            false => RECEIVE_CHUNKS_COPY,
        };
        // A quarter is always left for sending.
        let receiving_max = receiving_max.min(chunks as u32 * 3 / 4);
        let mut queue = Self {
            socket,
            umem,
            chunks,
            free: (0..chunks as u32).rev().collect(),
            receiving: 0,
            receiving_max,
            sending: 0,
            sending_max: chunks as u32 - receiving_max,
            checksums,
            frame_bytes_max,
            unsent: 0,
            lost: Lost { frames: 0, asked: Instant::now(), calls: 0 },
            idle: 0,
            looked: Instant::now(),
            is_gone: false,
        };
        queue.fill(1);
        Ok(queue)
    }

    /// Returns the socket, for the map of the program.
    pub(super) fn as_raw_fd(&self) -> RawFd {
        self.socket.descriptor().as_raw_fd()
    }

    /// Describes the mode of the queue.
    pub(super) fn description(&self) -> String {
        let copy = match self.socket.is_zero_copy() {
            true => "zero copy",
            false => "copy",
        };
        let busy = match self.socket.busy_polls() {
            true => ", busy polling",
            false => "",
        };
        let refused = self.socket.refused().map(|why| format!(", {why}"));
        let refused = refused.unwrap_or_default();
        let (mib, pages) = (self.umem.bytes() >> 20, self.umem.pages());
        format!("{copy}{busy}{refused}, {mib} MiB of frames per queue in {pages}")
    }

    /// Returns numbers of chunks: unused, with the kernel to receive, with the kernel to send, with
    /// the holders of received or allocated frames.
    pub fn chunks(&mut self) -> [usize; 4] {
        self.reap(u32::MAX);
        let (free, receiving) = (self.free.len(), self.receiving as usize);
        let sending = self.sending as usize;
        [free, receiving, sending, self.chunks - free - receiving - sending]
    }

    /// Gives unused chunks to the kernel to receive into, if it lacks at least `least`.
    #[inline]
    fn fill(&mut self, least: u32) {
        let missing = self.receiving_max - self.receiving;
        let count = missing.min(self.free.len() as u32);
        if count < least {
            return;
        }
        for _ in 0..count {
            let Some(chunk) = self.free.pop() else { break };
            // The ring has an entry for every chunk.
            self.socket.fill.push(u64::from(chunk) * CHUNK_BYTES as u64);
            self.receiving += 1;
        }
        self.socket.fill.publish();
    }

    /// Takes back chunks whose frames have left.
    #[inline]
    fn reap(&mut self, most: u32) {
        let done = self.socket.completion.available(most);
        if done == 0 {
            return;
        }
        for _ in 0..done {
            let address = self.socket.completion.pop();
            self.free.push((address / CHUNK_BYTES as u64) as u32);
        }
        self.socket.completion.release();
        self.sending -= done;
    }

    #[inline]
    fn frame(&self, address: u64, bytes: u32) -> Frame {
        let start = address as usize % CHUNK_BYTES;
        let chunk = address as usize - start;
        let memory = self.umem.chunk(chunk);
        // SAFETY: the chunk is mapped and initialised, and nobody has it: it has just come from the
        // kernel, or from the free ones.
        unsafe { Frame::new(memory, CHUNK_BYTES as u32, (start as u32, bytes), chunk as u64) }
    }

    /// Returns the number of a frame's chunk.
    #[inline]
    fn chunk_of(&self, frame: &Frame) -> u32 {
        let chunk = (frame.handle / CHUNK_BYTES as u64) as u32;
        assert!((chunk as usize) < self.chunks, "a frame of another queue");
        chunk
    }

    /// Makes the kernel send the frames in the ring. In copy mode it sends 32 frames per call, and
    /// none while the interface is down or its queue is full: they are sent later.
    fn kick(&mut self) -> io::Result<()> {
        for _ in 0..KICKS_MAX {
            let before = self.socket.transmit.unconsumed();
            if before == 0 || !self.socket.transmit.needs_wakeup() {
                break;
            }
            let result = self.socket.kick();
            if let Err(error) = result {
                let errno = error.raw_os_error().unwrap_or_default();
                match errno {
                    libc::ENXIO => return Err(self.gone()),
                    libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR => {}
                    // ENETDOWN, and other errors of drivers, which may be temporary.
                    _ => break,
                }
            }
            if self.socket.is_zero_copy() || self.socket.transmit.unconsumed() == before {
                break;
            }
        }
        Ok(())
    }

    /// Does the upkeep of an empty receive.
    #[cold]
    fn nothing_received(&mut self) -> io::Result<()> {
        self.idle = self.idle.wrapping_add(1);
        self.reap(TURN);
        self.fill(1);
        if self.socket.busy_polls() || self.socket.fill.needs_wakeup() {
            self.socket.poll_driver();
        }
        if self.sending > 0 && self.socket.transmit.unconsumed() > 0 {
            self.kick()?;
        }
        if self.idle.is_multiple_of(IDLE_PER_LOOK) && self.looked.elapsed() >= GONE_PERIOD {
            self.looked = Instant::now();
            // The kernel reports the error only once.
            self.is_gone |= self.socket.error().is_err();
        }
        match self.is_gone {
            true => Err(self.gone()),
            false => Ok(()),
        }
    }

    fn gone(&mut self) -> io::Error {
        self.is_gone = true;
        let text = "the interface is gone: create it again and restart";
        io::Error::new(io::ErrorKind::NotConnected, text)
    }
}

// SAFETY: a chunk is in one place at a time: among the free ones, with the kernel from the fill
// ring to the receive ring or from the transmit ring to the completion ring, or in the one frame
// that was made when it left these.
unsafe impl FrameQueue for XdpQueue {
    #[inline]
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        let count = self.socket.receive.available(burst.remaining_capacity() as u32);
        if count == 0 {
            return self.nothing_received();
        }
        for _ in 0..count {
            let descriptor = self.socket.receive.pop();
            let frame = self.frame(descriptor.addr, descriptor.len);
            prefetch(frame.bytes().as_ptr());
            burst.push(frame);
        }
        self.socket.receive.release();
        self.receiving -= count;
        if self.sending >= 2 * TURN {
            self.reap(2 * TURN);
        }
        self.fill(TURN);
        Ok(())
    }

    fn alloc(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.reap(TURN);
        }
        let chunk = self.free.pop()?;
        Some(self.frame(u64::from(chunk) * CHUNK_BYTES as u64, 0))
    }

    #[inline]
    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        if self.sending + TURN > self.sending_max {
            self.reap(u32::MAX);
        }
        for frame in burst.drain(..) {
            let chunk = self.chunk_of(&frame);
            let descriptor = libc::xdp_desc {
                addr: frame.handle + frame.start() as u64,
                len: frame.len() as u32,
                options: 0,
            };
            if frame.len() <= self.frame_bytes_max
                && self.sending < self.sending_max
                && self.socket.transmit.push(descriptor)
            {
                self.sending += 1;
            } else {
                self.unsent += 1;
                self.free.push(chunk);
            }
        }
        self.socket.transmit.publish();
        self.kick()
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        let chunk = self.chunk_of(&frame);
        self.free.push(chunk);
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        self.checksums
    }

    fn computes_checksums(&self) -> bool {
        false
    }

    fn lost(&mut self) -> u32 {
        self.lost.calls = self.lost.calls.wrapping_add(1);
        if self.lost.calls.is_multiple_of(CALLS_PER_LOOK) && self.lost.asked.elapsed() >= STATISTICS_PERIOD {
            self.lost.frames = self.socket.lost();
            self.lost.asked = Instant::now();
        }
        self.lost.frames as u32
    }

    fn unsent(&self) -> u64 {
        self.unsent
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.descriptor())
    }

    fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }
}

// SAFETY: the queue owns its memory, its socket and its ends of the rings.
unsafe impl Send for XdpQueue {}
