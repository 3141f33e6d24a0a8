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
//!
//! **Neighbours.** A server needs none: a reply goes to the station that its request came from. A
//! client on a port without a kernel beside it (DPDK) gives the port [`Neighbours`]
//! ([`FramePort::with_neighbours`]) and has its headers made by [`FramePort::header_to`]: the first call
//! asks for the peer's Ethernet address, the answer arrives within [`FramePort::recv`], and a later
//! call has it. So does a server there, for somebody has to answer when it is asked for. Under AF_XDP
//! the kernel does all this.

mod checksum;
mod counters;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod header;
#[cfg(any(test, feature = "fuzz"))]
mod naive;
mod neighbours;
mod parse;
#[cfg(test)]
mod parse_tests;
mod port;
mod queue;
mod replies;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use checksum::{ones_complement_sum, udp_checksum};
pub use counters::FrameCounters;
pub use frame::Frame;
pub use header::{Header, MacAddress};
pub use neighbours::{Neighbours, Resolution};
pub use parse::{Found, NotTaken, parse};
pub use port::{FrameDatagram, FramePort, Local, NoHeader};
pub use queue::{FrameBurst, FrameQueue, ReceiveChecksums};
pub use replies::{Replies, ReplyTo};
