//! Frames of one queue pair of a port.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::DpdkPort;
use super::shim::{
    ShimFrame, ShimQueue, ShimQueueCounters, micanite_dpdk_allocate, micanite_dpdk_buffers_free,
    micanite_dpdk_counters, micanite_dpdk_free, micanite_dpdk_receive, micanite_dpdk_register_thread,
    micanite_dpdk_send, micanite_dpdk_unregister_thread,
};
use crate::frames::{Frame, FrameBurst, FrameQueue, ReceiveChecksums};
use crate::limits::FRAME_BURST_MAX;

/// A thread that is registered with DPDK, which gives it a cache of buffers. Threads beyond DPDK's
/// maximum work without one, more slowly.
struct KnownThread {
    known: bool,
}

impl Drop for KnownThread {
    fn drop(&mut self) {
        if self.known {
            micanite_dpdk_unregister_thread();
        }
    }
}

thread_local! {
    static KNOWN: KnownThread = KnownThread {
        known: micanite_dpdk_register_thread() == 0,
    };
}

/// A queue of a DPDK port.
#[derive(Debug)]
pub struct DpdkQueue {
    queue: NonNull<ShimQueue>,
    number: u16,
    /// State of the checksums of the last burst.
    checksums: ReceiveChecksums,
    /// Keeps the queue and its buffers alive.
    port: Arc<DpdkPort>,
}

// SAFETY: any thread may use a queue, one at a time: the one that has this.
unsafe impl Send for DpdkQueue {}

impl DpdkQueue {
    /// Takes over queue `number` of a port, which hands out each queue once.
    pub(super) fn new(queue: NonNull<ShimQueue>, number: u16, port: Arc<DpdkPort>) -> Self {
        let checksums = port.unverified();
        Self { queue, number, checksums, port }
    }

    /// Returns how many frames were dropped because they arrived in several buffers.
    pub fn chained(&self) -> u64 {
        self.counters().chained
    }

    /// Returns how many buffers are free, including those in caches of threads. This is slow.
    pub fn buffers_free(&self) -> u32 {
        // SAFETY: the queue lives as long as its port.
        unsafe { micanite_dpdk_buffers_free(self.queue.as_ptr()) }
    }

    /// Returns how often bursts were stopped because a driver changed a port's memory; of all
    /// ports.
    pub fn gate_closed(&self) -> u64 {
        self.port.statistics().gate_closed
    }

    fn counters(&self) -> ShimQueueCounters {
        let mut counters = ShimQueueCounters::default();
        // SAFETY: the queue lives as long as its port, and is not in use: we have it.
        unsafe { micanite_dpdk_counters(self.queue.as_ptr(), &raw mut counters) };
        counters
    }

    /// Converts a frame from the shim.
    #[inline]
    fn frame(shim: &ShimFrame) -> Frame {
        // SAFETY: a buffer of an mbuf is not null.
        let memory = unsafe { NonNull::new_unchecked(shim.buffer) };
        let place = (shim.start, shim.bytes);
        // SAFETY: the mbuf was given to us alone, its buffer is mapped memory of the pool.
        unsafe { Frame::new(memory, shim.room_bytes, place, shim.handle) }
    }
}

// SAFETY: an mbuf is ours between receive or allocate, and send or free; the pool lives as long as
// the port, which this keeps.
unsafe impl FrameQueue for DpdkQueue {
    #[inline]
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        KNOWN.with(|_| ());
        let mut frames = [MaybeUninit::<ShimFrame>::uninit(); FRAME_BURST_MAX];
        let room = (FRAME_BURST_MAX - burst.len()) as u32;
        // SAFETY: there is room for as many frames; the queue lives as long as its port.
        let count = unsafe { micanite_dpdk_receive(self.queue.as_ptr(), frames.as_mut_ptr().cast(), room) };
        if count == 0 {
            self.port.look();
            return Ok(());
        }
        let mut verified = self.port.verifies_checksums();
        for frame in &frames[..count as usize] {
            // SAFETY: so many were filled.
            let frame = unsafe { frame.assume_init_ref() };
            verified &= frame.verified != 0;
            burst.push(Self::frame(frame));
        }
        // The hardware does not check everything. Unverified checksums are verified here.
        self.checksums = match verified {
            true => ReceiveChecksums::Verified,
            false => self.port.unverified(),
        };
        Ok(())
    }

    #[inline]
    fn alloc(&mut self) -> Option<Frame> {
        KNOWN.with(|_| ());
        let mut frame = MaybeUninit::<ShimFrame>::uninit();
        // SAFETY: the queue lives as long as its port.
        let filled = unsafe { micanite_dpdk_allocate(self.queue.as_ptr(), frame.as_mut_ptr()) };
        // SAFETY: it was filled.
        (filled != 0).then(|| Self::frame(unsafe { frame.assume_init_ref() }))
    }

    #[inline]
    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()> {
        KNOWN.with(|_| ());
        let mut frames = [MaybeUninit::<ShimFrame>::uninit(); FRAME_BURST_MAX];
        let count = burst.len() as u32;
        for (frame, out) in burst.drain(..).zip(&mut frames) {
            out.write(ShimFrame {
                buffer: std::ptr::null_mut(),
                handle: frame.handle,
                room_bytes: 0,
                start: frame.start() as u32,
                bytes: frame.len() as u32,
                link_bytes: frame.header_bytes.0,
                network_bytes: frame.header_bytes.1,
                verified: 0,
                unused: 0,
            });
        }
        // SAFETY: so many frames were written, whose mbufs are ours to give away.
        unsafe { micanite_dpdk_send(self.queue.as_ptr(), frames.as_ptr().cast(), count) };
        Ok(())
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        // SAFETY: the frame's mbuf is ours to give away.
        unsafe { micanite_dpdk_free(frame.handle) };
    }

    fn receive_checksums(&self) -> ReceiveChecksums {
        self.checksums
    }

    fn computes_checksums(&self) -> bool {
        self.port.computes_checksums()
    }

    fn lost(&mut self) -> u32 {
        self.port.lost(self.number)
    }

    fn unsent(&self) -> u64 {
        self.counters().unsent
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn frame_bytes_max(&self) -> usize {
        self.port.frame_bytes_max()
    }
}
