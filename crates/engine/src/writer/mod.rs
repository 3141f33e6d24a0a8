//! The right to write a partition, and the steps of all writing operations: find an item, insert
//! one (reserve, write, publish), overwrite one, retire one.

mod compact;
mod find;
mod full;
pub(crate) mod index;
mod insert;
mod item;
mod limit;
mod log;
mod namespace;
mod overwrite;
mod publish;
mod recount;
mod reserve;
mod samples;

use std::cell::Cell;

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::fence;

use crate::index::entry::Entry;
use crate::index::hash::IndexHash;
use crate::log::LogKind;
use crate::log::item::{Expiry, Header, Shape, State, unpack_meta};
use crate::partition::{Partition, Place};
use crate::region::Field;

pub(crate) use find::FactItem;
pub(crate) use item::{NewItem, Part};
pub(crate) use reserve::Reservation;

/// The only writer of a partition; releases the lock when dropped, if it holds it.
pub(crate) struct Writer<'a> {
    pub partition: &'a Partition,
    pub now_s: u32,
    /// True if other threads write this partition, too, under its lock.
    pub shared: bool,
    /// True if hints hold as before: this writer has moved no item, and no entry. (The cell also makes the
    /// writer not `Sync`: one thread at a time uses it, and the chunk table with it.)
    keeps_hints: Cell<bool>,
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        // Only the exclusive owner has hints that are facts.
        if self.shared {
            self.partition.lock.unlock();
        } else if !self.keeps_hints.get() {
            self.partition.changes.count();
        }
    }
}

/// An item that was found, valid until the writer changes something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Word of the region that holds its entry.
    pub slot: usize,
    pub place: Place,
    pub header: Header,
    pub flags: u32,
    pub expiry: Expiry,
}

impl Found {
    /// Returns the beginning of the value, in bytes of the region.
    #[inline]
    pub fn value_at(&self) -> usize {
        (self.place.position + self.header.key_word()) * 8 + self.header.key_bytes()
    }

    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.header.value_bytes().unwrap_or(0)
    }

    /// Returns the composition of the item, with or without the extension for its CAS value.
    pub fn shape(&self, cas: bool) -> Shape {
        Shape {
            key_bytes: self.header.key_bytes(),
            value_bytes: self.value_bytes(),
            meta: self.header.has_meta(),
            state: self.header.has_state(),
            cas,
        }
    }
}

/// Items larger than 1/LARGE_SHARE of the small log bypass it.
const LARGE_SHARE: u64 = 4;

/// Reason for a refused write; nothing visible has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no space for the item, or its entry.
    Full,
    /// Another thread is still writing an item that is in the way: try again without the lock.
    Busy,
    /// The item to be copied has just been evicted.
    Gone,
}

impl<'a> Writer<'a> {
    #[inline]
    pub fn new(partition: &'a Partition, shared: bool, now_s: u32) -> Self {
        Self { partition, now_s, shared, keeps_hints: Cell::new(false) }
    }

    /// Promises that this writer has moved no item and no entry, and will not: it is for one request alone.
    #[inline(always)]
    pub fn keep_hints(&self) {
        self.keeps_hints.set(true);
    }

    /// Promises the same for a get of an item that stays where it is, unless the policy moves it.
    #[inline(always)]
    pub fn keep_hints_of_get(&self) {
        self.keeps_hints.set(!self.partition.moves_on_get);
    }

    /// Returns the item at a place, whether the index leads to it or not.
    #[inline]
    pub fn found_at(&self, slot: usize, place: Place) -> Found {
        self.found_of(slot, place, self.partition.header(place.position))
    }

    /// Returns the item at a place whose header is known.
    #[inline]
    pub fn found_of(&self, slot: usize, place: Place, header: Header) -> Found {
        let p = self.partition;
        let meta = if header.has_meta() { p.word(place.position + 1).load(Relaxed) } else { 0 };
        let (expiry_s, flags) = unpack_meta(meta);
        Found { slot, place, header, flags, expiry: Expiry(expiry_s) }
    }

    #[inline]
    pub fn entry_of(&self, hash: IndexHash, place: &Place) -> Entry {
        Entry::new(hash, place.log as u64, place.offset, self.partition.offset_mask)
    }

    /// Returns the CAS value of an item.
    #[inline]
    pub fn cas_of(&self, found: &Found) -> u64 {
        if found.header.has_state() {
            let given = self.state_of(found).cas;
            if given != 0 {
                return given;
            }
        }
        if found.header.has_cas() {
            let word = found.place.position + found.header.key_word() - 1;
            self.partition.word(word).load(Relaxed)
        } else {
            found.place.offset << 1 | found.place.log as u64
        }
    }

    /// Returns the CAS value of the item that was written last, at this place.
    #[inline]
    pub fn cas_of_last(&self, place: &Place) -> u64 {
        if self.partition.is_store() {
            self.partition.get(Field::Stamp)
        } else {
            place.offset << 1 | place.log as u64
        }
    }

    /// Returns the CAS value that has to stay when the item moves, unless it is part of its state.
    #[inline]
    pub fn cas_to_keep(&self, found: &Found) -> Option<u64> {
        self.partition.cas_to_keep(&found.place, found.header)
    }

    /// Returns the state of an item.
    #[inline]
    pub fn state_of(&self, found: &Found) -> State {
        self.partition.state_at(found.place.position, found.header)
    }

    /// Returns the state of an item that a client writes in the place of another: it continues to
    /// record accesses.
    #[inline]
    pub fn fresh_state(&self, replaced: Option<&Found>) -> Option<State> {
        let replaced = replaced.filter(|found| found.header.has_state())?;
        let followed = self.state_of(replaced).access_s != 0;
        followed.then_some(State { access_s: self.now_s, ..State::default() })
    }

