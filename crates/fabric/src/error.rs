//! Errors of endpoints and transfers.

use std::fmt;

use nix::errno::Errno;

/// `FI_ETRUNC`, one of libfabric's own numbers.
const TRUNCATED: i32 = 265;
/// `FI_ENOKEY`.
const NO_KEY: i32 = 266;

/// An error of an endpoint or a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such provider, or the endpoint cannot be opened; the text says why.
    Unavailable(String),
    /// The connection is not ready, or a queue is full. Poll, then try again. A read of two ranges may
    /// complete with this; read again.
    Busy,
    /// The connection was closed under the transfer. The peer ended, or refused the access: `net` and `tcp`
    /// close a connection for both. The next transfer connects again.
    Closed,
    /// The peer took nothing for `busy_ms_max`, or is no peer of this endpoint any more.
    PeerGone,
    /// The receive was cancelled.
    Cancelled,
    /// The provider says that the peer refused the access.
    Refused,
    /// The range is not in the area, or in the buffer.
    OutOfRange,
    /// The endpoint has as many transfers, or knows as many peers, as it may.
    Full,
    /// The message does not fit into the buffer that was posted.
    Truncated,
    /// A message from somebody who has not greeted, or whose greeting is malformed.
    Stranger,
    /// A message that begins as a greeting does.
    Reserved,
    /// The provider cannot do this.
    Unsupported,
    /// Some transfer failed, and the provider does not say which (`shm` does this if a peer was killed). Its
    /// buffer returns when the endpoint is closed.
    Unattributed(i32),
    /// Another error of libfabric, by its number.
    Other(i32),
}

impl Error {
    /// Classifies an error number of libfabric, which are the system's up to 255.
    pub(crate) fn from_number(number: i32) -> Self {
        match number {
            TRUNCATED => return Self::Truncated,
            NO_KEY => return Self::Refused,
            _ => {}
        }
        match Errno::from_raw(number) {
            Errno::EAGAIN => Self::Busy,
            Errno::ECANCELED
            | Errno::ECONNRESET
            | Errno::ECONNABORTED
            | Errno::ECONNREFUSED
            | Errno::ENOTCONN
            | Errno::ESHUTDOWN
            | Errno::EPIPE => Self::Closed,
            Errno::EHOSTDOWN | Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::ETIMEDOUT => Self::PeerGone,
            Errno::EACCES
            | Errno::EPERM
            | Errno::EREMOTEIO
            | Errno::EKEYEXPIRED
            | Errno::EKEYREJECTED
            | Errno::EKEYREVOKED => Self::Refused,
            Errno::EMSGSIZE => Self::Truncated,
            Errno::ENOSYS | Errno::EOPNOTSUPP => Self::Unsupported,
            _ => Self::Other(number),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unavailable(why) => why,
            Self::Busy => "the peer's connection or a queue is busy",
            Self::Closed => "the connection was closed: the peer ended, or refused the access",
            Self::PeerGone => "the peer is gone",
            Self::Cancelled => "the receive was cancelled",
            Self::Refused => "the peer refused the access",
            Self::OutOfRange => "the range is not in the area, or not in the buffer",
            Self::Full => "there are as many transfers or peers as there may be",
            Self::Truncated => "the message is longer than the buffer",
            Self::Stranger => "the sender has not greeted as it should",
            Self::Reserved => "a message may not begin as a greeting does",
            Self::Unsupported => "the provider cannot do this",
            Self::Unattributed(number) => {
                return write!(out, "a transfer failed, the provider does not say which (error {number})");
            }
            Self::Other(number) => return write!(out, "error {number} of libfabric"),
        };
        out.write_str(text)
    }
}

impl std::error::Error for Error {}
