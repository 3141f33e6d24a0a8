//! get, gets by the writer of the partition: nothing changes meanwhile, so it validates nothing.

use crate::log::item::Header;
use crate::operations::request::{HashedRequest, Outcome, ReplySink, ValueMeta};
use crate::partition::Hint;
#[cfg(not(any(loom, miri)))]
use crate::region::short;
use crate::writer::{FactItem, Found, Writer};

impl Writer<'_> {
    /// Gets an item whose hint is a fact ([`Hint::is_fact`]): the usual item of the usual owner. Returns
    /// whether the sink had room; `None` if something needs a closer look, and nothing has happened.
    #[inline(always)]
    pub fn get_hinted<S: ReplySink>(
        &self,
        (index, key): (usize, &[u8]),
        hint: &Hint<'_>,
        sink: &mut S,
    ) -> Option<bool> {
        self.keep_hints();
        if hint.entry == 0 {
            // It may have come in this batch.
            if !hint.is_still_absent() {
                return None;
            }
            sink.finish(index, Outcome::NotFound);
            return Some(true);
        }
        let Some(item) = self.plain_item(hint, key) else {
            return self.get_with_meta(index, key, hint, sink);
        };
        let meta = ValueMeta { flags: 0, cas: 0, value_bytes: item.value_bytes };
        let Some(target) = sink.reserve(index, meta) else {
            return Some(false);
        };
        self.copy_plain(&item, target);
        self.count_hinted(hint, item.header);
        sink.finish(index, Outcome::Hit);
        Some(true)
    }

    /// Gets an item whose hint is a fact, with flags or an expiry.
    #[inline(never)]
    fn get_with_meta<S: ReplySink>(
        &self,
        index: usize,
        key: &[u8],
        hint: &Hint<'_>,
        sink: &mut S,
    ) -> Option<bool> {
        let FactItem { header, flags } = self.item_of_fact(hint, key)?;
        let value_bytes = header.value_bytes()?;
        let Some(target) = sink.reserve(index, ValueMeta { flags, cas: 0, value_bytes }) else {
            return Some(false);
        };
        self.copy_value((hint.position + header.key_word()) * 8 + key.len(), &mut target[..value_bytes]);
        self.count_hinted(hint, header);
        sink.finish(index, Outcome::Hit);
        Some(true)
    }

    /// Counts a request for the item of a hint.
    #[inline(always)]
    pub fn count_hinted(&self, hint: &Hint<'_>, header: Header) {
        if !header.is_counted(self.partition.layout.policy.frequency_max) {
            let counted = header.with_frequency(self.frequency_after(header.frequency()));
            self.set_header(hint.position, counted.with_fetched(true));
        }
    }

    /// Gets an item where it was seen, if it is still there, and else where it is.
    #[inline]
    pub fn get_seen<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        hint: &Hint<'_>,
        sink: &mut S,
    ) -> bool {
        match self.find_hinted(hint, request.key) {
            Some(found) => {
                self.keep_hints_of_get();
                self.reply((index, request), &found, false, sink)
            }
            None => self.get((index, request), false, sink),
        }
    }

    /// Gets an item. Returns whether the sink had room for the value; if not, nothing has happened.
    #[inline(never)]
    pub fn get<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        cas: bool,
        sink: &mut S,
    ) -> bool {
        // A CAS value is that of the data memory's value.
        let found = match cas {
            true => self.find(request.hash, request.key),
            false => self.find_any(request.hash, request.key),
        };
        let Some(found) = found else {
            sink.finish(index, Outcome::NotFound);
            return true;
        };
        if self.is_dirty(&found) {
            return self.reply_from_chunk((index, request), &found, sink);
        }
        self.reply((index, request), &found, cas, sink)
    }

    #[inline(always)]
    fn reply<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        found: &Found,
        cas: bool,
        sink: &mut S,
    ) -> bool {
        let value_bytes = found.value_bytes();
        let cas = if cas { self.give_cas(request.hash, found) } else { 0 };
        let meta = ValueMeta { flags: found.flags, cas, value_bytes };
        let Some(target) = sink.reserve(index, meta) else {
            return false;
        };
        self.copy_value(found.value_at(), &mut target[..value_bytes]);
        self.note_found(request.hash, request.key, found);
        sink.finish(index, Outcome::Hit);
        true
    }

    /// Calls `look` with a value in place.
    pub fn show<R>(&self, found: &Found, look: impl FnOnce(&[u8]) -> R) -> R {
        self.show_bytes(found.value_at(), found.value_bytes(), look)
    }

    /// Calls `look` with bytes of the region.
    #[inline(always)]
    pub fn show_bytes<R>(&self, first_byte: usize, bytes: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        #[cfg(not(any(loom, miri)))]
        {
            // SAFETY: only the writer writes, and this writer does not while the slice lives.
            #[expect(unsafe_code, reason = "the owner reads plain bytes")]
            let value = unsafe { self.partition.region.plain_bytes(first_byte, bytes) };
            look(value)
        }
        #[cfg(any(loom, miri))]
        {
            let mut value = vec![0; bytes];
            self.partition.region.copy_out(first_byte, &mut value);
            look(&value)
        }
    }

    /// Copies a value that begins at a byte of the region.
    #[inline(always)]
    pub(super) fn copy_value(&self, first_byte: usize, target: &mut [u8]) {
        #[cfg(not(any(loom, miri)))]
        {
            // SAFETY: only the writer writes, and this writer does not while the slice lives.
            #[expect(unsafe_code, reason = "the owner reads plain bytes")]
            let value = unsafe { self.partition.region.plain_bytes(first_byte, target.len()) };
            short::copy(value, target);
        }
        #[cfg(any(loom, miri))]
        self.partition.region.copy_out(first_byte, target);
    }
}
