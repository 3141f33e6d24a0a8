//! memcached's binary protocol, sans-I/O.
//!
//! [`step`] looks at the unconsumed bytes of a connection and says what stands there; it keeps no
//! state, for a header says how long its request is. It borrows what it returns and allocates
//! nothing. Values are the caller's, as with the text protocol. [`reply`] writes replies into the
//! caller's buffer.
//!
//! ```text
//! magic  opcode  key bytes (2)  extras bytes  data type  reserved or status (2)  body bytes (4)  opaque (4)  cas (8)
//! extras, key, value: together the body
//! ```
//!
//! Replies are those of memcached 1.6.45, byte for byte. What it does to a request with a body
//! where none belongs (it takes the rest for the next request) is not repeated: an unknown
//! request is skipped to its end, and a known one is refused as any other misuse.

mod command;
mod parser;
pub mod reply;
mod sasl;

pub use command::{Arithmetic, Command, Store};
pub use parser::{Step, step};
pub use sasl::{MECHANISM_BYTES_MAX, RESPONSE_BYTES_MAX, SaslStep, plain, sasl_step};

/// The first byte of every request, and the sign that a connection speaks this protocol.
pub const REQUEST_MAGIC: u8 = 0x80;
/// The first byte of every reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// Length of a header.
pub const HEADER_BYTES: usize = 24;

/// What a reply repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The operation.
    pub opcode: u8,
    /// The client's mark.
    pub opaque: [u8; 4],
}

#[cfg(test)]
mod tests;
