//! Operations of requests.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    Noop = 0,
    Get = 1,
    Set = 2,
    /// Stores if the item is missing.
    Add = 3,
    /// Stores if the item exists.
    Replace = 4,
    Delete = 5,
    Touch = 6,
    Increment = 7,
    Decrement = 8,
    /// Stores if the item still has the CAS value.
    Cas = 9,
    Append = 10,
    Prepend = 11,
    /// Returns the value of a key and replaces its expiry.
    GetAndTouch = 12,
}

impl Opcode {
    /// All operations, ordered by number.
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

    /// Returns the operation of a number.
    #[inline]
    pub const fn of(number: u8) -> Option<Self> {
        if (number as usize) < Self::ALL.len() { Some(Self::ALL[number as usize]) } else { None }
    }

    /// Returns whether a request carries an id. Such an operation has another effect when it is
    /// executed twice.
    #[inline]
    pub const fn has_id(self) -> bool {
        matches!(
            self,
            Self::Add | Self::Increment | Self::Decrement | Self::Cas | Self::Append | Self::Prepend
        )
    }

    /// Returns whether a request carries a number: an amount to add or subtract, or a CAS value.
    #[inline]
    pub const fn has_argument(self) -> bool {
        matches!(self, Self::Increment | Self::Decrement | Self::Cas)
    }

    /// Returns whether a request carries a value.
    #[inline]
    pub const fn has_value(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas | Self::Append | Self::Prepend)
    }

    /// Returns whether a request carries an expiry.
    #[inline]
    pub const fn has_expiry(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas | Self::Touch | Self::GetAndTouch)
    }

    /// Returns whether a request carries item flags.
    #[inline]
    pub const fn has_flags(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas)
    }

    /// Returns whether the reply to a found key carries the value.
    #[inline]
    pub const fn answers_value(self) -> bool {
        matches!(self, Self::Get | Self::GetAndTouch)
    }

    /// Returns whether the reply carries a number.
    #[inline]
    pub const fn answers_number(self) -> bool {
        matches!(self, Self::Increment | Self::Decrement)
    }

    /// Returns whether the operation can change something: all but no-op and get.
    #[inline]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Noop | Self::Get)
    }
}
