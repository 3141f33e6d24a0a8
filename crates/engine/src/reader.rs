//! get by a thread that is not the writer: optimistic, validated afterwards (MICA 4.3.2, CREW).
//!
//! The reader notes the bucket's version, copies words, and believes them only if the version is
//! unchanged and the head has not passed the item. Everything it reads may be torn until then:
//! positions and lengths are checked against bounds before they are used.

use micanite_memory::sync::{Ordering, fence, spin_loop};

use crate::index::entry::{Entry, match_tags};
use crate::limits::READ_ATTEMPTS_MAX;
use crate::log::item::unpack_meta;
use crate::partition::Partition;
use crate::request::{Expiry, Outcome, ReplySink, Request, ValueMeta};

/// How an optimistic read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The reply is in the sink. `due` if the policy wants the item at the tail.
    Done { due: bool },
    /// The sink had no room; nothing has happened.
    NoRoom,
    /// Too many writers: take the lock.
    Contended,
}

/// A candidate item, as read; not to be believed yet.
struct Candidate {
    offset: u64,
    value_at: usize,
    value_bytes: usize,
    flags: u32,
    expiry: Expiry,
}

impl Partition {
    /// Reads an item into the sink, without its CAS value.
    #[inline]
    pub fn read<S: ReplySink>(
        &self,
        index: usize,
        request: &Request<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> Read {
        let bucket = self.bucket(request.hash);
        for attempt in 0..READ_ATTEMPTS_MAX {
            if attempt > 0 {
                self.read_retries.fetch_add(1, Ordering::Relaxed);
                spin_loop();
            }
            let Some(version) = bucket.version_stable() else {
                continue;
            };
            let entries = bucket.entries();
            let found = self.candidate(&entries, request);
            let Some(item) = found.filter(|item| !item.expiry.has_passed(now_s)) else {
                if bucket.version_is_still(version) {
                    sink.finish(index, Outcome::NotFound);
                    return Read::Done { due: false };
                }
                continue;
            };
            let value_bytes = item.value_bytes;
            let meta = ValueMeta {
                flags: item.flags,
                cas: 0,
                value_bytes,
            };
            let Some(target) = sink.reserve(index, meta) else {
                return Read::NoRoom;
            };
            self.log.copy_out(item.value_at, &mut target[..value_bytes]);
            // The fence of the version check orders the copy before the look at the head too.
            if bucket.version_is_still(version) && self.is_live(item.offset) {
                sink.finish(index, Outcome::Hit);
                return Read::Done {
                    due: self.is_due(item.offset),
                };
            }
            sink.rollback(index);
        }
        Read::Contended
    }

    /// The entry whose item, as far as its words can be trusted, has the key of the request.
    #[inline]
    fn candidate(&self, entries: &[u64; 7], request: &Request<'_>) -> Option<Candidate> {
        // The tail is looked at after the entries: it is at least as new as any of them.
        fence(Ordering::Acquire);
        let mut matches = match_tags(entries, request.hash.tag());
        while matches != 0 {
            let entry = Entry(entries[matches.trailing_zeros() as usize]);
            matches &= matches - 1;
            let candidate = self.item_of(entry, request.key);
            if candidate.is_some() {
                return candidate;
            }
        }
        None
    }

    #[inline]
    fn item_of(&self, entry: Entry, key: &[u8]) -> Option<Candidate> {
        let offset = self.offset_live(entry)?;
        let position = self.position(offset)?;
        let header = self.header(position);
        let value_bytes = header.value_bytes()?;
        if header.key_bytes() != key.len()
            || header.units() > self.layout.item_units_max
            || !self.log.equals(position + header.key_word(), key)
        {
            return None;
        }
        let meta = if header.has_meta() {
            self.log.word(position + 1).load(Ordering::Relaxed)
        } else {
            0
        };
        let (expiry_s, flags) = unpack_meta(meta);
        Some(Candidate {
            offset,
            value_at: (position + header.key_word()) * 8 + key.len(),
            value_bytes,
            flags,
            expiry: Expiry(expiry_s),
        })
    }

    /// Whether the policy wants a requested item at the tail.
    #[inline]
    fn is_due(&self, offset: u64) -> bool {
        let tail = self.get(crate::partition::Field::Tail);
        tail.saturating_sub(offset) >= self.layout.reinsert_distance_units
    }
}
