//! Results of requests.

/// A result. `docs/protocol.md` says what each means for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    /// The item has another CAS value.
    Exists = 2,
    /// The condition of the operation does not hold.
    NotStored = 3,
    /// The store has no space for the item.
    OutOfSpace = 4,
    /// The value is longer than the limit in the reply.
    TooLarge = 5,
    /// Not executed: the key has another owner now.
    Moved = 6,
    /// Not executed: the server has too much to do.
    SlowDown = 7,
    /// Not executed: the request is invalid.
    BadRequest = 8,
    /// The server speaks another version.
    Version = 9,
    NotANumber = 10,
    /// The client has to prove its address first.
    Unproven = 11,
    /// The value does not fit beside the other replies.
    NoRoom = 12,
    /// The value does not fit any datagram.
    UseStream = 13,
    /// The server no longer knows whether it executed the request.
    Forgotten = 14,
}

impl Status {
    /// All results, ordered by number.
    pub const ALL: [Self; 15] = [
        Self::Ok,
        Self::NotFound,
        Self::Exists,
        Self::NotStored,
        Self::OutOfSpace,
        Self::TooLarge,
        Self::Moved,
        Self::SlowDown,
        Self::BadRequest,
        Self::Version,
        Self::NotANumber,
        Self::Unproven,
        Self::NoRoom,
        Self::UseStream,
        Self::Forgotten,
    ];

    /// Returns the result of a number.
    #[inline]
    pub const fn of(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }
}
