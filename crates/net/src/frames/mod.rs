//! UDP datagrams in raw Ethernet frames, for ports that bypass the kernel's network stack.
//!
//! ```text
//!  FrameQueue   frames of one queue of a backend (AF_XDP, DPDK): bursts in, bursts out
//!    FramePort    parses a burst, drops and counts everything but datagrams for this port, lends
//!                 the payloads, and turns each request's frame into the frame of its reply
//! ```
//!
//! **A reply leaves in the frame of its request.** It is written behind the request, in the rest of the
//! same buffer, because later requests of the same datagram are still unread. Its headers are a copy
//! with flipped addresses and ports (MICA 4.2.1). A reply takes a frame of its own only if there is no
//! room behind the request, or if it answers a request that another worker forwarded. Both are counted
//! ([`FrameCounters`]).
//!
//! **Neighbours.** A server does not need them: a reply goes to the station that sent the request. A
//! client on a port without a kernel (DPDK) gives the port [`Neighbours`]
//! ([`FramePort::with_neighbours`]) and gets its headers from [`FramePort::header_to`]. The first call
//! requests the peer's Ethernet address, the answer arrives within [`FramePort::recv`], and a later
//! call returns it. A server on such a port needs neighbours, too, to answer requests for its own
//! address. Under AF_XDP the kernel does all this.

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
