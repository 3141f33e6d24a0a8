//! The client of all benchmarks of datagrams: requests are made before the clock runs, and it does no
//! more than it must to send them and to count what comes back.
//!
//! | file | subject |
//! |---|---|
//! | `packets.rs`, `replies.rs` | requests made beforehand, and what their replies say |
//! | `load.rs` | closed and open loops over any port |
//! | `tally.rs` | counts of a run |
//! | `sockets.rs` | a port of the kernel's UDP |
//! | `frames.rs` | a port around the kernel: whole frames |
//! | `directory.rs` | what a server of the native protocol has to be told |

pub(crate) mod directory;
pub(crate) mod frames;
pub(crate) mod load;
pub(crate) mod packets;
mod replies;
pub(crate) mod sockets;
pub(crate) mod tally;
