//! Stands in for DPDK in builds without it.

use std::io;
use std::os::fd::BorrowedFd;

use crate::bypass::{Bypass, BypassOptions, BypassQueue};
use crate::frames::{Frame, FrameBurst, FrameQueue, ReceiveChecksums};

/// A port, which cannot exist in this build.
#[derive(Debug)]
pub enum DpdkPort {}

impl DpdkPort {
    /// Returns an error that says how to get DPDK.
    pub(crate) fn open(_: &BypassOptions) -> Result<(Bypass, Vec<BypassQueue>), String> {
        Err("this program was built without DPDK: cargo build --release --features dpdk \
             (needs libdpdk-dev)"
            .to_owned())
    }
}

/// Returns `None`: this build has no DPDK.
pub const fn version() -> Option<String> {
    None
}

/// A queue, which cannot exist in this build.
#[derive(Debug)]
pub enum DpdkQueue {}

// SAFETY: there is no value of this type.
unsafe impl FrameQueue for DpdkQueue {
    fn recv(&mut self, _: &mut FrameBurst) -> io::Result<()> {
        match *self {}
    }
    fn alloc(&mut self) -> Option<Frame> {
        match *self {}
    }
    fn send(&mut self, _: &mut FrameBurst) -> io::Result<()> {
        match *self {}
    }
    fn free(&mut self, _: Frame) {
        match *self {}
    }
    fn receive_checksums(&self) -> ReceiveChecksums {
        match *self {}
    }
    fn computes_checksums(&self) -> bool {
        match *self {}
    }
    fn lost(&mut self) -> u32 {
        match *self {}
    }
    fn unsent(&self) -> u64 {
        match *self {}
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match *self {}
    }
    fn frame_bytes_max(&self) -> usize {
        match *self {}
    }
}
