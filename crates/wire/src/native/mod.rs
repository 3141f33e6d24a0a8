//! Native protocol, version 1 (`docs/protocol.md`): datagrams of a header and requests or replies.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | the first 40 bytes of every datagram |
//! | `opcode.rs`, `status.rs` | operations and their results |
//! | `request.rs` | requests: the server reads them, the client writes them |
//! | `reply.rs` | replies: the server writes them, the client reads them |
//! | `directory.rs`, `directory_entry.rs` | owners of partitions, interfaces of cores |
//! | `hello.rs` | over a fabric: login, and what the server tells about itself |
//! | `entries.rs` | over a fabric: entries that a server pushes, accesses that a client reports |

mod bytes;
mod directory;
mod directory_entry;
mod entries;
mod header;
mod hello;
mod opcode;
mod reply;
mod request;
mod status;
#[cfg(test)]
mod tests;

pub use directory::{ADDRESSES_MAX, Directory, DirectoryRequest, DirectoryWriter};
pub use directory_entry::{CoreEntry, CorePlace, Entry, InterfaceAddress, PartitionAccess, PartitionEntry};
pub use entries::{
    Access, ChunkEntry, History, HistoryWriter, List, ListItem, ListWriter, PushWriter, Pushes,
};
pub use header::{Header, HeaderError, Kind};
pub use hello::{HELLO_BYTES_MAX, Hello, HelloReply};
pub use opcode::Opcode;
pub use reply::{BadReply, Replies, Reply, ReplyEntry, ReplyWriter};
pub use request::{BadRequest, Full, Request, RequestWriter, Requests, request_bytes};
pub use status::Status;

/// Version that this module reads and writes.
pub const VERSION: u8 = 1;
pub const KEY_BYTES_MAX: usize = 250;
/// Longest datagram unless the server announces another limit: an Ethernet frame of 1,500 bytes,
/// less the headers of IPv4 and UDP.
pub const PAYLOAD_BYTES: usize = 1472;
/// Largest limit for datagrams that a server can be given: IPv4's limit.
pub const PAYLOAD_BYTES_MAX: usize = 65_507;
/// Smallest limit for datagrams that a server can be given: IPv6's least MTU, less headers.
pub const PAYLOAD_BYTES_MIN: usize = 1232;

/// Pads a length to the protocol's alignment.
#[inline]
pub const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}
