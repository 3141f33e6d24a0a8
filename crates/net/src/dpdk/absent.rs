//! In place of DPDK, where it was not built in.

use std::io;
use std::os::fd::BorrowedFd;

use crate::bypass::{Bypass, BypassOptions, BypassQueue};
use crate::frames::{Frame, FrameBurst, FrameQueue, ReceiveChecksums};

/// A port: there is none.
#[derive(Debug)]
pub enum DpdkPort {}

impl DpdkPort {
    /// Says how to get it.
    pub(crate) fn open(_: &BypassOptions) -> Result<(Bypass, Vec<BypassQueue>), String> {
        Err(
            "this program was built without DPDK: cargo build --release --features dpdk \
             (needs libdpdk-dev)"
                .to_owned(),
        )
    }
}

/// The version of DPDK: there is none.
pub const fn version() -> Option<String> {
    None
}

/// A queue of a port: there is none.
#[derive(Debug)]
pub enum DpdkQueue {}

// SAFETY: there is none.
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
