//! memcached's binary protocol, sans-I/O.
//!
//! [`step`] parses the next request in the unconsumed bytes of a connection. It keeps no state,
//! because a header holds the length of its request. It borrows what it returns and allocates
//! nothing. As with the text protocol, the caller stores values. [`reply`] writes replies into the
//! caller's buffer.
//!
//! ```text
//! magic  opcode  key bytes (2)  extras bytes  data type  reserved or status (2)
//! body bytes (4)  opaque (4)  cas (8)
//! extras, key, value: together the body
//! ```
//!
//! Replies match memcached 1.6.45 byte for byte, with one exception. If a request has an unexpected
//! body, memcached parses that body as the next request. This parser skips an unknown request to
//! its end, and refuses a known one like any other misuse.

mod command;
mod parser;
pub mod reply;
mod sasl;

pub use command::{Arithmetic, Command, Store};
pub use parser::{Step, step};
pub use sasl::{MECHANISM_BYTES_MAX, RESPONSE_BYTES_MAX, SaslStep, plain, sasl_step};

/// First byte of every request; it identifies a connection of this protocol.
pub const REQUEST_MAGIC: u8 = 0x80;
/// First byte of every reply.
pub const REPLY_MAGIC: u8 = 0x81;
/// Length of a header.
pub const HEADER_BYTES: usize = 24;

/// Header fields that a reply repeats from its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub opcode: u8,
    /// Value chosen by the client.
    pub opaque: [u8; 4],
}

#[cfg(test)]
mod tests;
