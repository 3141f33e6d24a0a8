//! Writing an item to a new place: take space, write, publish.

use crate::index::hash::IndexHash;
use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::copy_budget;
use crate::log::LogKind;
use crate::log::item::{Header, Shape, State, pack_meta};
use crate::partition::{Field, Partition, Place};
use crate::request::{Expiry, HashedRequest, Outcome};
use crate::writer::{Found, Refusal, Writer};

/// An item to be written.
pub(crate) struct NewItem<'a> {
    pub key: &'a [u8],
    pub flags: u32,
    pub expiry: Expiry,
    /// What it says beside its value.
    pub state: Option<State>,
    /// The CAS value that the item keeps, because it was given out and nothing but its place
    /// changes.
    pub cas: Option<u64>,
    /// Whether a client will know its CAS value.
    pub gives_cas: bool,
    /// Whether it was requested since it was stored.
    pub fetched: bool,
    /// Requests that the item has counted.
    pub frequency: u64,
    /// The log that it has to go to.
    pub log: Option<LogKind>,
    /// The value, in two parts.
    pub value: [Part<'a>; 2],
}

/// A part of a value: the caller's bytes, or the value of the item that is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    Old,
}

impl Part<'_> {
    pub const NONE: Self = Self::Bytes(&[]);
}

impl<'a> NewItem<'a> {
    /// An item of a whole value.
    pub fn of(key: &'a [u8], value: &'a [u8], (flags, expiry): (u32, Expiry)) -> Self {
        Self {
            key,
            flags,
            expiry,
            state: None,
            cas: None,
            gives_cas: false,
            fetched: false,
            frequency: 0,
            log: None,
            value: [Part::Bytes(value), Part::NONE],
        }
    }
}

/// Space that was taken for an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    pub place: Place,
    pub header: Header,
    /// The entry of the key's ghost.
    ghost: Option<usize>,
    /// Whether the item has its CAS value already.
    has_cas: bool,
}

impl Reservation {
    /// For use after others have written: entries may have moved.
    pub fn for_later(self) -> Self {
        Self {
            ghost: None,
            ..self
        }
    }
}

