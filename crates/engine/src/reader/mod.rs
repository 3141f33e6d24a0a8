//! Gets by a thread that is not the writer: optimistic, validated afterwards (MICA 4.3.2, CREW).
//!
//! The reader loads the bucket's version, copies words, and uses them only if the version is
//! unchanged and the head has not passed the item. Until then everything it reads may be torn: it
//! checks positions and lengths against bounds before it uses them.

pub(crate) mod copy;
pub(crate) mod external;
mod plain;
pub(crate) mod snapshot;
pub(crate) mod walk;

use std::ops::ControlFlow;

use micanite_memory::sync::{Ordering, fence, spin_loop};

use crate::index::bucket::Bucket;
use crate::index::entry::Entry;
use crate::index::visits;
use crate::limits::{
    CHAIN_BUCKETS_MAX, CHAIN_TAG_ITEMS_MAX, ITEM_UNITS_MORE, READ_ATTEMPTS_MAX, READ_BYTES_WASTED_MAX,
};
use crate::log::item::{Expiry, unpack_meta};
use crate::operations::meta::{ItemMeta, MetaGet};
use crate::operations::request::{HashedRequest, Outcome, ReplySink, ValueMeta};
use crate::partition::{Hint, Partition, Place};
use crate::region::Field;
use crate::writer::Found;

/// Result of an optimistic read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The reply is in the sink. `count` if the policy counts the request.
    Done { count: bool },
    /// The sink had no room; nothing has happened.
    NoRoom,
    /// Too many writers: take the lock, or ask the owner.
    Contended,
    /// The request changes the item: only a writer can serve it.
    Changes,
}

/// Result of one attempt to read.
enum Attempt {
    Done(Read),
    /// The item changed meanwhile. So many bytes were copied in vain.
    Torn {
        bytes: usize,
    },
}

/// A candidate item, as read, before validation.
struct Candidate {
    found: Found,
    count: bool,
}

/// Options of a get, as a reader needs them.
pub(crate) trait GetOptions {
    /// Returns whether the request wants the value.
    fn value(&self) -> bool;
    /// Returns whether a hit, or a miss, is counted.
    fn is_counted(&self) -> bool;
    /// Returns whether only a writer can serve this item (`None`: there is none).
    fn changes(&self, found: Option<&Found>) -> bool;
    /// True if the item is described to the sink.
    const DESCRIBES: bool;
}

/// The options of a get of the value alone.
pub(crate) struct PlainGet;

impl GetOptions for PlainGet {
    const DESCRIBES: bool = false;

    #[inline(always)]
    fn value(&self) -> bool {
        true
    }

    #[inline(always)]
    fn is_counted(&self) -> bool {
        true
    }

    #[inline(always)]
    fn changes(&self, _: Option<&Found>) -> bool {
        false
    }
}

impl GetOptions for MetaGet {
    const DESCRIBES: bool = true;

    #[inline]
    fn value(&self) -> bool {
        self.value
    }

    #[inline]
    fn is_counted(&self) -> bool {
        !self.uncounted
    }

    #[inline]
    fn changes(&self, found: Option<&Found>) -> bool {
        match found {
            None => self.vivify.is_some(),
            Some(found) => !self.only_reads() || found.header.has_state() || self.is_near_end(found.expiry),
        }
    }
}

/// Reason why a chain tells nothing about the value of a key.
enum Unread {
    /// The chain is longer than any valid one, or has more items of a tag: it is being changed.
    TooLong,
    /// The key is there, and only a chunk of the cache area has its newest value.
    Dirty,
}

