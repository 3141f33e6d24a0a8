//! Reserves space for an item, in a log or in the heap.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::hash::IndexHash;
use crate::log::LogKind;
use crate::log::item::{Header, Shape};
use crate::partition::Place;
use crate::region::Field;
use crate::writer::{Found, NewItem, Refusal, Writer};

/// Space reserved for an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    pub place: Place,
    pub header: Header,
    /// Entry of the key's ghost.
    pub(super) ghost: Option<usize>,
    /// True if the item has its CAS value already.
    pub(super) has_cas: bool,
    /// True if only the item's place changes.
    pub(super) moves: bool,
    /// True if no entry of the chain has the tag of the item.
    pub(super) is_new: bool,
}

impl Reservation {
    /// Forgets what is known of the chain, for use after other writes: entries may have moved.
    pub fn for_later(self) -> Self {
        Self { ghost: None, is_new: false, ..self }
    }
}

impl Writer<'_> {
    /// Reserves space for an item. In a cache it evicts, and moves, other items.
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
            (None, None) if !item.is_new => self.ghost(hash),
            _ => None,
        };
        let place = if p.is_store() {
            if replaced.is_none() && p.get(Field::SpareFree) == 0 {
                self.sweep_short_of_spares(hash);
            }
            let old_units = replaced.map_or(0, |found| found.header.units());
            self.reserve_in_heap(units, units.saturating_sub(old_units))?
        } else {
            let which = match (item.log, replaced) {
                (Some(which), _) => which,
                (None, Some(found)) if found.place.log == LogKind::Main => LogKind::Main,
                _ => self.log_for(units, ghost.is_some()),
            };
            let moves = p.get(Field::Moves);
            if p.limit.index_waits.load(Relaxed) != 0 {
                self.make_room_for_index();
            }
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
            header: header.with_frequency(item.frequency).with_fetched(item.fetched),
            ghost,
            has_cas: item.cas.is_some(),
            moves: item.moves,
            is_new: item.is_new,
        }
    }

    /// Removes expired and invalidated items from the chain of a key when no spare bucket is free,
    /// so that another item finds an entry there.
    #[cold]
    fn sweep_short_of_spares(&self, hash: IndexHash) {
        if self.partition.get(Field::Expiring) == 0 {
            return;
        }
        let main = self.partition.bucket(hash);
        self.sweep_chain(main);
        if self.is_full(main) {
            self.sweep_for_space();
        }
    }

    /// Returns whether a store whose space is about to shrink has no room for so many units more. Items that
    /// take no more than the old ones are always in place.
    #[inline]
    pub(super) fn is_over_limit(&self, more_units: u64) -> bool {
        let most = self.partition.limit.heap_units_max.load(Relaxed);
        if most == u64::MAX || more_units == 0 {
            return false;
        }
        let heap = self.partition.heap();
        (heap.units() - heap.units_free()) as u64 + more_units > most
    }

    /// Reserves space in a store's heap, if need be after a sweep for expired items, or a
    /// compaction. The store then takes so many units more, once the old item has gone.
    fn reserve_in_heap(&self, units: u64, more_units: u64) -> Result<Place, Refusal> {
        let p = self.partition;
        if self.is_over_limit(more_units) && (!self.sweep_for_space() || self.is_over_limit(more_units)) {
            return Err(Refusal::Full);
        }
        let position = p.heap().allocate(units as usize).or_else(|| {
            let found = self.sweep_for_space();
            found.then(|| p.heap().allocate(units as usize))?
        });
        let position = position.or_else(|| {
            let made = self.compact_for_item(units);
            made.then(|| p.heap().allocate(units as usize))?
        });
        let position = position.ok_or(Refusal::Full)?;
        let header = p.header(position);
        self.set_header(position, header.with_busy());
        Ok(Place { log: LogKind::Small, offset: position as u64, position })
    }

    /// Releases reserved space that was not published.
    #[cold]
    pub fn release(&self, reserved: &Reservation) {
        let p = self.partition;
        if p.is_store() {
            p.heap().free(reserved.place.position);
        } else {
            let units = reserved.header.units();
            self.set_header(reserved.place.position, Header::filler(units));
            // The tails have advanced, by what has moved as well.
            self.scan_as_the_tail_advances();
        }
    }
}