impl Writer<'_> {
    /// Writes an item and points the index to it, in the entry of `replaced` if there is one.
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
        let old = found
            .as_ref()
            .map(|old| (old.value_at(), old.value_bytes()));
        self.partition.write_item(&reserved, item, old);
        self.publish(hash, &reserved, item.expiry, found.as_ref())?;
        Ok(reserved)
    }

    /// Whether what was found may be elsewhere: since `moves` was noted, entries have moved.
    #[inline]
    pub fn has_moved(&self, moves: u64, found: Option<&Found>) -> bool {
        self.partition.get(Field::Moves) != moves
            || found.is_some_and(|found| !self.partition.is_live(&found.place))
    }

    /// What an item consists of that is written in the place of another.
    #[inline]
    pub fn shape_of(&self, item: &NewItem<'_>, replaced: Option<&Found>) -> Shape {
        let part_bytes = |part: &Part<'_>| match part {
            Part::Bytes(bytes) => bytes.len(),
            Part::Old => replaced.map_or(0, Found::value_bytes),
        };
        Shape {
            key_bytes: item.key.len(),
            value_bytes: item.value.iter().map(part_bytes).sum(),
            meta: item.flags != 0 || item.expiry != Expiry::NEVER,
            state: item.state.is_some(),
            cas: item.cas.is_some() || self.partition.is_store(),
        }
    }

    /// Takes the space for an item. Evicts, and moves, other items of a cache.
    #[inline]
    pub fn reserve(
        &self,
        hash: IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Result<Reservation, Refusal> {
        let p = self.partition;
        let shape = self.shape_of(item, replaced);
        let units = shape.units();
        if units > p.layout.item_units_max {
            return Err(Refusal::Full);
        }
        let ghost = match (item.log, replaced) {
            (None, None) => self.ghost(hash),
            _ => None,
        };
        let place = if p.is_store() {
            if replaced.is_none() && p.get(Field::SpareFree) == 0 {
                self.sweep_short_of_spares(hash);
            }
            self.reserve_in_heap(units)?
        } else {
            let which = match (item.log, replaced) {
                (Some(which), _) => which,
                (None, Some(found)) if found.place.log == LogKind::Main => LogKind::Main,
                _ => self.log_for(units, ghost.is_some()),
            };
            let moves = p.get(Field::Moves);
            let place = self.reserve_in_log(which, units)?;
            if ghost.is_some() {
                p.add(Field::GhostsMet, 1);
                if p.get(Field::Moves) != moves {
                    return Ok(self.reservation(shape, place, item, self.ghost(hash)));
                }
            }
            place
        };
        Ok(self.reservation(shape, place, item, ghost))
    }

    #[inline]
    pub fn reservation(
        &self,
        shape: Shape,
        place: Place,
        item: &NewItem<'_>,
        ghost: Option<usize>,
    ) -> Reservation {
        let units = self.partition.header(place.position).units();
        let header = shape.header_in(units).unwrap_or(Header::filler(units));
        let header = if item.cas.is_some() || item.gives_cas && !self.partition.is_store() {
            header.with_cas_given()
        } else {
            header
        };
        Reservation {
            place,
            header: header
                .with_frequency(item.frequency)
                .with_fetched(item.fetched),
            ghost,
            has_cas: item.cas.is_some(),
        }
    }

    /// No spare bucket is free. What has expired or was invalidated leaves the chain of a key, so that
    /// another item finds an entry there.
    #[cold]
    fn sweep_short_of_spares(&self, hash: IndexHash) {
        if self.partition.get(Field::Expiring) == 0 {
            return;
        }
        let main = self.partition.bucket(hash);
        self.sweep_chain(main);
        if self.is_full(main) {
            self.sweep_for_room();
        }
    }

    /// Space of a store's heap, if need be after a look for what has expired, or a compaction.
    fn reserve_in_heap(&self, units: u64) -> Result<Place, Refusal> {
        let p = self.partition;
        let position = p.heap().allocate(units as usize).or_else(|| {
            let found = self.sweep_for_room();
            found.then(|| p.heap().allocate(units as usize))?
        });
        let position = position.or_else(|| {
            let made = self.compact_for_item(units);
            made.then(|| p.heap().allocate(units as usize))?
        });
        let position = position.ok_or(Refusal::Full)?;
        let header = p.header(position);
        self.set_header(position, header.with_busy());
        Ok(Place {
            log: LogKind::Small,
            offset: position as u64,
            position,
        })
    }

    /// Gives up space that was taken, without having published it.
    #[cold]
    pub fn release(&self, reserved: &Reservation) {
        let p = self.partition;
        if p.is_store() {
            p.heap().free(reserved.place.position);
        } else {
            let units = reserved.header.units();
            self.set_header(reserved.place.position, Header::filler(units));
        }
    }

    /// Completes an item that has been written and points the index to it.
    #[inline]
    pub fn publish(
        &self,
        hash: IndexHash,
        reserved: &Reservation,
        expiry: Expiry,
        replaced: Option<&Found>,
    ) -> Result<(), Refusal> {
        self.publish_entry(hash, reserved, replaced)?;
        self.note_expiry(expiry);
        if self.partition.is_store() {
            self.compact_if_sparse(reserved.header.units());
        } else {
            self.scan_as_the_tail_advances();
        }
        self.grow_if_full();
        Ok(())
    }

    /// Completes an item and points the index to it by one store, which is the moment at which it
    /// replaces the one before, for readers and for whoever finds the image after a kill.
    #[inline]
    pub fn publish_entry(
        &self,
        hash: IndexHash,
        reserved: &Reservation,
        replaced: Option<&Found>,
    ) -> Result<(), Refusal> {
        let p = self.partition;
        let place = &reserved.place;
        let header = reserved.header.with_heap_bits_of(p.header(place.position));
        if p.is_store() && !reserved.has_cas {
            let stamp = p.get(Field::Stamp) + 1;
            p.set(Field::Stamp, stamp);
            let word = place.position + header.key_word() - 1;
            p.word(word).store(stamp, Relaxed);
        }
        self.set_header(place.position, header);
        if replaced.is_none() && reserved.ghost.is_none() {
            self.grow_if_short_of_spares(p.bucket(hash));
        }
        let bucket = p.bucket(hash);
        let entry = self.entry_of(hash, place);
        let published = bucket.write(|| {
            let slot = match replaced {
                Some(found) => Some(found.slot),
                None => self.slot_for(bucket, hash.tag(), reserved.ghost),
            };
            let Some(slot) = slot else {
                return false;
            };
            p.word(slot).store(entry.0, Release);
            if let Some(found) = replaced {
                self.retire(&found.place, false);
            }
            true
        });
        if !published {
            p.add(Field::OutOfMemory, 1);
            self.release(reserved);
            return Err(Refusal::Full);
        }
        p.add(Field::ItemsLive, 1);
        p.add(Field::UnitsLive, header.units());
        Ok(())
    }

    /// Appends an item that a client wrote (not one that only moves).
    #[inline(never)]
    pub fn insert_counted(
        &self,
        hash: IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Outcome {
        self.stored(self.insert(hash, item, replaced).map(drop))
    }

    /// Writes an item of a client in the place of another, after a look for other space in vain.
    #[cold]
    pub fn replace_counted(
        &self,
        hash: IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Outcome {
        self.stored(self.replace_in_full_store(hash, item, replaced).map(drop))
    }

    /// Publishes an item that a client wrote.
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
        self.partition.add(Field::ItemsAppended, 1);
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

    /// Writes a whole new value for a key, in the space of the item that was found, or anew.
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
        let item = NewItem {
            frequency,
            state: self.fresh_state(found),
            ..NewItem::of(request.key, value, meta)
        };
        self.insert_counted(request.hash, &item, found)
    }

    /// Appends a copy of an item that differs in its expiry at most; its CAS value stays.
    pub fn relocate(
        &self,
        hash: IndexHash,
        key: &[u8],
        found: &Found,
        expiry: Expiry,
    ) -> Result<(), Refusal> {
        let item = NewItem {
            expiry,
            ..self.copy_of(key, found)
        };
        self.insert(hash, &item, Some(found)).map(drop)
    }

    /// A copy of an item, to be written elsewhere.
    pub fn copy_of<'b>(&self, key: &'b [u8], found: &Found) -> NewItem<'b> {
        NewItem {
            key,
            flags: found.flags,
            expiry: found.expiry,
            state: self.state_to_keep(found),
            cas: self.cas_to_keep(found),
            gives_cas: found.header.cas_given(),
            fetched: found.header.is_fetched(),
            frequency: found.header.frequency(),
            log: None,
            value: [Part::Old, Part::NONE],
        }
    }
}