impl Partition {
    /// Reads an item into the sink, without its CAS value.
    #[inline]
    pub fn read<G: GetOptions, S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        options: &G,
        now_s: u32,
        sink: &mut S,
    ) -> Read {
        let mut bytes_wasted = 0;
        for attempt in 0..READ_ATTEMPTS_MAX {
            if bytes_wasted >= READ_BYTES_WASTED_MAX {
                break;
            }
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
            let found = match self.candidate(bucket, request) {
                Ok(found) => found,
                Err(Unread::Dirty) => return Read::Changes,
                Err(Unread::TooLong) => continue,
            };
            match self.reply((index, now_s), options, (bucket, version), found, sink) {
                Attempt::Done(read) => return read,
                Attempt::Torn { bytes } => bytes_wasted += bytes,
            }
        }
        Read::Contended
    }

    /// Reads an item into the sink like [`Self::read`], at first where prefetching saw it.
    #[inline(always)]
    pub fn read_prefetched<G: GetOptions, S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        options: &G,
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> Read {
        let seen = self.read_hinted((index, request.key), options, hint, now_s, sink);
        seen.unwrap_or_else(|| self.read((index, request), options, now_s, sink))
    }

    /// Reads the item of a hint, like [`Self::read`], where it was seen. Returns `None` if that tells nothing
    /// about the key, or the item changed meanwhile; nothing has happened then.
    #[inline(always)]
    pub fn read_hinted<G: GetOptions, S: ReplySink>(
        &self,
        (index, key): (usize, &[u8]),
        options: &G,
        hint: &Hint<'_>,
        now_s: u32,
        sink: &mut S,
    ) -> Option<Read> {
        let entry = Entry(hint.entry);
        let bucket = Bucket::at(&self.region, hint.bucket);
        // An entry of a spare bucket may belong to another chain by now.
        if hint.entry == 0 || entry.is_dirty() || !bucket.has_slot(hint.slot) {
            return None;
        }
        let version = bucket.version_stable()?;
        // A split changes the number of buckets before it moves entries out of this one.
        let is_there = self.get(Field::Buckets) == hint.buckets
            && self.word(hint.slot).load(Ordering::Relaxed) == hint.entry;
        if !is_there {
            return None;
        }
        // The tails are loaded after the entry: they are at least as new.
        fence(Ordering::Acquire);
        let item = self.item_of(self.place(entry)?, key)?;
        match self.reply((index, now_s), options, (bucket, version), Some(item), sink) {
            Attempt::Done(read) => Some(read),
            Attempt::Torn { bytes } => {
                self.read_retries.fetch_add(1, Ordering::Relaxed);
                (bytes >= READ_BYTES_WASTED_MAX).then_some(Read::Contended)
            }
        }
    }

    /// Replies with a candidate, or that there is none, if it was read between two changes of its bucket.
    #[inline(always)]
    fn reply<G: GetOptions, S: ReplySink>(
        &self,
        (index, now_s): (usize, u32),
        options: &G,
        (bucket, version): (Bucket<'_>, u64),
        item: Option<Candidate>,
        sink: &mut S,
    ) -> Attempt {
        let item = item.filter(|item| !item.found.expiry.has_passed(now_s));
        if options.changes(item.as_ref().map(|item| &item.found)) {
            return Attempt::Done(Read::Changes);
        }
        let Some(Candidate { found, count }) = item else {
            if bucket.version_is_still(version) {
                sink.finish(index, Outcome::NotFound);
                return Attempt::Done(Read::Done { count: false });
            }
            return Attempt::Torn { bytes: 0 };
        };
        if G::DESCRIBES {
            sink.describe(index, ItemMeta::of(&found));
        }
        if options.value() && !self.copy_racing(index, &found, sink) {
            return Attempt::Done(Read::NoRoom);
        }
        // The fence of the version check orders the copy before the load of the head too.
        if bucket.version_is_still(version) && self.is_live(&found.place) {
            sink.finish(index, Outcome::Hit);
            let count = (count || self.is_access_unrecorded(&found, now_s)) && options.is_counted();
            return Attempt::Done(Read::Done { count });
        }
        if options.value() {
            sink.rollback(index);
            return Attempt::Torn { bytes: found.value_bytes() };
        }
        Attempt::Torn { bytes: 0 }
    }

    /// Visits the places of a chain's items concurrently with the writer, until a visit breaks. Returns
    /// whether the chain had an end.
    fn visit_places<B>(
        &self,
        main: Bucket<'_>,
        mut visit: impl FnMut(Place) -> ControlFlow<B>,
    ) -> ControlFlow<B, bool> {
        let spares = self.layout.spares(self.buckets());
        let mut bucket = main;
        for _ in 0..=spares {
            let entries = bucket.entries();
            // The tails are loaded after the entries: they are at least as new as any of them.
            fence(Ordering::Acquire);
            for place in entries.into_iter().filter_map(|entry| self.place(Entry(entry))) {
                visit(place)?;
            }
            match bucket.next_spare() {
                Some(spare) if spare < spares => bucket = self.spare_bucket(spare),
                next => return ControlFlow::Continue(next.is_none()),
            }
        }
        ControlFlow::Continue(false)
    }

    /// Returns whether the item records accesses, and none in this second.
    #[inline]
    fn is_access_unrecorded(&self, found: &Found, now_s: u32) -> bool {
        found.header.has_state() && {
            let access_s = self.state_at(found.place.position, found.header).access_s;
            access_s != 0 && access_s != now_s
        }
    }

    /// Copies a value that may be torn. Returns false if the sink has no room for it.
    #[inline(always)]
    fn copy_racing<S: ReplySink>(&self, index: usize, found: &Found, sink: &mut S) -> bool {
        let value_bytes = found.value_bytes();
        let meta = ValueMeta { flags: found.flags, cas: 0, value_bytes };
        let Some(target) = sink.reserve(index, meta) else {
            return false;
        };
        self.region.copy_out(found.value_at(), &mut target[..value_bytes]);
        true
    }

    /// Returns the entry whose item has the key of the request, as far as its words are valid.
    #[inline]
    fn candidate(
        &self,
        bucket: Bucket<'_>,
        request: &HashedRequest<'_>,
    ) -> Result<Option<Candidate>, Unread> {
        let mut bucket = bucket;
        let mut keys = 0;
        for _ in 0..CHAIN_BUCKETS_MAX {
            visits::count_bucket();
            let mut matches = bucket.matches(request.hash.tag());
            while matches != 0 {
                let entry = bucket.entry(matches.trailing_zeros() as usize);
                // The tails are loaded after the entry: they are at least as new.
                fence(Ordering::Acquire);
                matches &= matches - 1;
                let Some(place) = self.place(entry) else {
                    continue;
                };
                if keys == CHAIN_TAG_ITEMS_MAX {
                    return Err(Unread::TooLong);
                }
                keys += 1;
                visits::count_key();
                let candidate = self.item_of(place, request.key);
                if candidate.is_some() {
                    return if entry.is_dirty() { Err(Unread::Dirty) } else { Ok(candidate) };
                }
            }
            let Some(spare) = bucket.next_spare() else {
                return Ok(None);
            };
            if spare >= self.layout.spares(self.buckets()) {
                return Err(Unread::TooLong);
            }
            bucket = self.spare_bucket(spare);
        }
        Err(Unread::TooLong)
    }

    #[inline]
    fn item_of(&self, place: Place, key: &[u8]) -> Option<Candidate> {
        let position = place.position;
        if !self.is_present(position, 1) {
            return None;
        }
        let header = self.header(position);
        header.value_bytes()?;
        let units = header.units() as usize;
        if header.key_bytes() != key.len()
            || header.is_busy()
            || header.units() > self.layout.item_units_max + ITEM_UNITS_MORE
            || !self.is_present(position, units)
            || !self.region.equals(position + header.key_word(), key)
        {
            return None;
        }
        if self.is_invalid(key, &place, header) {
            return None;
        }
        let meta = if header.has_meta() { self.word(position + 1).load(Ordering::Relaxed) } else { 0 };
        let (expiry_s, flags) = unpack_meta(meta);
        let uncounted = header.frequency() < self.layout.policy.frequency_max || !header.is_fetched();
        let count = uncounted || self.is_due_to_move(&place);
        Some(Candidate {
            found: Found {
                slot: 0, // of no use to a reader
                place,
                header,
                flags,
                expiry: Expiry(expiry_s),
            },
            count,
        })
    }
}
