//! Status of a call.

use micanite_client::Error;

/// `micanite_status` of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// The call succeeded.
    Ok = 0,
    /// There is no such item.
    NotFound = 1,
    /// The item has another CAS value.
    Exists = 2,
    /// The condition of add or replace does not hold.
    NotStored = 3,
    /// Any error without a code of its own.
    Error = -1,
    /// The server does not reply. The call was not sent, and not executed.
    Unreachable = -2,
    /// It is unknown whether a write was executed.
    OutcomeUnknown = -3,
    /// The key is empty, too long, or not text where the text protocol requires it.
    BadKey = -4,
    /// The value exceeds the server's limit.
    TooLarge = -5,
    /// The store has no space.
    OutOfSpace = -6,
    /// The value is not a number.
    NotANumber = -7,
    /// A pointer that is required is null, or the expiry is too far.
    BadArgument = -8,
}

impl Status {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::Unreachable { .. } => Self::Unreachable,
            Error::TimedOut { .. } | Error::OutcomeUnknown => Self::OutcomeUnknown,
            Error::BadKey | Error::KeyNotText => Self::BadKey,
            Error::TooLarge { .. } => Self::TooLarge,
            Error::OutOfSpace => Self::OutOfSpace,
            Error::NotANumber => Self::NotANumber,
            Error::ExpiryTooFar => Self::BadArgument,
            _ => Self::Error,
        }
    }

    pub(crate) fn found(found: bool) -> Self {
        if found { Self::Ok } else { Self::NotFound }
    }

    pub(crate) fn stored(stored: bool) -> Self {
        if stored { Self::Ok } else { Self::NotStored }
    }
}
