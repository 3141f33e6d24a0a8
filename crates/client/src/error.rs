//! Errors. Their texts say what to do.

use std::fmt;
use std::io;
use std::sync::Arc;

/// The beginning of the name of a server over a fabric.
pub(crate) const FABRIC_SCHEME: &str = "fabric://";
/// The beginning of the name of a server on the same host.
pub(crate) const LOCAL_SCHEME: &str = "local://";

/// The error of a call.
#[derive(Clone, Debug)]
pub enum Error {
    /// The `host:port` is malformed or has no address.
    Address {
        /// The `host:port` as given.
        name: String,
        /// Message of the resolver.
        reason: String,
    },
    /// A server does not reply: at the start, or for a long time. The operation was not executed.
    Unreachable {
        /// `host:port` of the server.
        server: String,
    },
    /// A server speaks another version of the native protocol.
    Version {
        /// `host:port` of the server.
        server: String,
        /// Version of the server.
        version: u8,
    },
    /// No reply arrived within the deadline, or before the server counted as dead. It is unknown whether a
    /// write was executed.
    TimedOut {
        /// `host:port` of the server.
        server: String,
    },
    /// The server no longer remembers the request, or the stream was lost before its reply: it is unknown
    /// whether it was executed.
    OutcomeUnknown,
    /// The key is empty or longer than 250 bytes.
    BadKey,
    /// The request needs memcached's text protocol, because of the value's length or over `local://`, and
    /// that does not allow some byte of this key: not at all, or in base64 up to 186 bytes.
    KeyNotText,
    /// The expiry ends after the second 2^32-2 of Unix time.
    ExpiryTooFar,
    /// The value exceeds the server's limit.
    TooLarge {
        /// The limit, if the server told it.
        limit_bytes: Option<u32>,
    },
    /// The value does not fit a datagram, and the server has no TCP port.
    NoStream {
        /// `host:port` of the server.
        server: String,
    },
    /// The store has no space for the item; nothing has changed.
    OutOfSpace,
    /// The value cannot be incremented or decremented.
    NotANumber,
    /// The server rejects the request: a bug of this library or of the server.
    Refused,
    /// The stream failed, or the server returned an error over it.
    Stream {
        /// Address of the server's TCP port.
        server: String,
        /// Description of the error.
        reason: String,
    },
    /// A port that bypasses the kernel cannot be opened, or does not reach the server.
    Port {
        /// Describes the problem, with the port's name.
        reason: String,
    },
    /// A fabric cannot be opened: its provider, or the feature `libfabric`, is missing.
    Fabric {
        /// URL of the server, without the login.
        server: String,
        /// Describes the problem.
        reason: String,
    },
    /// A server on the same host does not let this process attach.
    Local {
        /// URL of the server, without the login.
        server: String,
        /// Describes the problem.
        reason: String,
    },
    /// The server requires a login, and this was none, or a wrong one.
    Login {
        /// URL of the server, without the login.
        server: String,
    },
    /// The server has as many clients of this kind as it may have.
    ServerFull {
        /// URL of the server, without the login.
        server: String,
    },
    /// This process is a child of the one that connected, and cannot connect anew by itself.
    Forked,
    /// The operating system returned an error.
    Io(Arc<io::Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { name, reason } => {
                write!(out, "{name} is not a server's host:port: {reason}")
            }
            Self::Unreachable { server } if server.starts_with(FABRIC_SCHEME) => write!(
                out,
                "no reply from {server}: is it running with --fabric, with this provider, address and port, \
                 and does no firewall drop its connections?"
            ),
            Self::Unreachable { server } if server.starts_with(LOCAL_SCHEME) => write!(
                out,
                "no reply from {server}: is it running with --local and this path, and may this user open \
                 the socket?"
            ),
            Self::Unreachable { server } => write!(
                out,
                "no reply from {server}: is it running with --native, is this its base port, \
                 and does no firewall drop UDP?"
            ),
            Self::Version { server, version } => write!(
                out,
                "{server} speaks version {version} of the native protocol and this client version {}: \
                 update the older one",
                micanite_wire::native::VERSION
            ),
            Self::TimedOut { server } => write!(
                out,
                "no reply from {server} within the deadline; it is unknown whether it was executed"
            ),
            Self::OutcomeUnknown => write!(
                out,
                "the stream was lost before the reply, or the server no longer remembers the request: it is \
                 unknown whether it was executed"
            ),
            Self::BadKey => write!(out, "keys have 1 to 250 bytes"),
            Self::KeyNotText => write!(
                out,
                "this request uses memcached's text protocol (a value that fits no datagram, or local://): \
                 no spaces and control characters in keys, or over local:// keys of at most 186 bytes"
            ),
            Self::ExpiryTooFar => {
                write!(
                    out,
                    "the expiry ends after 2106 (Unix time 2^32-2): 0 is for values that never expire"
                )
            }
            Self::TooLarge { limit_bytes: Some(limit) } => {
                write!(out, "the value exceeds the server's limit of {limit} bytes")
            }
            Self::TooLarge { limit_bytes: None } => write!(out, "the value exceeds the server's limit"),
            Self::NoStream { server } => write!(
                out,
                "the value does not fit a datagram, \
                 and {server} has no TCP port for such values (serve with -p)"
            ),
            Self::OutOfSpace => write!(out, "the store has no space for the item"),
            Self::NotANumber => write!(out, "the value is not a decimal number below 2^64"),
            Self::Refused => write!(out, "the server rejects the request as invalid"),
            Self::Stream { server, reason } => write!(out, "TCP to {server}: {reason}"),
            Self::Port { reason } => write!(out, "{reason}"),
            Self::Fabric { server, reason } | Self::Local { server, reason } => {
                write!(out, "{server}: {reason}")
            }
            Self::Login { server } => write!(
                out,
                "{server} refuses the login: give it a user and a password of its file (serve with -Y)"
            ),
            Self::ServerFull { server } => write!(
                out,
                "{server} has as many clients as it may have: raise --fabric-clients or --local-clients, or \
                 try again when others have gone"
            ),
            Self::Forked => write!(
                out,
                "this process is a child of the one that connected: connect in the child, after the fork"
            ),
            Self::Io(error) => write!(out, "{error}"),
        }
    }
}

impl Error {
    /// Returns whether it is about one request: the server may well answer others.
    pub(crate) fn is_of_one_request(&self) -> bool {
        matches!(self, Self::BadKey | Self::KeyNotText | Self::Refused)
    }

    /// Returns whether it is a server's reply to a request, or says itself that the outcome is unknown.
    pub(crate) fn is_of_reply(&self) -> bool {
        use Error::{NotANumber, OutOfSpace, Refused, TimedOut, TooLarge};
        matches!(self, NotANumber | OutOfSpace | Refused | TimedOut { .. } | TooLarge { .. })
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
