//! The native protocol, version 1 (`docs/protocol.md`): datagrams of a header and requests, or replies.
//!
//! | file | what |
//! |---|---|
//! | `header.rs` | the 40 bytes at the start of every datagram |
//! | `opcode.rs`, `status.rs` | what is asked, how it ended |
//! | `request.rs` | requests: read by the server, written by the client |
//! | `reply.rs` | replies: written by the server, read by the client |
//! | `directory.rs` | who owns what |

mod bytes;
mod directory;
mod header;
mod opcode;
mod reply;
mod request;
mod status;
#[cfg(test)]
mod tests;

pub use directory::{
    CoreEntry, Directory, DirectoryRequest, DirectoryWriter, Entry, PartitionAccess, PartitionEntry,
};
pub use header::{Header, HeaderError, Kind};
pub use opcode::Opcode;
pub use reply::{BadReply, Replies, Reply, ReplyWriter};
pub use request::{BadRequest, Full, Request, RequestWriter, Requests, request_bytes};
pub use status::Status;

/// The version that this module reads and writes.
pub const VERSION: u8 = 1;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// The longest datagram unless a server says otherwise: an Ethernet frame of 1,500 bytes, less the
/// headers of IPv4 and UDP.
pub const PAYLOAD_BYTES: usize = 1472;
/// The longest datagram that a server can be told to take: IPv4's limit.
pub const PAYLOAD_BYTES_MAX: usize = 65_507;
/// The shortest limit for datagrams that a server can be told: IPv6's least MTU, less headers.
pub const PAYLOAD_BYTES_MIN: usize = 1232;

/// A length padded to the protocol's alignment.
#[inline]
pub const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}