impl Partition {
    /// Writes the bytes of an item into the space that was taken for it; all but its header,
    /// which says that it is busy until it is published. `old` is where the value lies that is
    /// replaced, in bytes, and its length. Needs no lock.
    #[inline]
    pub fn write_item(
        &self,
        reserved: &Reservation,
        item: &NewItem<'_>,
        old: Option<(usize, usize)>,
    ) {
        let (region, header) = (&self.region, reserved.header);
        let mut word = reserved.place.position + 1;
        if header.has_meta() {
            let meta = pack_meta(item.expiry.0, item.flags);
            region.word(word).store(meta, Relaxed);
            word += 1;
        }
        if let Some(state) = item.state {
            self.set_state(word, state);
            word += state.pack().len();
        }
        if header.has_cas() {
            region.word(word).store(item.cas.unwrap_or(0), Relaxed);
            word += 1;
        }
        region.copy_in(word * 8, item.key);
        let mut at = word * 8 + item.key.len();
        for part in item.value {
            match (part, old) {
                (Part::Bytes(bytes), _) => {
                    region.copy_in(at, bytes);
                    at += bytes.len();
                }
                (Part::Old, Some((first_byte, bytes))) => {
                    region.copy_within(first_byte, at, bytes);
                    copy_budget::spend(bytes);
                    at += bytes;
                }
                (Part::Old, None) => {}
            }
        }
    }
}
