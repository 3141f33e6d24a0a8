//! What a backend has to offer: one receive and one transmit queue of frames.

use std::io;
use std::os::fd::BorrowedFd;

use arrayvec::ArrayVec;

use super::Frame;
use crate::limits::FRAME_BURST_MAX;

/// A burst of frames.
pub type FrameBurst = ArrayVec<Frame, FRAME_BURST_MAX>;

/// What is known of the checksums of frames that arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveChecksums {
    /// Nothing: they are verified here.
    Unverified,
    /// A sender on this machine may have left the UDP checksum to hardware that its frames never
    /// reach (veth, virtio): what it left, the sum of the pseudo header, passes, too.
    UnverifiedOrPartial,
    /// The hardware has dropped or marked those that are wrong.
    Verified,
}

/// One receive and one transmit queue of a backend, used by one thread.
///
/// # Safety
/// Every frame that [`Self::recv`] and [`Self::alloc`] hand out is alone in its buffer, which stays
/// mapped as long as the queue lives, until it comes back by [`Self::send`] or [`Self::free`].
pub unsafe trait FrameQueue {
    /// Receives frames into an empty burst, as many as there are and fit; never waits.
    ///
    /// # Errors
    /// The queue is of no use any more.
    fn recv(&mut self, burst: &mut FrameBurst) -> io::Result<()>;

    /// A frame of no bytes, to be filled and sent; none when all are in use.
    fn alloc(&mut self) -> Option<Frame>;

    /// Sends all frames of a burst, which is empty then. What the queue has no room for is lost
    /// and counted ([`Self::unsent`]). Never waits for the receiver.
    ///
    /// # Errors
    /// The queue is of no use any more.
    fn send(&mut self, burst: &mut FrameBurst) -> io::Result<()>;

    /// Takes a frame back that is not sent.
    fn free(&mut self, frame: Frame);

    /// What is known of checksums of frames that arrive.
    fn receive_checksums(&self) -> ReceiveChecksums;

    /// Whether the hardware computes the UDP checksum of frames that leave, from
    /// [`Frame::header_bytes`] and the sum of the pseudo header in its place.
    fn computes_checksums(&self) -> bool;

    /// Frames for this queue that were lost for want of room, since it was opened, wrapping. Looks
    /// at most every millisecond or so where asking costs a system call.
    fn lost(&mut self) -> u32;

    /// Frames that could not be sent, since it was opened.
    fn unsent(&self) -> u64;

    /// What becomes readable when frames arrive; none where only looking tells.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The longest frame that may leave, without the Ethernet checksum.
    fn frame_bytes_max(&self) -> usize;
}
