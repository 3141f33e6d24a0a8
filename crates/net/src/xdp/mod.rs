//! AF_XDP.

use std::io;
use std::os::fd::BorrowedFd;

use crate::frames::{Frame, FrameBurst, FrameQueue, ReceiveChecksums};

/// A queue of an interface.
#[derive(Debug)]
pub enum XdpQueue {}

// SAFETY: there is none.
unsafe impl FrameQueue for XdpQueue {
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
