//! append, prepend.

use crate::operations::request::{HashedRequest, Outcome};
use crate::writer::{Found, NewItem, Part, Writer};

/// Side of the old value that the new bytes go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Before,
    After,
}

impl Writer<'_> {
    /// Joins bytes to a value. Flags and expiry stay; the CAS value changes.
    pub fn concatenate(
        &self,
        request: &HashedRequest<'_>,
        side: Side,
        more: &[u8],
        value_bytes_max: usize,
    ) -> Outcome {
        let Some(found) = self.find(request.hash, request.key) else {
            return Outcome::NotStored;
        };
        if found.value_bytes() + more.len() > value_bytes_max {
            return Outcome::TooLarge;
        }
        let item = self.joined(request.key, &found, side, more);
        match self.insert_counted(request.hash, &item, Some(&found)) {
            Outcome::NotFound => Outcome::NotStored, // it has just been evicted
            outcome => outcome,
        }
    }

    /// Returns the item that an append or prepend makes of another.
    pub(super) fn joined<'b>(&self, key: &'b [u8], found: &Found, side: Side, more: &'b [u8]) -> NewItem<'b> {
        let value = match side {
            Side::Before => [Part::Bytes(more), Part::Old],
            Side::After => [Part::Old, Part::Bytes(more)],
        };
        NewItem {
            frequency: found.header.frequency(),
            state: self.fresh_state(Some(found)),
            value,
            ..NewItem::of(key, &[], (found.flags, found.expiry))
        }
    }
}
