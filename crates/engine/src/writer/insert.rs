//! Inserts an item: reserves space, writes the item, publishes it.

use crate::index::hash::IndexHash;
use crate::log::item::Expiry;
use crate::region::Field;
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
        reserved.write_item(self.partition, item, old);
        self.publish(hash, &reserved, item.expiry, found.as_ref())?;
        Ok(reserved)
    }

    /// Returns whether a found item may be elsewhere: entries have moved since `moves` was loaded.
    #[inline]
    pub fn has_moved(&self, moves: u64, found: Option<&Found>) -> bool {
        self.partition.get(Field::Moves) != moves
            || found.is_some_and(|found| !self.partition.is_live(&found.place))
    }

    /// Inserts a copy of an item that differs in its expiry at most; its CAS value stays.
    pub fn relocate(
        &self,
        hash: IndexHash,
        key: &[u8],
        found: &Found,
        expiry: Expiry,
    ) -> Result<(), Refusal> {
        let moves = expiry == found.expiry;
        let item = NewItem { expiry, moves, ..self.copy_of(key, found) };
        self.insert(hash, &item, Some(found)).map(drop)
    }
}
