//! memcached's text protocol, classic and meta commands, sans-I/O.
//!
//! [`Parser::step`] parses the next line in the unconsumed bytes of a connection: an incomplete
//! line, a command, or a refusal with its reply. It borrows what it returns and allocates nothing.
//! The caller reads the bodies of storage commands, because it knows the limit and the destination.
//! [`reply`] writes replies into the caller's buffer.
//!
//! Replies match memcached 1.6.45 byte for byte, except for a slip of memcached: it writes a
//! doubled line end after a `get` with a key that is too long.

mod administration;
mod auth;
mod command;
pub mod meta;
mod number;
mod operator;
mod parser;
mod refusal;
pub mod reply;
mod tokens;

pub use auth::{TOKEN_BYTES_MAX, TextAuth, text_auth};
pub use command::{Command, Keys, ShutdownHow, StoreVerb};
pub use operator::Operator;
pub use parser::{Parser, Step};
pub use reply::TOO_MANY_CONNECTIONS;

pub const KEY_BYTES_MAX: usize = 250;
/// Longest line without an end, except for get, gets, gat and gats. A longer one closes the
/// connection.
pub const LINE_BYTES_MAX: usize = 2048;
/// Longest relative expiry: 30 days. A larger number is a Unix time.
pub const RELATIVE_EXPTIME_MAX_S: i64 = 60 * 60 * 24 * 30;

/// Converts `exptime` to the server's clock (Unix seconds): 0 = never, 1 = in the past (negative). A time
/// that the clock does not reach, 2^32 or more, is never. The last second before is -1 as clients with
/// numbers of 32 bits write it (libmemcached).
pub fn expiry(exptime: i64, now_s: u32) -> u32 {
    const MINUS_ONE: i64 = u32::MAX as i64;
    match exptime {
        0 => 0,
        ..0 | MINUS_ONE => 1,
        1..=RELATIVE_EXPTIME_MAX_S => now_s.saturating_add(exptime as u32),
        _ => u32::try_from(exptime).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
