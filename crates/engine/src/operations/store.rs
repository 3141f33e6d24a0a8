//! set, add, replace, cas.

use micanite_memory::Patience;

use crate::index::bucket::Bucket;
use crate::limits::BUSY_ROUNDS_MAX;
use crate::log::item::Expiry;
use crate::operations::request::{Condition, HashedRequest, Outcome};
use crate::partition::{Hint, Partition};
use crate::writer::{Found, NewItem, Refusal, Reservation, Writer};

impl Writer<'_> {
    /// Overwrites an item whose hint is a fact ([`Hint::is_fact`]): the usual set of an item that exists.
    /// Returns false if something needs a closer look, and nothing has happened.
    #[inline(always)]
    pub fn overwrite_hinted(&self, key: &[u8], hint: &Hint<'_>, value: &[u8], meta: (u32, Expiry)) -> bool {
        self.keep_hints();
        if hint.buckets != self.partition.buckets_packed() {
            return false; // the bucket of the key may be another one
        }
        let is_plain = meta == (0, Expiry::NEVER) && hint.entry != 0;
        is_plain && self.overwrite_plain(key, hint, value) || self.overwrite_with_meta(key, hint, value, meta)
    }

    #[inline(never)]
    fn overwrite_with_meta(&self, key: &[u8], hint: &Hint<'_>, value: &[u8], meta: (u32, Expiry)) -> bool {
        let bucket = Bucket::at(&self.partition.region, hint.bucket);
        let item = self.item_of_fact(hint, key);
        item.is_some_and(|item| self.overwrite_at(bucket, (hint.position, item.header), value, meta))
    }

    /// Stores a value. The hint may be of no use.
    #[inline]
    pub fn store(
        &self,
        request: &HashedRequest<'_>,
        hint: &Hint<'_>,
        condition: Condition,
        value: &[u8],
        meta: (u32, Expiry),
    ) -> Outcome {
        if let (Some(found), Condition::Always) = (self.find_hinted(hint, request.key), condition)
            && self.overwrite(request.hash, &found, value, meta)
        {
            self.keep_hints();
            return Outcome::Stored;
        }
        let may_be_new = matches!(condition, Condition::Always | Condition::Absent);
        if may_be_new && !self.partition.is_store() && self.is_absent(request.hash) {
            let item = NewItem { is_new: true, ..NewItem::of(request.key, value, meta) };
            return self.insert_counted(request.hash, &item, None);
        }
        self.store_checked(request, condition, value, meta)
    }

    #[inline(never)]
    fn store_checked(
        &self,
        request: &HashedRequest<'_>,
        condition: Condition,
        value: &[u8],
        meta: (u32, Expiry),
    ) -> Outcome {
        match self.find_for(request, condition) {
            Ok(found) => self.write_value(request, found.as_ref(), value, meta),
            Err(outcome) => outcome,
        }
    }

    /// Returns whether a flush, or the invalidation of the key's namespace, counts an item that is not
    /// published yet among those before it. Published, it would take the place of a later one. A store
    /// stamps items when they are published.
    fn is_flushed(&self, key: &[u8], reserved: &Reservation) -> bool {
        let (p, place) = (self.partition, &reserved.place);
        !p.is_store() && (!p.is_live(place) || p.is_invalid(key, place, reserved.header))
    }

    /// Returns the item that would be replaced, if the condition of a store holds.
    #[inline]
    fn find_for(&self, request: &HashedRequest<'_>, condition: Condition) -> Result<Option<Found>, Outcome> {
        let found = self.find(request.hash, request.key);
        match (condition, &found) {
            (Condition::Always, _) | (Condition::Absent, None) | (Condition::Present, Some(_)) => {}
            (Condition::Absent, Some(_)) | (Condition::Present, None) => {
                return Err(Outcome::NotStored);
            }
            (Condition::Unchanged(_), None) => return Err(Outcome::NotFound),
            (Condition::Unchanged(cas), Some(found)) => {
                if self.cas_of(found) != cas {
                    return Err(Outcome::Exists);
                }
            }
        }
        Ok(found)
    }
}

/// Stores a long value concurrently with other writers: reserves space and publishes the item
/// under the lock, and copies the value in between without it. Returns `None` if a flush came
/// meanwhile: nothing is stored then, and the value is to be copied under the lock.
pub(crate) fn store_long(
    partition: &Partition,
    request: &HashedRequest<'_>,
    condition: Condition,
    value: &[u8],
    meta: (u32, Expiry),
    now_s: u32,
) -> Option<Outcome> {
    let mut item = NewItem::of(request.key, value, meta);
    let reserved = match reserve_for_long(partition, request, condition, &mut item, now_s) {
        Ok(reserved) => reserved,
        Err(outcome) => return Some(outcome),
    };
    reserved.write_item(partition, &item, None);
    publish_long(&partition.writer(now_s), request, condition, &reserved, meta.1)
}

/// Publishes an item that was written without the lock, as [`store_long`] returns.
pub(crate) fn publish_long(
    writer: &Writer<'_>,
    request: &HashedRequest<'_>,
    condition: Condition,
    reserved: &Reservation,
    expiry: Expiry,
) -> Option<Outcome> {
    if writer.is_flushed(request.key, reserved) {
        writer.release(reserved);
        return None;
    }
    Some(match writer.find_for(request, condition) {
        Ok(found) => writer.publish_counted(request.hash, reserved, expiry, found.as_ref()),
        Err(outcome) => {
            writer.release(reserved);
            outcome
        }
    })
}

/// Reserves space for an item that is written without the lock, or returns the end of the
/// request.
fn reserve_for_long(
    partition: &Partition,
    request: &HashedRequest<'_>,
    condition: Condition,
    item: &mut NewItem<'_>,
    now_s: u32,
) -> Result<Reservation, Outcome> {
    let mut patience = Patience::of_yields();
    for _ in 0..BUSY_ROUNDS_MAX {
        let writer = partition.writer(now_s);
        let found = writer.find_for(request, condition)?;
        item.state = writer.fresh_state(found.as_ref());
        match writer.reserve(request.hash, item, found.as_ref()) {
            Ok(reserved) => return Ok(reserved.for_later()),
            Err(Refusal::Busy) => drop(writer),
            // The old value may hold the only space: replace it under the lock. The search for
            // space may have moved the old item, or its entry.
            Err(Refusal::Full) => {
                let found = writer.find_for(request, condition)?;
                return Err(writer.replace_counted(request.hash, item, found.as_ref()));
            }
            Err(refusal) => return Err(refusal.into()),
        }
        patience.pause();
    }
    Err(Outcome::OutOfMemory)
}
