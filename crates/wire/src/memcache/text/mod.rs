//! memcached's text protocol, classic and meta commands, sans-I/O.
//!
//! [`Parser::step`] looks at the unconsumed bytes of a connection and says what stands there: an
//! incomplete line, a command, or a refusal with its reply. It borrows what it returns from the
//! input and allocates nothing. The bodies of storage commands are the caller's: it knows the
//! limit and where the bytes go. [`reply`] writes replies into the caller's buffer.
//!
//! Replies are those of memcached 1.6.45, byte for byte, except for one slip of its own (a
//! doubled line end after a `get` with a key that is too long).

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

/// Longest key.
pub const KEY_BYTES_MAX: usize = 250;
/// A line without an end beyond this closes the connection, unless it is a get, gets, gat or gats.
pub const LINE_BYTES_MAX: usize = 2048;
/// Expiries up to this are relative to now, later ones are Unix times: 30 days.
pub const RELATIVE_EXPTIME_MAX_S: i64 = 60 * 60 * 24 * 30;

/// The second at which an item of this `exptime` ends, on the server's clock (Unix seconds):
/// 0 = never, 1 = has passed (negative).
pub fn expiry(exptime: i64, now_s: u32) -> u32 {
    match exptime {
        0 => 0,
        ..0 => 1,
        1..=RELATIVE_EXPTIME_MAX_S => now_s.saturating_add(exptime as u32),
        _ => u32::try_from(exptime).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests;
