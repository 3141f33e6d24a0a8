//! How calls end.

use micanite_client::Error;

/// The header's `micanite_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is no such item.
    NotFound = 1,
    /// The item has another CAS value.
    Exists = 2,
    /// The condition of add or replace does not hold.
    NotStored = 3,
    /// Anything that has no name of its own.
    Error = -1,
    /// The server does not reply.
    Unreachable = -2,
    /// Whether a write was executed is not known.
    OutcomeUnknown = -3,
    /// The key cannot be one.
    BadKey = -4,
    /// The value is longer than the server takes.
    TooLarge = -5,
    /// A store has no space.
    OutOfSpace = -6,
    /// The value is not a number.
    NotANumber = -7,
    /// A pointer is null that must not be.
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
