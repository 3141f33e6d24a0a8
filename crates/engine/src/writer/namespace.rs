//! Invalidation of a namespace by the writer.

use micanite_memory::sync::{Ordering, fence};

use crate::log::LogKind;
use crate::partition::Partition;
use crate::partition::namespace::{IN_CHANGE, TooManyNamespaces};
use crate::region::{Field, LogField};
use crate::writer::{Found, Writer};

impl Writer<'_> {
    /// Returns whether an item was invalidated after it was written.
    #[inline]
    pub fn is_invalid(&self, found: &Found) -> bool {
        let p = self.partition;
        if p.get(Field::Namespaces) == 0 {
            return p.is_flushed_from_store(found.place.position, found.header);
        }
        let mut buffer = [0; crate::limits::KEY_BYTES_MAX];
        let key = p.key_at(found.place.position, &mut buffer);
        p.is_invalid(key, &found.place, found.header)
    }

    /// Invalidates all items that exist under keys that begin with `name` and the delimiter.
    pub fn invalidate_namespace(&self, name: &[u8]) -> Result<(), TooManyNamespaces> {
        let p = self.partition;
        let hash = p.name_hash(name);
        let record = Partition::probe(hash)
            .find(|record| p.record_word(*record, 0).load(Ordering::Relaxed) == hash)
            .or_else(|| Partition::probe(hash).find(|record| p.is_free_record(*record)))
            .ok_or(TooManyNamespaces)?;
        self.void_chunks();
        let set = |word, value| p.record_word(record, word).store(value, Ordering::Release);
        if p.record_word(record, 0).load(Ordering::Relaxed) != hash {
            set(0, IN_CHANGE);
            fence(Ordering::Release);
        }
        if p.is_store() {
            set(1, p.get(Field::Stamp));
        } else {
            set(1, p.log(LogKind::Small).get(LogField::Tail));
            set(2, p.log(LogKind::Main).get(LogField::Tail));
        }
        set(3, p.get(Field::SweepRounds));
        set(0, hash);
        p.set(Field::Namespaces, 1);
        p.expect_sweep_work();
        Ok(())
    }
}
