//! Overwriting in a full store whose memory outlives the process.
//!
//! A new value is written beside the old one and then published, so that a kill at any moment
//! leaves one or the other. Where the heap has no space for it, it is written and published in the
//! reserve; then the space of the old item is free, and the new item moves there.

use micanite_memory::sync::Ordering::Relaxed;

use crate::index::hash::IndexHash;
use crate::limits::KEY_BYTES_MAX;
use crate::log::LogKind;
use crate::log::item::Header;
use crate::partition::Place;
use crate::region::Field;
use crate::writer::{Found, NewItem, Refusal, Reservation, Writer};

impl Writer<'_> {
    /// Replaces an item by one that needs no more space, when there is no other space. Refuses an
    /// item that is longer than the old one or than the reserve, and any item in other kinds of
    /// partitions.
    #[cold]
    pub fn replace_in_full_store(
        &self,
        hash: IndexHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Result<Reservation, Refusal> {
        let p = self.partition;
        // The search for space may have moved the item, or its entry.
        let found = replaced.and_then(|_| self.lookup(hash, item.key));
        let kept = p.layout.is_kept_store();
        let Some(found) = found.filter(|found| kept && !p.is_in_reserve(found.place.position)) else {
            return Err(self.out_of_memory());
        };
        let shape = self.shape_of(item, Some(&found));
        let units = shape.units();
        let is_taken = p.reserve_is_taken.load(Relaxed) != 0;
        if is_taken || units > found.header.units() || units > p.layout.reserve_units {
            return Err(self.out_of_memory());
        }
        let position = p.layout.data_first();
        self.set_header(position, Header::reserved(units));
        let place = Place { log: LogKind::Small, offset: position as u64, position };
        let waiting = self.reservation(shape, place, item, None);
        let old = (found.value_at(), found.value_bytes());
        waiting.write_item(p, item, Some(old));
        self.publish_entry(hash, &waiting, Some(&found))?;
        p.reserve_is_taken.store(1, Relaxed);
        // The space of the old item takes the new one, unless the heap is damaged.
        let moved = self.leave_reserve(hash, &self.found_at(found.slot, place));
        debug_assert!(moved.is_ok() && p.reserve_is_taken.load(Relaxed) == 0, "{moved:?}");
        moved.map_err(|_| self.out_of_memory())
    }

    /// Moves the item in the reserve to the heap.
    pub fn leave_reserve(&self, hash: IndexHash, found: &Found) -> Result<Reservation, Refusal> {
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.partition.key_at(found.place.position, &mut key);
        let item = NewItem { moves: true, ..self.copy_of(key, found) };
        self.insert(hash, &item, Some(found))
    }

    /// Counts a refusal for lack of memory.
    fn out_of_memory(&self) -> Refusal {
        if self.partition.is_store() {
            self.partition.add(Field::OutOfMemory, 1);
        }
        Refusal::Full
    }
}
