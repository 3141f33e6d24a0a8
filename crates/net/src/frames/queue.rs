//! Interface of a backend: one receive and one transmit queue of frames.

use std::io;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;

use super::Frame;
use crate::limits::FRAME_BURST_MAX;

pub type FrameBurst = ArrayVec<Frame, FRAME_BURST_MAX>;

/// State of the checksums of received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveChecksums {
    /// Unknown: they are verified here.
    Unverified,
    /// A sender on this machine may have left the UDP checksum to hardware that its frames never
    /// reach (veth, virtio). The sum of the pseudo header alone is accepted, too.
    UnverifiedOrPartial,
    /// The hardware dropped or marked frames with wrong ones.
    Verified,
}

/// One receive and one transmit queue of a backend, used by one thread.
///
/// # Safety
/// Every frame that [`Self::recv`] and [`Self::alloc`] hand out is alone in its buffer, which stays
/// mapped as long as the queue lives, until it comes back by [`Self::send`] or [`Self::free`].
pub unsafe trait FrameQueue {
    /// Receives available frames into an empty burst, as many as fit. Never waits.
    ///
    /// # Errors
    /// The queue has become unusable.
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()>;

    /// Returns an empty frame to fill and send; `None` when all are in use.
    fn alloc(&mut self) -> Option<Frame>;

    /// Sends and removes all frames of a burst. Frames without room in the queue are lost and counted
    /// ([`Self::unsent`]). Never waits for the receiver.
    ///
    /// # Errors
    /// The queue has become unusable.
    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()>;

    /// Frees a frame without sending it.
    fn free(&mut self, frame: Frame);

    /// Returns the state of the checksums of received frames.
    fn receive_checksums(&self) -> ReceiveChecksums;

    /// Returns whether the hardware computes the UDP checksum of sent frames, from
    /// [`Frame::header_bytes`] and the sum of the pseudo header in its place.
    fn computes_checksums(&self) -> bool;

    /// Returns how many frames for this queue were lost because of a lack of room, since it was
    /// opened, wrapping. If this costs a system call, the number is updated at most about every
    /// millisecond.
    fn lost(&mut self) -> u32;

    /// Returns how many frames could not be sent, since the queue was opened.
    fn unsent(&self) -> u64;

    /// Returns a descriptor that becomes readable when frames arrive; `None` for queues that have
    /// to be polled.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Returns the longest frame that may be sent, without the Ethernet checksum.
    fn frame_bytes_max(&self) -> usize;
}
