//! Lookup of the item of a key.

use crate::index::hash::IndexHash;
use micanite_memory::sync::Ordering::Relaxed;

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::visits;
use crate::log::LogKind;
use crate::log::item::{Expiry, Header, unpack_meta};
use crate::partition::{Hint, Place};
#[cfg(not(any(loom, miri)))]
use crate::region::short;
use crate::region::{Field, LogField};
use crate::writer::{Found, Writer};

/// An item that a hint led to.
pub(crate) struct FactItem {
    pub header: Header,
    pub flags: u32,
}

/// An item that a hint led to, without extensions. It lies in the region.
pub(crate) struct PlainItem {
    pub header: Header,
    /// Byte of the region at which the value begins.
    pub value_at: usize,
    pub value_bytes: usize,
}

impl Writer<'_> {
    /// Returns the item of a key, with its value in the data memory. Removes one that has expired or
    /// was invalidated, and returns `None`.
    #[inline]
    pub fn find(&self, hash: IndexHash, key: &[u8]) -> Option<Found> {
        let found = self.find_any(hash, key);
        if let Some(dirty) = found.as_ref().filter(|found| self.is_dirty(found)) {
            return self.clean_found(hash, dirty);
        }
        found
    }

    /// Returns the item of a key like [`Self::find`], but its newest value may be in its chunk only.
    #[inline]
    pub fn find_any(&self, hash: IndexHash, key: &[u8]) -> Option<Found> {
        let found = self.lookup(hash, key)?;
        if found.expiry.has_passed(self.now_s) {
            self.expire(hash, &found);
            return None;
        }
        if self.partition.is_invalid(key, &found.place, found.header) {
            self.remove(hash, &found);
            return None;
        }
        Some(found)
    }

    /// Returns the item of a hint that is a fact ([`Hint::is_fact`]), if it is the key's, whole, and has no
    /// extension but the CAS value that a store gives every item: most are like that.
    #[inline(always)]
    pub fn plain_item(&self, hint: &Hint<'_>, key: &[u8]) -> Option<PlainItem> {
        let (p, position) = (self.partition, hint.position);
        let header = p.header(position);
        let value_bytes = header.plain_value_bytes(key.len(), p.is_store())?;
        let in_region = position + header.units() as usize <= p.region.words();
        if !p.has_room(position, header) || !in_region {
            return None;
        }
        let key_at = (position + 1 + usize::from(p.is_store())) * 8;
        #[expect(unsafe_code, reason = "the item was checked as a whole")]
        // SAFETY: header, CAS value, key and value fit the space of the item, as their lengths say, and the
        // space ends in the region (checked above).
        let is_key = unsafe { self.is_key(key_at, key) };
        if !is_key || p.is_flushed_from_store(position, header) {
            return None;
        }
        Some(PlainItem { header, value_at: key_at + key.len(), value_bytes })
    }

    /// Returns whether the bytes at a byte of the region are a key.
    ///
    /// # Safety
    /// They lie in the region.
    #[expect(unsafe_code, reason = "the owner reads plain bytes")]
    #[inline(always)]
    unsafe fn is_key(&self, first_byte: usize, key: &[u8]) -> bool {
        #[cfg(not(any(loom, miri)))]
        {
            // SAFETY: the contract of this function; only the writer writes, and this writer does not while
            // the slice lives.
            let stored = unsafe { self.partition.region.plain_bytes_within(first_byte, key.len()) };
            short::is_same(stored, key)
        }
        #[cfg(any(loom, miri))]
        self.partition.region.equals(first_byte / 8, key)
    }

    /// Copies the value of an item.
    #[inline(always)]
    pub fn copy_plain(&self, item: &PlainItem, target: &mut [u8]) {
        let target = &mut target[..item.value_bytes];
        #[cfg(not(any(loom, miri)))]
        {
            #[expect(unsafe_code, reason = "the owner reads plain bytes")]
            // SAFETY: the item lies in the region; only the writer writes, and this writer does not while the
            // slice lives.
            let value = unsafe { self.partition.region.plain_bytes_within(item.value_at, item.value_bytes) };
            short::copy(value, target);
        }
        #[cfg(any(loom, miri))]
        self.partition.region.copy_out(item.value_at, target);
    }

    /// Returns the item of a hint that is a fact ([`Hint::is_fact`]), if it is the key's, whole, without
    /// state, and has not expired.
    #[inline(always)]
    pub fn item_of_fact(&self, hint: &Hint<'_>, key: &[u8]) -> Option<FactItem> {
        let (p, position) = (self.partition, hint.position);
        if hint.entry == 0 {
            return None;
        }
        let header = p.header(position);
        if !header.is_stateless(key.len()) || !p.has_room(position, header) {
            return None;
        }
        header.value_bytes()?;
        if !p.region.equals(position + header.key_word(), key) {
            return None;
        }
        if p.is_flushed_from_store(position, header) {
            return None;
        }
        let meta = if header.has_meta() { p.word(position + 1).load(Relaxed) } else { 0 };
        let (expiry_s, flags) = unpack_meta(meta);
        (!Expiry(expiry_s).has_passed(self.now_s)).then_some(FactItem { header, flags })
    }

    /// Returns the item of a key whose entry was seen a moment ago, if it is still there, is the
    /// key's and needs no closer look. The hint is of this batch, and since the batch began only
    /// the owner, or holders of the lock, have written.
    #[inline(always)]
    pub fn find_hinted(&self, hint: &Hint<'_>, key: &[u8]) -> Option<Found> {
        let p = self.partition;
        let entry = Entry(hint.entry);
        if hint.entry == 0 {
            return None;
        }
        let is_fact = hint.is_fact();
        if p.word(hint.slot).load(Relaxed) != hint.entry {
            return None;
        }
        let place = if is_fact {
            let log = LogKind::of(entry.log());
            let offset = match p.is_store() {
                true => hint.position as u64,
                false => p.log(log).offset(entry)?,
            };
            Place { log, offset, position: hint.position }
        } else {
            if entry.is_dirty() {
                return None;
            }
            p.place(entry)?
        };
        let header = p.header(place.position);
        let same = header.key_bytes() == key.len()
            && !header.is_busy()
            && p.holds(place.position, header)
            && p.region.equals(place.position + header.key_word(), key);
        if !same
            || !is_fact && p.get(Field::Namespaces) != 0
            || p.is_flushed_from_store(place.position, header)
        {
            return None;
        }
        let found = self.found_of(hint.slot, place, header);
        (!found.expiry.has_passed(self.now_s)).then_some(found)
    }

    /// Returns the item of a key, whatever its expiry.
    #[inline]
    pub fn lookup(&self, hash: IndexHash, key: &[u8]) -> Option<Found> {
        let mut buckets = self.partition.chain(self.partition.bucket(hash));
        buckets.find_map(|bucket| self.find_in(bucket, hash, key))
    }

    #[inline]
    fn find_in(&self, bucket: Bucket<'_>, hash: IndexHash, key: &[u8]) -> Option<Found> {
        let p = self.partition;
        visits::count_bucket();
        let mut matches = bucket.matches(hash.tag());
        while matches != 0 {
            let slot = matches.trailing_zeros() as usize;
            matches &= matches - 1;
            let Some(place) = p.place(bucket.entry(slot)) else {
                continue;
            };
            visits::count_key();
            let header = p.header(place.position);
            if header.key_bytes() == key.len()
                && !header.is_busy()
                && p.holds(place.position, header)
                && p.region.equals(place.position + header.key_word(), key)
            {
                return Some(self.found_of(bucket.slot_word(slot), place, header));
            }
        }
        None
    }

    /// Returns the entry of a key's ghost: of an item of this tag that left the small log lately.
    #[inline]
    pub fn ghost(&self, hash: IndexHash) -> Option<usize> {
        let p = self.partition;
        if p.layout.policy.ghost_percent == 0 {
            return None;
        }
        for bucket in p.chain(p.bucket(hash)) {
            let mut matches = bucket.matches(hash.tag());
            while matches != 0 {
                let slot = matches.trailing_zeros() as usize;
                matches &= matches - 1;
                if self.ghost_age(bucket.entry(slot)).is_some() {
                    return Some(bucket.slot_word(slot));
                }
            }
        }
        None
    }

    /// Returns the distance of a ghost behind the tail of the small log; `None` if the entry is no
    /// ghost.
    #[inline]
    pub fn ghost_age(&self, entry: Entry) -> Option<u64> {
        let p = self.partition;
        if p.is_store() || LogKind::of(entry.log()) == LogKind::Main {
            return None;
        }
        let small = p.log(LogKind::Small);
        let offset = small.offset(entry)?;
        let age = small.distance(offset);
        let window = p.log(LogKind::Main).get(LogField::Limit) * p.layout.policy.ghost_percent / 100;
        let left = offset < small.get(LogField::Head);
        (left && age <= small.get(LogField::Limit) + window).then_some(age)
    }
}
