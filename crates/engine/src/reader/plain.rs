//! The usual optimistic get: of an item without extensions, where prefetching saw it.

use micanite_memory::sync::{Ordering, fence};

use crate::index::entry::Entry;
use crate::limits::{BUCKET_ENTRIES, ITEM_UNITS_MORE};
use crate::operations::request::{Outcome, ReplySink, ValueMeta};
use crate::partition::{Hint, Partition};
use crate::reader::Read;
use crate::region::Field;

impl Partition {
    /// Reads the item of a hint like [`Self::read_hinted`], without its CAS value, if nothing about it is
    /// unusual. Otherwise returns `None`, and nothing has happened.
    #[inline(always)]
    pub fn read_plain<S: ReplySink>(
        &self,
        (index, key): (usize, &[u8]),
        hint: &Hint<'_>,
        sink: &mut S,
    ) -> Option<Read> {
        let entry = Entry(hint.entry);
        let slot = hint.slot.wrapping_sub(hint.bucket);
        // An entry of a spare bucket may belong to another chain by now.
        if hint.entry == 0 || entry.is_dirty() || slot > BUCKET_ENTRIES || self.moves_on_get {
            return None;
        }
        let head = self.region.head();
        let bucket = self.region.array::<{ 1 + BUCKET_ENTRIES }>(hint.bucket);
        let version = bucket[0].load(Ordering::Acquire);
        // A split changes the number of buckets before it moves entries out of this one.
        let is_there = version & 1 == 0
            && head[Field::Buckets as usize].load(Ordering::Relaxed) == hint.buckets
            && bucket[slot].load(Ordering::Relaxed) == hint.entry
            && head[Field::Namespaces as usize].load(Ordering::Relaxed) == 0;
        if !is_there {
            return None;
        }
        // The tails are loaded after the entry: they are at least as new.
        fence(Ordering::Acquire);
        let place = self.place(entry)?;
        let position = place.position;
        if !self.is_present(position, 1) {
            return None;
        }
        let header = self.header(position);
        let value_bytes = header.plain_value_bytes(key.len(), self.is_store())?;
        let units = header.units();
        let key_word = position + 1 + usize::from(self.is_store());
        if units > self.layout.item_units_max + ITEM_UNITS_MORE
            || !self.is_present(position, units as usize)
            || !self.region.equals(key_word, key)
            || self.is_flushed_from_store(position, header)
        {
            return None;
        }
        let meta = ValueMeta { flags: 0, cas: 0, value_bytes };
        let Some(target) = sink.reserve(index, meta) else {
            return Some(Read::NoRoom);
        };
        self.region.copy_out(key_word * 8 + key.len(), &mut target[..value_bytes]);
        // The fence orders the copy before the loads of the version and the head.
        fence(Ordering::Acquire);
        if bucket[0].load(Ordering::Relaxed) == version && self.is_live(&place) {
            sink.finish(index, Outcome::Hit);
            let count = !header.is_counted(self.layout.policy.frequency_max);
            return Some(Read::Done { count });
        }
        sink.rollback(index);
        self.read_retries.fetch_add(1, Ordering::Relaxed);
        None
    }
}
