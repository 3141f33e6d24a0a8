//! What a request asks.

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// Nothing.
    Noop = 0,
    /// The value of a key.
    Get = 1,
    /// Stores.
    Set = 2,
    /// Stores if there is no such item.
    Add = 3,
    /// Stores if there is one.
    Replace = 4,
    /// Removes.
    Delete = 5,
    /// Replaces the expiry.
    Touch = 6,
    /// Adds to a number.
    Increment = 7,
    /// Subtracts from a number.
    Decrement = 8,
    /// Stores if the item has the CAS value still.
    Cas = 9,
    /// Adds bytes behind the value.
    Append = 10,
    /// Adds bytes before the value.
    Prepend = 11,
    /// The value of a key, whose expiry is replaced.
    GetAndTouch = 12,
}

impl Opcode {
    /// All of them, by their numbers.
    pub const ALL: [Self; 13] = [
        Self::Noop,
        Self::Get,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Delete,
        Self::Touch,
        Self::Increment,
        Self::Decrement,
        Self::Cas,
        Self::Append,
        Self::Prepend,
        Self::GetAndTouch,
    ];

    /// The operation of a number.
    #[inline]
    pub const fn of(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() {
            Some(Self::ALL[number as usize])
        } else {
            None
        }
    }

    /// Whether a request carries an id: executed twice it would do something else than once.
    #[inline]
    pub const fn has_id(self) -> bool {
        matches!(
            self,
            Self::Add
                | Self::Increment
                | Self::Decrement
                | Self::Cas
                | Self::Append
                | Self::Prepend
        )
    }

    /// Whether a request carries a number: what is added or subtracted, or a CAS value.
    #[inline]
    pub const fn has_argument(self) -> bool {
        matches!(self, Self::Increment | Self::Decrement | Self::Cas)
    }

    /// Whether a request carries a value.
    #[inline]
    pub const fn has_value(self) -> bool {
        matches!(
            self,
            Self::Set | Self::Add | Self::Replace | Self::Cas | Self::Append | Self::Prepend
        )
    }

    /// Whether a request carries an expiry.
    #[inline]
    pub const fn has_expiry(self) -> bool {
        matches!(
            self,
            Self::Set | Self::Add | Self::Replace | Self::Cas | Self::Touch | Self::GetAndTouch
        )
    }

    /// Whether a request carries item flags.
    #[inline]
    pub const fn has_flags(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas)
    }

    /// Whether the reply to a found key carries the value.
    #[inline]
    pub const fn answers_value(self) -> bool {
        matches!(self, Self::Get | Self::GetAndTouch)
    }

    /// Whether the reply carries a number.
    #[inline]
    pub const fn answers_number(self) -> bool {
        matches!(self, Self::Increment | Self::Decrement)
    }

    /// Whether it changes something: all but no-op and get.
    #[inline]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Noop | Self::Get)
    }
}
