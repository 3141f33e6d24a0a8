//! What can go wrong, in words that say what to do.

use std::fmt;
use std::io;

/// Why a call failed.
#[derive(Debug)]
pub enum Error {
    /// A `host:port` that makes no sense or has no address.
    Address {
        /// As it was given.
        name: String,
        /// What the resolver said.
        reason: String,
    },
    /// A server has not replied: at the start, or for long.
    Unreachable {
        /// Its `host:port`.
        server: String,
    },
    /// A server speaks another version of the native protocol.
    Version {
        /// Its `host:port`.
        server: String,
        /// The version that it speaks.
        version: u8,
    },
    /// No reply within the deadline. Whether a write was executed is not known.
    TimedOut {
        /// The server's `host:port`.
        server: String,
    },
    /// The server no longer remembers the request: whether it was executed is not known.
    OutcomeUnknown,
    /// The key is empty or longer than 250 bytes.
    BadKey,
    /// The value is so long that it travels over the memcached text protocol, which does not allow
    /// some byte of this key.
    KeyNotText,
    /// The value is longer than the server takes.
    TooLarge {
        /// The longest that it takes, if it said so.
        limit_bytes: Option<u32>,
    },
    /// The value does not fit a datagram, and the server has no TCP port.
    NoStream {
        /// The server's `host:port`.
        server: String,
    },
    /// A store has no space for the item; nothing has changed.
    OutOfSpace,
    /// The value cannot be incremented or decremented.
    NotANumber,
    /// The server calls the request wrong: a fault of this library or of the server.
    Refused,
    /// What the server said over the stream, or how the stream failed.
    Stream {
        /// The address of the server's TCP port.
        server: String,
        /// What was the matter.
        reason: String,
    },
    /// A port around the kernel cannot be had, or does not lead there.
    Port {
        /// What is missing, with the port's name.
        reason: String,
    },
    /// The operating system.
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { name, reason } => {
                write!(out, "{name} is no server's host:port: {reason}")
            }
            Self::Unreachable { server } => write!(
                out,
                "no reply from {server}: is it running with --native, is this its base port, and does no firewall drop UDP?"
            ),
            Self::Version { server, version } => write!(
                out,
                "{server} speaks version {version} of the native protocol and this client version {}: update the older one",
                micanite_wire::native::VERSION
            ),
            Self::TimedOut { server } => write!(
                out,
                "no reply from {server} within the deadline; whether it was executed is not known"
            ),
            Self::OutcomeUnknown => write!(
                out,
                "the server does not remember the request any more: whether it was executed is not known"
            ),
            Self::BadKey => write!(out, "keys have 1 to 250 bytes"),
            Self::KeyNotText => write!(
                out,
                "a value that does not fit a datagram travels over the memcached text protocol, which allows no spaces and control characters in keys"
            ),
            Self::TooLarge {
                limit_bytes: Some(limit),
            } => {
                write!(
                    out,
                    "the value is longer than the server takes: {limit} bytes"
                )
            }
            Self::TooLarge { limit_bytes: None } => {
                write!(out, "the value is longer than the server takes")
            }
            Self::NoStream { server } => write!(
                out,
                "the value does not fit a datagram, and {server} has no TCP port for such values (serve with -p)"
            ),
            Self::OutOfSpace => write!(out, "the store has no space for the item"),
            Self::NotANumber => write!(out, "the value is not a decimal number below 2^64"),
            Self::Refused => write!(out, "the server calls the request wrong"),
            Self::Stream { server, reason } => write!(out, "TCP to {server}: {reason}"),
            Self::Port { reason } => write!(out, "{reason}"),
            Self::Io(error) => write!(out, "{error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
