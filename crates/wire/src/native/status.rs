//! How a request ended.

/// The statuses; `docs/protocol.md` says what each means for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is no such item.
    NotFound = 1,
    /// The item has another CAS value.
    Exists = 2,
    /// The condition of the operation does not hold.
    NotStored = 3,
    /// A store has no space for the item.
    OutOfSpace = 4,
    /// The value is longer than the limit in the reply.
    TooLarge = 5,
    /// Not executed: the key has another owner by now.
    Moved = 6,
    /// Not executed: too much at a time.
    SlowDown = 7,
    /// Not executed: wrong.
    BadRequest = 8,
    /// The server speaks another version.
    Version = 9,
    /// The value cannot be incremented.
    NotANumber = 10,
    /// The address has to be proved first.
    Unproven = 11,
    /// The value does not fit beside the other replies.
    NoRoom = 12,
    /// The value does not fit any datagram.
    UseStream = 13,
    /// Unknown whether it was executed.
    Forgotten = 14,
}

impl Status {
    /// All of them, by their numbers.
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

    /// The status of a number.
    #[inline]
    pub const fn of(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() {
            Some(Self::ALL[number as usize])
        } else {
            None
        }
    }
}
