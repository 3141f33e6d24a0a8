//! UDP datagrams in raw Ethernet frames, for ports that go around the kernel's network stack.
//!
//! ```text
//!  FrameQueue   frames of one queue of a backend (AF_XDP, DPDK): bursts in, bursts out
//!    FramePort    parses a burst, drops and counts what is not a datagram for us, lends the
//!                 payloads, and turns each request's frame into the frame of its reply
//! ```
//!
//! **A reply leaves in the frame of its request.** It is written behind the request, in the rest
//! of the same buffer, because replies are written while later requests of the same datagram have
//! not been read yet; headers are copied with addresses and ports flipped (MICA 4.2.1). Only a reply
//! that finds no room there, or that answers what another worker has handed over, takes a frame of
//! its own; both are counted ([`FrameCounters`]).

mod checksum;
mod frame;
mod header;
mod parse;
mod port;
mod queue;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use checksum::{ones_complement_sum, udp_checksum};
pub use frame::Frame;
pub use header::{Header, MacAddress};
pub use parse::{Found, NotTaken, parse};
pub use port::{FrameCounters, FrameDatagram, FramePort, Local, Replies, ReplyTo};
pub use queue::{FrameBurst, FrameQueue, ReceiveChecksums};
