//! Inserts an item: reserves space, writes the item, publishes it.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::index::bucket::Bucket;
use crate::index::hash::IndexHash;
use crate::limits::KEY_BYTES_MAX;
use crate::log::LogKind;
use crate::log::item::{Expiry, Shape, pack_meta};
use crate::partition::Hint;
use crate::region::{Field, LogField};
use crate::writer::{Found, NewItem, Part, Refusal, Reservation, Writer};

impl Writer<'_> {
    /// Inserts an item under a key that is absent as a fact ([`Hint::is_fact`]), where no other item has to
    /// leave or move for it: the hints of others stay facts. Returns false if something needs a closer look,
    /// and nothing has happened.
    #[inline]
    pub fn insert_hinted(
        &self,
        key: &[u8],
        hint: &Hint<'_>,
        value: &[u8],
        (flags, expiry): (u32, Expiry),
    ) -> bool {
        let p = self.partition;
        self.keep_hints();
        if p.is_store() || p.chunks.get().is_some() || !hint.is_still_absent() {
            return false;
        }
        let meta = flags != 0 || expiry != Expiry::NEVER;
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let shape = Shape { key_bytes, value_bytes, meta, state: false, cas: false };
        let units = shape.units();
        let is_usual = key_bytes.wrapping_sub(1) < KEY_BYTES_MAX && units <= p.layout.item_units_max;
        let Some(header) = shape.header_in(units).filter(|_| is_usual) else {
            return false;
        };
        let which = self.log_for(units, false);
        if !self.has_room_at_tail(which, units) {
            return false;
        }
        let bucket = Bucket::at(&p.region, hint.bucket);
        let is_ready = hint.empty != 0 && bucket.next_spare().is_none();
        let judged = (!is_ready).then(|| self.judge(bucket, (which, units)));
        if judged.is_some_and(|judged| !self.has_slot(&judged)) {
            return false;
        }
        debug_assert!(self.is_absent(hint.hash), "a fact");
        let place = self.reserve_at_tail(p.log(which), which, units);
        if meta {
            p.word(place.position + 1).store(pack_meta(expiry.0, flags), Relaxed);
        }
        let key_at = (place.position + shape.key_word()) * 8;
        p.region.copy_in(key_at, key);
        p.region.copy_in(key_at + key_bytes, value);
        self.set_header(place.position, header);
        bucket.write(|| {
            let slot = match judged {
                None => hint.empty,
                Some(judged) => self.slot_of_judged(bucket, &judged).expect("it has one"),
            };
            p.word(slot).store(self.entry_of(hint.hash, &place).0, Release);
        });
        p.add(Field::ItemsLive, 1);
        p.add(Field::UnitsLive, units);
        self.count_insertion();
        self.note_expiry(expiry);
        if self.is_due_to_scan() {
            self.keeps_hints.set(false);
            self.scan_as_the_tail_advances();
        }
        if self.is_due_to_grow() {
            self.grow_beside_hints();
        }
        true
    }

    /// Returns whether a log has room for an item without an eviction, in its current lap.
    #[inline]
    fn has_room_at_tail(&self, which: LogKind, units: u64) -> bool {
        let p = self.partition;
        let log = p.log(which);
        let end = log.lap_units() + units;
        end <= log.get(LogField::Limit) && log.is_free_to(end) && p.limit.index_waits.load(Relaxed) == 0
    }

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
