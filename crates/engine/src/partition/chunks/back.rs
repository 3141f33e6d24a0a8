//! Write-back: values that only a chunk has. Their entries in the index carry a mark, *dirty*.
//!
//! The item of a dirty entry has the key, the expiry, the flags, the stamp and the space for the value in
//! the chunk, and an old value, which nobody may see. So a copy back writes into the item, and moves nothing.

use micanite_chunks::layout::HEADER_BYTES;
use micanite_chunks::{Area, Chunk, CopyBack, Entry, Item};
use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;
use micanite_wire::hash::KeyHash;

use crate::index::entry;
use crate::index::hash::IndexHash;
use crate::limits::{CHUNKS_CLEANED_MAX, KEY_BYTES_MAX};
use crate::log::item::{Expiry, Shape};
use crate::operations::request::{Condition, HashedRequest, Outcome, ReplySink, ValueMeta};
use crate::partition::chunks::{Held, OfWriter};
use crate::region::{Field, copy_budget};
use crate::writer::{Found, Writer};

/// Bytes of a value that are copied at once.
const COPIED_BYTES: usize = 4096;
/// Bytes of values that [`Writer::clean_chunks`] copies while it keeps others out, and one value more.
const BYTES_CLEANED_MAX: isize = 1 << 20;

impl Writer<'_> {
    /// Returns whether only a chunk has the newest value of an item.
    #[inline(always)]
    pub fn is_dirty(&self, found: &Found) -> bool {
        self.entry_at(found.slot).is_dirty()
    }

    #[inline(always)]
    fn entry_at(&self, slot: usize) -> entry::Entry {
        entry::Entry(self.partition.word(slot).load(Relaxed))
    }

    /// Returns an item whose value is in the data memory: copies it back if need be. `None`: nobody has it,
    /// and the item was removed.
    #[inline(always)]
    pub fn cleaned(&self, hash: IndexHash, found: Found) -> Option<Found> {
        if self.is_dirty(&found) { self.clean_found(hash, &found) } else { Some(found) }
    }

    /// Copies the value of a dirty item back. `None`: nobody has it, and the item was removed.
    #[cold]
    #[inline(never)]
    pub fn clean_found(&self, hash: IndexHash, found: &Found) -> Option<Found> {
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.partition.key_at(found.place.position, &mut key);
        let key_hash = KeyHash::of(key, self.partition.layout.seed);
        let fate = self.partition.chunks.get().and_then(|chunks| {
            chunks.with(self, |held, host| {
                let chunk = held.table.find(key_hash, key)?;
                Some(held.table.clean(&chunk, host))
            })
        });
        match fate {
            Some(CopyBack::Kept) => return Some(self.found_at(found.slot, found.place)),
            Some(CopyBack::Dropped) => {} // removed already
            None => self.remove_without_chunk(hash, found),
        }
        None
    }

    /// Returns the item at the head of a log, ready to move: its value is in the data memory. `None`: it was
    /// removed.
    #[inline(always)]
    pub fn cleaned_at_head(&self, found: Found) -> Option<Found> {
        if self.partition.chunks.get().is_none() {
            return Some(found);
        }
        let hash = self.partition.hash_at(found.place.position);
        match self.slot_of(hash, self.entry_of(hash, &found.place)) {
            Some(slot) => self.cleaned(hash, Found { slot, ..found }),
            None => Some(found),
        }
    }

    /// Replies with the value of a dirty item, from its chunk. Returns whether the sink had room.
    #[cold]
    pub fn reply_from_chunk<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        found: &Found,
        sink: &mut S,
    ) -> bool {
        let key_hash = KeyHash::of(request.key, self.partition.layout.seed);
        let had_room = self.partition.chunks.get().and_then(|chunks| {
            chunks.with(self, |held, _| {
                let chunk = held.table.find(key_hash, request.key)?;
                held.table.touch(chunk.entry.offset, chunk.entry.version);
                let value_bytes = value_bytes_of(&chunk, request.key.len())?;
                let meta = ValueMeta { flags: found.flags, cas: 0, value_bytes };
                let Some(target) = sink.reserve(index, meta) else {
                    return Some(false);
                };
                chunks
                    .area
                    .copy_out(chunk.entry, request.key.len(), &mut target[..value_bytes])
                    .then_some(true)
            })
        });
        match had_room {
            Some(true) => {
                self.note_found(request.hash, request.key, found);
                sink.finish(index, Outcome::Hit);
            }
            Some(false) => return false,
            None => {
                self.remove_without_chunk(request.hash, found);
                sink.finish(index, Outcome::NotFound);
            }
        }
        true
    }

    /// Stores a value in a chunk only, if the item has one, and space for the value. Returns the entry of the
    /// chunk; `None`: the store has to go through, and nothing has changed.
    pub fn store_back(
        &self,
        request: &HashedRequest<'_>,
        condition: Condition,
        value: &[u8],
        meta: (u32, Expiry),
    ) -> Option<Entry> {
        let chunks = self.partition.chunks.get().filter(|chunks| chunks.is_back())?;
        if !matches!(condition, Condition::Always | Condition::Present) {
            return None;
        }
        let found = self.find_any(request.hash, request.key)?;
        if !self.has_space_to_copy_back(&found, value.len(), meta) {
            return None;
        }
        let (flags, expiry_s) = (meta.0, meta.1.0);
        let hash = KeyHash::of(request.key, self.partition.layout.seed);
        let item = Item { hash, key: request.key, value, flags, expiry_s };
        chunks.with(self, |held, host| {
            held.table.find(hash, request.key)?;
            let mut taken = held.table.take(request.key.len(), value.len(), host)?;
            let filled = taken.fill(&chunks.area, &item);
            // The search for a chunk may have copied the item back, or removed another one of its chain.
            let found = self.lookup(request.hash, request.key);
            let found = found.filter(|found| self.has_space_to_copy_back(found, value.len(), meta));
            let Some(found) = found.filter(|_| filled && held.table.may_publish(&taken, request.key)) else {
                held.table.give_back(taken);
                return None;
            };
            self.mark_dirty(held, host, request, (&found, &item));
            let entry = held.table.publish(taken, host);
            if let Some(chunk) = held.table.find(hash, request.key).filter(|_| entry.is_some()) {
                held.table.set_dirty(&chunk, true);
                self.note_expiry(meta.1);
                self.partition.add(Field::ItemsOverwritten, 1);
                return entry;
            }
            // The table had said that it would publish the chunk.
            self.remove_without_chunk(request.hash, &found);
            None
        })
    }

    /// Returns whether a value fits into the space of an item, and the item may be overwritten in place.
    fn has_space_to_copy_back(
        &self,
        found: &Found,
        value_bytes: usize,
        (flags, expiry): (u32, Expiry),
    ) -> bool {
        let old = found.header;
        let meta = flags != 0 || expiry != Expiry::NEVER;
        let fixed = old.cas_given() || old.has_state() || meta && !old.has_meta();
        let shape = Shape { value_bytes, ..found.shape(old.has_cas()) };
        !self.partition.layout.is_kept_store()
            && !fixed
            && !self.is_due_to_move(found)
            && shape.header_in(old.units()).is_some()
    }

    /// Marks an item as dirty, gives it expiry, flags and stamp of the new value, and kills the chunk of
    /// the old one.
    fn mark_dirty(
        &self,
        held: &mut Held,
        host: &mut OfWriter<'_, '_>,
        request: &HashedRequest<'_>,
        (found, item): (&Found, &Item<'_>),
    ) {
        let p = self.partition;
        let position = found.place.position;
        p.bucket(request.hash).write(|| {
            // The mark comes first, for a process that recovers the image after a kill.
            let dirty = self.entry_at(found.slot).with_dirty(true);
            p.word(found.slot).store(dirty.0, Release);
            fence(Release);
            let header = p.header(position);
            if header.has_meta() {
                p.set_meta(position + 1, (item.flags, Expiry(item.expiry_s)));
            }
            if p.is_store() {
                let stamp = p.get(Field::Stamp) + 1;
                p.set(Field::Stamp, stamp);
                p.word(position + header.key_word() - 1).store(stamp, Relaxed);
            }
            let header = header.with_frequency(self.frequency_after(header.frequency()));
            self.set_header(position, header.with_fetched(false));
            if let Some(chunk) = held.table.find(item.hash, item.key) {
                held.table.kill(&chunk, host);
            }
        });
    }

    /// Takes the value of a dirty chunk into the data memory. Uses no table.
    pub(super) fn copy_back(&self, area: &Area, chunk: &Chunk) -> CopyBack {
        let p = self.partition;
        let mut key = [0; KEY_BYTES_MAX];
        let key_bytes = area.header(chunk.entry).map_or(0, |header| header.key_bytes as usize);
        let key = &mut key[..key_bytes.min(KEY_BYTES_MAX)];
        let hash = p.index_hash(chunk.hash);
        let known = area.copy_out(chunk.entry, 0, key).then(|| self.lookup(hash, key)).flatten();
        let Some(found) = known.filter(|found| self.is_dirty(found)) else {
            return CopyBack::Dropped;
        };
        let has_expired = found.expiry.has_passed(self.now_s);
        let has_ended = has_expired || p.is_invalid(key, &found.place, found.header);
        if has_ended || !self.write_value_back(area, chunk, hash, &found) {
            self.remove_without_chunk(hash, &found);
            p.add(Field::Expired, u64::from(has_expired));
            p.add(Field::ExpiredUnfetched, u64::from(has_expired && !found.header.is_fetched()));
            return CopyBack::Dropped;
        }
        CopyBack::Kept
    }

    fn write_value_back(&self, area: &Area, chunk: &Chunk, hash: IndexHash, found: &Found) -> bool {
        let p = self.partition;
        let (old, position) = (found.header, found.place.position);
        let key_bytes = old.key_bytes();
        let Some(value_bytes) = value_bytes_of(chunk, key_bytes) else {
            return false;
        };
        let shape = Shape { value_bytes, ..found.shape(old.has_cas()) };
        let Some(header) = shape.header_in(old.units()) else {
            return false;
        };
        let header = header
            .with_frequency(old.frequency())
            .with_fetched(old.is_fetched())
            .with_heap_bits_of(p.header(position));
        p.bucket(hash).write(|| {
            // Busy until the value is whole, for a process that recovers the image after a kill.
            self.set_header(position, header.with_busy());
            fence(Release);
            let mut bytes = [0; COPIED_BYTES];
            for from in (0..value_bytes).step_by(COPIED_BYTES) {
                let part = &mut bytes[..COPIED_BYTES.min(value_bytes - from)];
                area.copy_out(chunk.entry, key_bytes + from, part);
                p.region.copy_in(found.value_at() + from, part);
            }
            self.set_header(position, header);
            fence(Release);
            let clean = self.entry_at(found.slot).with_dirty(false);
            p.word(found.slot).store(clean.0, Release);
        });
        copy_budget::spend(value_bytes);
        true
    }

    /// Removes an item that has no chunk, or whose chunk the caller kills.
    fn remove_without_chunk(&self, hash: IndexHash, found: &Found) {
        let bucket = self.partition.bucket(hash);
        bucket.write(|| {
            self.clear_slot(bucket, found.slot);
            self.retire(&found.place, true);
        });
    }

    /// Copies dirty chunks back, a bounded number and bytes of them. Returns whether any is left.
    pub fn clean_chunks(&self) -> bool {
        let Some(chunks) = self.partition.chunks.get() else {
            return false;
        };
        let outer = copy_budget::replace(BYTES_CLEANED_MAX);
        let is_left = chunks.with(self, |held, host| {
            let mut more = |_| held.table.copy_back_next(host) && !copy_budget::is_spent();
            let _ = (0..CHUNKS_CLEANED_MAX).all(&mut more);
            held.table.dirty() != 0
        });
        copy_budget::replace(outer);
        is_left
    }
}

/// Returns the length of the value in a chunk.
fn value_bytes_of(chunk: &Chunk, key_bytes: usize) -> Option<usize> {
    (chunk.entry.bytes as usize).checked_sub(HEADER_BYTES + key_bytes)
}
