//! get by a thread that is not the writer: optimistic, validated afterwards (MICA 4.3.2, CREW).
//!
//! The reader notes the bucket's version, copies words, and believes them only if the version is
//! unchanged and the head has not passed the item. Everything it reads may be torn until then:
//! positions and lengths are checked against bounds before they are used.

use micanite_memory::sync::{Ordering, fence, spin_loop};

use crate::index::bucket::Bucket;
use crate::index::entry::{Entry, match_tags};
use crate::limits::READ_ATTEMPTS_MAX;
use crate::log::item::unpack_meta;
use crate::partition::{Partition, Place};
use crate::request::{Expiry, Outcome, ReplySink, Request, ValueMeta};

/// How an optimistic read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The reply is in the sink. `count` if the policy wants to know of the request.
    Done { count: bool },
    /// The sink had no room; nothing has happened.
    NoRoom,
    /// Too many writers: take the lock.
    Contended,
}

/// A candidate item, as read; not to be believed yet.
struct Candidate {
    place: Place,
    value_at: usize,
    value_bytes: usize,
    flags: u32,
    expiry: Expiry,
    count: bool,
}

/// Spare buckets that a reader follows: more only in an index that is being changed under it, or
/// one that an adversary chose the keys of.
const CHAIN_MAX: usize = 1 << 16;

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
        for attempt in 0..READ_ATTEMPTS_MAX {
            if attempt > 0 {
                self.read_retries.fetch_add(1, Ordering::Relaxed);
                spin_loop();
            }
            let buckets = self.all_buckets();
            let bucket = self.main_bucket(request.hash.bucket(buckets) as u64);
            let Some(version) = bucket.version_stable() else {
                continue;
            };
            // A split changes the number of buckets before it moves entries out of this one.
            if self.all_buckets() != buckets {
                continue;
            }
            let found = self.candidate(bucket, request);
            let Some(item) = found.filter(|item| !item.expiry.has_passed(now_s)) else {
                if bucket.version_is_still(version) {
                    sink.finish(index, Outcome::NotFound);
                    return Read::Done { count: false };
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
            self.region
                .copy_out(item.value_at, &mut target[..value_bytes]);
            // The fence of the version check orders the copy before the look at the head too.
            if bucket.version_is_still(version) && self.is_live(&item.place) {
                sink.finish(index, Outcome::Hit);
                return Read::Done { count: item.count };
            }
            sink.rollback(index);
        }
        Read::Contended
    }

    /// The entry whose item, as far as its words can be trusted, has the key of the request.
    #[inline]
    fn candidate(&self, bucket: Bucket<'_>, request: &Request<'_>) -> Option<Candidate> {
        let mut bucket = bucket;
        for _ in 0..CHAIN_MAX {
            let entries = bucket.entries();
            // The tails are looked at after the entries: they are at least as new as any of them.
            fence(Ordering::Acquire);
            let mut matches = match_tags(&entries, request.hash.tag());
            while matches != 0 {
                let entry = Entry(entries[matches.trailing_zeros() as usize]);
                matches &= matches - 1;
                let candidate = self.item_of(entry, request.key);
                if candidate.is_some() {
                    return candidate;
                }
            }
            let spare = bucket.next_spare()?;
            if spare >= self.layout.spares(self.buckets()) {
                return None;
            }
            bucket = self.spare_bucket(spare);
        }
        None
    }

    #[inline]
    fn item_of(&self, entry: Entry, key: &[u8]) -> Option<Candidate> {
        let place = self.place(entry)?;
        let position = place.position;
        if position >= self.region.words() {
            return None;
        }
        let header = self.header(position);
        let value_bytes = header.value_bytes()?;
        let units = header.units() as usize;
        if header.key_bytes() != key.len()
            || header.is_busy()
            || position + units > self.region.words()
            || !self.region.equals(position + header.key_word(), key)
        {
            return None;
        }
        if self.is_invalid(key, &place, header) {
            return None;
        }
        let meta = if header.has_meta() {
            self.word(position + 1).load(Ordering::Relaxed)
        } else {
            0
        };
        let (expiry_s, flags) = unpack_meta(meta);
        let count = header.frequency() < self.layout.policy.frequency_max;
        Some(Candidate {
            place,
            value_at: (position + header.key_word()) * 8 + key.len(),
            value_bytes,
            flags,
            expiry: Expiry(expiry_s),
            count: count || self.is_due_to_move(&place),
        })
    }
}
