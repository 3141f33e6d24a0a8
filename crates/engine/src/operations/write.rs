//! Steps of the writer with the outcome that a client gets.

use crate::index::hash::IndexHash;
use crate::log::item::Expiry;
use crate::operations::request::{HashedRequest, Outcome};
use crate::region::Field;
use crate::writer::{Found, NewItem, Refusal, Reservation, Writer};

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::OutOfMemory,
            Refusal::Busy => Self::Busy,
            Refusal::Gone => Self::NotFound,
        }
    }
}

impl Writer<'_> {
    /// Inserts an item that a client wrote (not one that only moves), and counts it.
    #[inline(never)]
    pub fn insert_counted(&self, hash: IndexHash, item: &NewItem<'_>, replaced: Option<&Found>) -> Outcome {
        self.stored(self.insert(hash, item, replaced).map(drop))
    }

    /// Replaces an item by one that a client wrote, when there is no other space, and counts it.
    #[cold]
    pub fn replace_counted(&self, hash: IndexHash, item: &NewItem<'_>, replaced: Option<&Found>) -> Outcome {
        self.stored(self.replace_in_full_store(hash, item, replaced).map(drop))
    }

    /// Writes a whole new value for a key, in the space of the found item or in a new place.
    #[inline(always)]
    pub fn write_value(
        &self,
        request: &HashedRequest<'_>,
        found: Option<&Found>,
        value: &[u8],
        meta: (u32, Expiry),
    ) -> Outcome {
        if let Some(found) = found
            && self.overwrite(request.hash, found, value, meta)
        {
            return Outcome::Stored;
        }
        let frequency = found.map_or(0, |found| found.header.frequency());
        let item =
            NewItem { frequency, state: self.fresh_state(found), ..NewItem::of(request.key, value, meta) };
        self.insert_counted(request.hash, &item, found)
    }

    /// Publishes an item that a client wrote, and counts it.
    pub fn publish_counted(
        &self,
        hash: IndexHash,
        reserved: &Reservation,
        expiry: Expiry,
        replaced: Option<&Found>,
    ) -> Outcome {
        self.stored(self.publish(hash, reserved, expiry, replaced))
    }

    #[inline]
    pub fn count_insertion(&self) {
        self.partition.add(Field::ItemsInserted, 1);
    }

    #[inline]
    fn stored(&self, result: Result<(), Refusal>) -> Outcome {
        match result {
            Ok(()) => {
                self.count_insertion();
                Outcome::Stored
            }
            Err(refusal) => refusal.into(),
        }
    }
}
