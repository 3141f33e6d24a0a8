//! Inserts an item: reserves space, writes the item, publishes it.

use crate::index::hash::IndexHash;
use crate::operations::request::{Expiry, HashedRequest, Outcome};
use crate::partition::Field;
use crate::writer::{Found, NewItem, Part, Refusal, Reservation, Writer};

impl Writer<'_> {
    /// Reserves space, writes an item, and publishes it, in the entry of `replaced` if there is
    /// one.
    pub fn insert(
        &self,
        hash: IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Result<Reservation, Refusal> {
        let moves = self.partition.get(Field::Moves);
        let reserved = match self.reserve(hash, item, replaced) {
            Err(Refusal::Full) => return self.replace_in_full_store(hash, item, replaced),
            reserved => reserved?,
        };
        let mut found = replaced.copied();
        if found.is_some() && self.has_moved(moves, found.as_ref()) {
            found = self.lookup(hash, item.key);
        }
        if found.is_none() && item.value.contains(&Part::Old) {
            self.release(&reserved);
            return Err(Refusal::Gone);
        }
        let old = found.as_ref().map(|old| (old.value_at(), old.value_bytes()));
        self.partition.write_item(&reserved, item, old);
        self.publish(hash, &reserved, item.expiry, found.as_ref())?;
        Ok(reserved)
    }

    /// Returns whether a found item may be elsewhere: entries have moved since `moves` was loaded.
    #[inline]
    pub fn has_moved(&self, moves: u64, found: Option<&Found>) -> bool {
        self.partition.get(Field::Moves) != moves
            || found.is_some_and(|found| !self.partition.is_live(&found.place))
    }

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

    /// Inserts a copy of an item that differs in its expiry at most; its CAS value stays.
    pub fn relocate(
        &self,
        hash: IndexHash,
        key: &[u8],
        found: &Found,
        expiry: Expiry,
    ) -> Result<(), Refusal> {
        let item = NewItem { expiry, ..self.copy_of(key, found) };
        self.insert(hash, &item, Some(found)).map(drop)
    }
}
