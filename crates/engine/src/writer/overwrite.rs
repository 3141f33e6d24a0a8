//! Writes a value into the space of the previous one.

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;

use crate::index::bucket::Bucket;
use crate::index::hash::IndexHash;
use crate::limits::LONG_VALUE_BYTES;
use crate::log::item::{Expiry, Header, pack_meta};
use crate::partition::Hint;
use crate::region::{Field, copy_budget};
use crate::writer::{Found, Writer};

impl Writer<'_> {
    /// Writes a value into the space of a found item ([`Self::overwrite_at`]), if it is not due to move to
    /// the tail.
    #[inline]
    pub fn overwrite(&self, hash: IndexHash, found: &Found, value: &[u8], meta: (u32, Expiry)) -> bool {
        let bucket = self.partition.bucket(hash);
        !self.is_due_to_move(found)
            && self.overwrite_at(bucket, (found.place.position, found.header), value, meta)
    }

    /// Writes a value into the space of an item whose hint is a fact, like [`Self::overwrite_at`], if neither
    /// the item nor the value has flags, an expiry or anything else unusual.
    #[inline(always)]
    pub fn overwrite_plain(&self, key: &[u8], hint: &Hint<'_>, value: &[u8]) -> bool {
        let (p, position) = (self.partition, hint.position);
        if p.layout.is_kept_store() || p.chunks.get().is_some() {
            return false;
        }
        let Some(item) = self.plain_item(hint, key) else {
            return false;
        };
        let Some(header) = item.header.with_plain_value_bytes(item.value_bytes, value.len()) else {
            return false;
        };
        let header = header.with_frequency(self.frequency_after(item.header.frequency()));
        let bucket = Bucket::at(&p.region, hint.bucket);
        let change = bucket.begin();
        // Busy until the value is whole, for a process that recovers the image after a kill.
        self.set_header(position, header.with_busy());
        fence(Release);
        if p.is_store() {
            self.stamp(position, header);
        }
        p.region.copy_in(item.value_at, value);
        self.set_header(position, header);
        bucket.end(change);
        p.add(Field::ItemsOverwritten, 1);
        true
    }

    /// Gives an item of a store the next stamp.
    #[inline(always)]
    fn stamp(&self, position: usize, header: Header) {
        let p = self.partition;
        let stamp = p.get(Field::Stamp) + 1;
        p.set(Field::Stamp, stamp);
        p.word(position + header.key_word() - 1).store(stamp, Relaxed);
    }

    /// Writes a value into the space of an item, if it may stay there: it fits, no client knows its
    /// CAS value, it has no state, and its old value need not survive a kill. `bucket` is the main bucket
    /// of the key.
    #[inline(always)]
    pub fn overwrite_at(
        &self,
        bucket: Bucket<'_>,
        (position, old): (usize, Header),
        value: &[u8],
        (flags, expiry): (u32, Expiry),
    ) -> bool {
        let p = self.partition;
        let meta = flags != 0 || expiry != Expiry::NEVER;
        let long = self.shared && value.len() >= LONG_VALUE_BYTES;
        let fixed = old.cas_given() || old.has_state() || meta && !old.has_meta();
        if p.layout.is_kept_store() || fixed || long {
            return false;
        }
        let Some(header) = old.with_value_bytes(value.len()) else {
            return false;
        };
        let header = header.with_frequency(self.frequency_after(old.frequency()));
        self.kill_chunk(position);
        let change = bucket.begin();
        // Busy until the value is whole, for a process that recovers the image after a kill.
        self.set_header(position, header.with_busy());
        fence(Release);
        if header.has_meta() {
            p.word(position + 1).store(pack_meta(expiry.0, flags), Relaxed);
        }
        if p.is_store() {
            self.stamp(position, header);
        }
        p.region.copy_in((position + header.key_word()) * 8 + header.key_bytes(), value);
        self.set_header(position, header);
        bucket.end(change);
        self.note_expiry(expiry);
        p.add(Field::ItemsOverwritten, 1);
        true
    }

    #[inline]
    pub fn frequency_after(&self, frequency: u64) -> u64 {
        (frequency + 1).min(self.partition.layout.policy.frequency_max)
    }

    /// Returns whether a requested item is far enough from the tail to be moved there.
    #[inline]
    pub fn is_due_to_move(&self, found: &Found) -> bool {
        self.partition.is_due_to_move(&found.place)
    }

    /// Applies the policy to an item that a reader has served.
    #[cold]
    pub fn note_request(&self, hash: IndexHash, key: &[u8]) {
        if let Some(found) = self.find(hash, key) {
            self.note_found(hash, key, &found);
        }
    }

    /// Applies the policy to a requested item: counts the request, or moves the item.
    #[inline(always)]
    pub fn note_found(&self, hash: IndexHash, key: &[u8], found: &Found) {
        if self.is_due_to_move(found) {
            self.reinsert(hash, key);
        } else {
            self.count_request(found);
        }
    }

    /// Moves a requested item to the tail, if the policy wants it there.
    #[cold]
    pub fn reinsert(&self, hash: IndexHash, key: &[u8]) {
        if let Some(found) = self.find(hash, key)
            && self.is_due_to_move(&found)
            && copy_budget::allows(found.header.units() as usize * 8)
            && self.relocate(hash, key, &found, found.expiry).is_ok()
        {
            self.partition.add(Field::Reinserted, 1);
        }
    }
}
