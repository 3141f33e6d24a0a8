//! Operations and their outcomes: numbers of the file.
/// An operation. The numbers are those of the recording format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Read (`get`), or the trace tells accesses only: what is missed is stored.
    Get = 0,
    /// Read with its CAS value.
    Gets = 1,
    Set = 2,
    /// Stored if it is not there.
    Add = 3,
    /// Stored if it is there.
    Replace = 4,
    /// Lengthened at its end.
    Append = 5,
    /// Lengthened at its start.
    Prepend = 6,
    /// Stored if nobody has changed it.
    Cas = 7,
    Delete = 8,
    /// Counted up.
    Increment = 9,
    /// Counted down.
    Decrement = 10,
    /// Given another expiry.
    Touch = 11,
    /// Read and given another expiry.
    GetAndTouch = 12,
}

impl Operation {
    /// All operations, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Get,
        Self::Gets,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Delete,
        Self::Increment,
        Self::Decrement,
        Self::Touch,
        Self::GetAndTouch,
    ];

    /// Name in memcached's protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Gets => "gets",
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
            Self::Delete => "delete",
            Self::Increment => "incr",
            Self::Decrement => "decr",
            Self::Touch => "touch",
            Self::GetAndTouch => "gat",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Returns whether it returns a value.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Gets | Self::GetAndTouch)
    }

    /// Returns whether it brings a whole value, if it is carried out.
    pub const fn stores_whole(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Cas)
    }

    /// Returns whether the item is there afterwards, if it is carried out (see [`Outcome`]).
    pub const fn stores(self) -> bool {
        matches!(self, Self::Set | Self::Add | Self::Replace | Self::Append | Self::Prepend | Self::Cas)
    }
}

/// Answer of the server when the trace was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// The trace does not say.
    #[default]
    Unknown = 0,
    /// A read found the item; another operation found what it needed and was carried out.
    Hit = 1,
    /// The item was not there, or a condition was not met: nothing was done.
    Miss = 2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_their_numbers_and_names() {
        for (number, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, number);
            assert_eq!(Operation::named(operation.name()), Some(operation));
        }
        assert_eq!(Operation::named("GET"), None);
    }
}