    /// Returns the state that stays when the item moves.
    #[inline]
    pub fn state_to_keep(&self, found: &Found) -> Option<State> {
        found.header.has_state().then(|| self.state_of(found))
    }

    /// Returns the CAS value of an item to a client, and records that it is known, so that the next
    /// write changes it. Every write changes that of a store's item.
    #[inline]
    pub fn give_cas(&self, hash: IndexHash, found: &Found) -> u64 {
        if !found.header.cas_given() && !self.partition.is_store() {
            self.partition.bucket(hash).write(|| {
                let header = self.partition.header(found.place.position);
                self.set_header(found.place.position, header.with_cas_given());
            });
        }
        self.cas_of(found)
    }

    /// Records a request for an item: that there was one, and how many, if the policy counts and
    /// the count is below its maximum.
    #[inline]
    pub fn count_request(&self, found: &Found) {
        let frequency = found.header.frequency();
        let max = self.partition.layout.policy.frequency_max;
        if frequency < max || !found.header.is_fetched() {
            let header = self.partition.header(found.place.position);
            let header = header.with_frequency((frequency + 1).min(max));
            self.set_header(found.place.position, header.with_fetched(true));
        }
        if found.header.has_state() {
            self.note_access(found);
        }
    }

    /// Records the time of a request, if the item records accesses.
    #[cold]
    fn note_access(&self, found: &Found) {
        let state = self.state_of(found);
        if state.access_s != 0 && state.access_s != self.now_s {
            let access_s = self.now_s;
            let word = found.place.position + found.header.state_word();
            self.partition.set_state(word, State { access_s, ..state });
        }
    }

    #[inline]
    pub fn set_header(&self, position: usize, header: Header) {
        self.partition.word(position).store(header.0, Release);
    }

    /// Removes an item.
    #[inline]
    pub fn remove(&self, hash: IndexHash, found: &Found) {
        let bucket = self.partition.bucket(hash);
        self.keeps_hints.set(false);
        self.kill_chunk(found.place.position);
        bucket.write(|| {
            self.clear_slot(bucket, found.slot);
            self.retire(&found.place, true);
        });
    }

    /// Removes an item whose expiry has passed.
    #[cold]
    pub fn expire(&self, hash: IndexHash, found: &Found) {
        self.remove(hash, found);
        self.partition.add(Field::Expired, 1);
        if !found.header.is_fetched() {
            self.partition.add(Field::ExpiredUnfetched, 1);
        }
    }

    /// Frees the space of an item that no entry leads to, unless the head has passed it; `early` if
    /// no other item replaces it.
    #[inline]
    pub fn retire(&self, place: &Place, early: bool) {
        let p = self.partition;
        if !p.is_live(place) {
            return;
        }
        // The entry changes before the item does, for a process that recovers the image after a
        // kill.
        fence(Release);
        let header = p.header(place.position);
        if !p.holds(place.position, header) {
            return;
        }
        let counted = !p.is_flushed_from_store(place.position, header);
        if counted {
            p.subtract(Field::ItemsLive, 1);
            p.subtract(Field::UnitsLive, header.units());
        }
        if p.is_store() {
            if p.is_in_reserve(place.position) {
                p.reserve_is_taken.store(0, Relaxed);
            } else {
                p.heap().free(place.position);
            }
            return;
        }
        let dead = if early {
            p.add(Field::UnitsLeftEarly, header.units());
            if place.log == LogKind::Main {
                p.add(Field::UnitsLeftEarlyInMain, header.units());
            }
            header.with_dead().with_left_early()
        } else {
            header.with_dead()
        };
        self.set_header(place.position, dead);
    }

    /// Returns the log that the policy chooses for an item of this many units.
    #[inline]
    pub fn log_for(&self, units: u64, ghost: bool) -> LogKind {
        let p = self.partition;
        let small = p.log(LogKind::Small);
        let small_units = small.get(crate::region::LogField::Limit);
        if ghost || units * LARGE_SHARE > small_units {
            return LogKind::Main;
        }
        // Until the first eviction, an item that does not fit into small goes to main.
        if small.is_filling() && small.lap_units() + units > small_units {
            let main = p.log(LogKind::Main);
            let room = main.get(crate::region::LogField::Limit);
            if main.is_filling() && main.lap_units() + units <= room {
                return LogKind::Main;
            }
        }
        LogKind::Small
    }

    #[inline]
    pub fn note_expiry(&self, expiry: Expiry) {
        if expiry != Expiry::NEVER && self.partition.get(Field::Expiring) == 0 {
            self.partition.set(Field::Expiring, 1);
        }
    }
}

impl Partition {
    /// Returns the only writer, for a caller that is the only user of the partition.
    ///
    /// # Safety
    /// While the writer lives, nobody else writes the partition, on this thread or another.
    #[inline]
    #[expect(unsafe_code, reason = "the exclusive owner takes no lock")]
    pub unsafe fn owner(&self, now_s: u32) -> Writer<'_> {
        Writer::new(self, false, now_s)
    }

    /// Takes the lock, and returns the only writer.
    #[inline]
    pub fn writer(&self, now_s: u32) -> Writer<'_> {
        self.lock.lock();
        Writer::new(self, true, now_s)
    }

    /// Returns the only writer, if the lock is free.
    #[inline]
    pub fn try_writer(&self, now_s: u32) -> Option<Writer<'_>> {
        self.lock.try_lock().then(|| Writer::new(self, true, now_s))
    }
}
