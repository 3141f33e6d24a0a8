//! Publishes a written item: points the index to it.

use micanite_memory::sync::Ordering::{Relaxed, Release};

use crate::index::hash::IndexHash;
use crate::log::item::Expiry;
use crate::region::Field;
use crate::writer::{Found, Refusal, Reservation, Writer};

impl Writer<'_> {
    /// Publishes a written item. Then records its expiry, and does the upkeep that comes with
    /// insertions.
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

    /// Completes an item and points the index to it by one store. At this store it replaces the
    /// previous item, for readers and for a process that recovers the image after a kill.
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
        debug_assert!(!reserved.is_new || self.is_absent(hash), "a chain got an entry with the tag");
        let bucket = p.bucket(hash);
        let entry = self.entry_of(hash, place);
        let published = bucket.write(|| {
            let slot = match replaced {
                Some(found) => Some(found.slot),
                // Items move meanwhile, but a chain of a cache gets no other's entries.
                None if reserved.is_new => self.free_slot(bucket),
                None => self.slot_for(bucket, hash.tag(), reserved.ghost),
            };
            let Some(slot) = slot else {
                return false;
            };
            if !reserved.moves {
                self.kill_chunk(place.position);
            }
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
}
