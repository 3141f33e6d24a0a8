//! A request of a trace in eight bytes.

use crate::trace::{Operation, Outcome, Request};

/// Effect of a request on a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Looks for an object; what is missing is stored.
    Read = 0,
    /// Looks for an object, and gives it the expiry of [`Event::expiry`].
    ReadAndTouch = 1,
    Store = 2,
    /// Stores it if it is not there.
    StoreIfAbsent = 3,
    /// Stores it if it is there.
    StoreIfPresent = 4,
    Delete = 5,
    /// Gives it another expiry if it is there.
    Touch = 6,
    /// No request: the time goes on, or stores have another expiry from now on, or none that is told.
    Mark = 7,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Read,
        Self::ReadAndTouch,
        Self::Store,
        Self::StoreIfAbsent,
        Self::StoreIfPresent,
        Self::Delete,
        Self::Touch,
        Self::Mark,
    ];

    /// Returns the effect of a request; none if it had none when the trace was taken.
    pub(crate) fn of(request: &Request<'_>) -> Option<Self> {
        let was_refused = request.outcome == Outcome::Miss;
        Some(match request.operation {
            Operation::Get | Operation::Gets => Self::Read,
            Operation::GetAndTouch => Self::ReadAndTouch,
            Operation::Set => Self::Store,
            Operation::Add => Self::StoreIfAbsent,
            Operation::Delete => Self::Delete,
            Operation::Touch => Self::Touch,
            // A smaller cache may refuse more of them, not fewer.
            Operation::Replace
            | Operation::Append
            | Operation::Prepend
            | Operation::Cas
            | Operation::Increment
            | Operation::Decrement => {
                return (!was_refused).then_some(Self::StoreIfPresent);
            }
        })
    }

    /// Returns whether it looks for an object.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadAndTouch)
    }
}

const VALUE_BITS: u32 = 29;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;
const MARK_TIME: u32 = 0;
const MARK_EXPIRY: u32 = 1;
const MARK_UNTOLD: u32 = 2;

/// The size of an object whose size is not known.
pub(crate) const UNKNOWN: u32 = VALUE_MASK as u32;

/// A request, or a mark between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event(u64);

impl Event {
    /// A request for an object that has so many bytes of key and value; more than 512 MiB count
    /// as that.
    pub fn request(kind: Kind, object: u32, payload_bytes: Option<u64>) -> Self {
        let bytes = payload_bytes.map_or(VALUE_MASK, |bytes| bytes.min(VALUE_MASK - 1));
        Self(u64::from(object) | bytes << 32 | (kind as u64) << (32 + VALUE_BITS))
    }

    fn mark(what: u32, value: u32) -> Self {
        let value = u64::from(value) & VALUE_MASK;
        Self(u64::from(what) | value << 32 | (Kind::Mark as u64) << (32 + VALUE_BITS))
    }

    /// Marks that so many seconds have passed.
    pub fn time(seconds: u64) -> Self {
        Self::mark(MARK_TIME, seconds.min(VALUE_MASK) as u32)
    }

    /// Marks after how many seconds later stores and touches expire, 0 for never; none if that is not told.
    pub fn expiry(expiry_s: Option<u32>) -> Self {
        match expiry_s {
            Some(expiry_s) => Self::mark(MARK_EXPIRY, expiry_s.min(VALUE_MASK as u32)),
            None => Self::mark(MARK_UNTOLD, 0),
        }
    }

    pub fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> (32 + VALUE_BITS)) as usize]
    }

    /// Whose request it is.
    pub fn object(self) -> u32 {
        self.0 as u32
    }

    /// Bytes of key and value; [`UNKNOWN`] if the trace does not say.
    pub fn payload_bytes(self) -> u32 {
        (self.0 >> 32 & VALUE_MASK) as u32
    }

    /// Returns it with another number of the object.
    pub fn renumbered(self, object: u32) -> Self {
        Self(self.0 >> 32 << 32 | u64::from(object))
    }

    pub fn marked(self) -> Mark {
        let value = self.payload_bytes();
        match self.object() {
            MARK_TIME => Mark::Seconds(value),
            MARK_EXPIRY => Mark::Expiry(Some(value)),
            _ => Mark::Expiry(None),
        }
    }
}

/// A mark between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Seconds that have passed.
    Seconds(u32),
    /// Stores expire after so many seconds; nothing if that is not told.
    Expiry(Option<u32>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back() {
        for kind in Kind::ALL {
            for (object, bytes) in [(0, 0), (u32::MAX, UNKNOWN - 1), (7, 54)] {
                let event = Event::request(kind, object, Some(u64::from(bytes)));
                assert_eq!((event.kind(), event.object()), (kind, object));
                assert_eq!(event.payload_bytes(), bytes);
                let other = event.renumbered(3);
                assert_eq!((other.object(), other.payload_bytes()), (3, bytes));
            }
        }
        let unknown = Event::request(Kind::Read, 1, None);
        assert_eq!(unknown.payload_bytes(), UNKNOWN);
        let huge = Event::request(Kind::Read, 1, Some(u64::MAX));
        assert_eq!(huge.payload_bytes(), UNKNOWN - 1);
        assert_eq!(Event::time(9).marked(), Mark::Seconds(9));
        for expiry_s in [None, Some(0), Some(77)] {
            assert_eq!(Event::expiry(expiry_s).marked(), Mark::Expiry(expiry_s));
        }
        assert_eq!(Event::time(9).kind(), Kind::Mark);
    }
}
