//! Life of a chunk: taken, filled, published, killed.

use super::slots::State;
use super::space::Work;
use super::{Chunk, Host, Table};
use crate::layout::{HEADER_BYTES, Header, spread, unspread};
use crate::{Area, Entry, Item};
use micanite_wire::hash::KeyHash;

/// Chunk of the caller, who fills it and returns it by [`Table::publish`] or [`Table::give_back`]. A dropped
/// one is lost until the process ends.
#[must_use]
#[derive(Debug)]
pub struct Taken {
    slot: u32,
    offset: usize,
    bytes_max: usize,
    version: u64,
    incarnation: u64,
    void: u64,
    filled: Option<(KeyHash, u32)>,
}

impl Taken {
    /// Writes an item into the chunk, once. It needs no right to write the partition. Returns whether the
    /// item fits, the area is the table's, and the chunk was empty.
    pub fn fill(&mut self, area: &Area, item: &Item<'_>) -> bool {
        let bytes = item.key.len().saturating_add(item.value.len()).saturating_add(HEADER_BYTES);
        let end = self.offset + self.bytes_max;
        if bytes > self.bytes_max || end > area.geometry().bytes() || self.filled.is_some() {
            return false;
        }
        let header = Header {
            version: self.version,
            incarnation: self.incarnation,
            void: self.void,
            hash: item.hash.0,
            expiry_s: item.expiry_s,
            flags: item.flags,
            key_bytes: item.key.len() as u32,
            value_bytes: item.value.len() as u32,
        };
        area.fill(self.offset, &header, item);
        self.filled = Some((item.hash, bytes as u32));
        true
    }
}

impl Table {
    /// Takes a chunk for an item of these lengths, or `None` if the item cannot be cached now.
    ///
    /// Takes it before the item is found: if the void count is raised afterwards, nobody accepts the chunk.
    pub fn take(&mut self, key_bytes: usize, value_bytes: usize, host: &mut impl Host) -> Option<Taken> {
        let bytes = key_bytes.saturating_add(value_bytes).saturating_add(HEADER_BYTES);
        let class = self.classes.partition_point(|class| (class.chunk_bytes as usize) < bytes);
        if class == self.classes.len() {
            self.counters.too_long += 1;
            return None;
        }
        let mut work = Work::OF_A_REQUEST;
        self.bury(work.buried, host);
        self.empty_page(&mut work, host);
        let slot = self.free_slot(class);
        self.evict_ahead(class, u32::from(slot.is_none()), &mut work, host);
        let Some(slot) = slot else {
            self.counters.no_space += 1;
            self.choose_page_to_empty(class);
            return None;
        };
        self.versions += self.area.geometry().partitions() as u64;
        let version = spread(self.versions);
        self.slots.change(slot, |slot| (slot.state, slot.version) = (State::Taken, version));
        Some(Taken {
            slot,
            offset: self.offset(slot),
            bytes_max: self.classes[class].chunk_bytes as usize,
            version,
            incarnation: self.area.record(self.partition).incarnation,
            void: spread(self.voids),
            filled: None,
        })
    }

    /// Returns whether [`Table::publish`] will publish the chunk, which was filled with this key. A chunk of
    /// the same key, clean or dirty, may still live: the caller kills a dirty one before it publishes.
    ///
    /// The answer holds until a call of this table other than that kill. So a SET that leaves its value in
    /// the chunk only asks before it changes anything.
    pub fn may_publish(&self, taken: &Taken, key: &[u8]) -> bool {
        self.may_replace(taken, |old| self.area.has_key(self.offset(old), key))
    }

    /// Returns whether a filled chunk may be published, where `replaces` tells which dirty chunks may go.
    fn may_replace(&self, taken: &Taken, replaces: impl Fn(u32) -> bool) -> bool {
        let Some((hash, _)) = taken.filled.filter(|_| self.is_own(taken)) else {
            return false;
        };
        let page = &self.pages[(taken.slot / self.slots_per_page) as usize];
        taken.void == spread(self.voids)
            && !page.is_emptied
            && match self.slot_of_hash(hash) {
                Some(old) => !self.slots.get(old).is_dirty || replaces(old),
                None => self.index.has_room(hash.0) || self.victim(hash).is_some(),
            }
    }

    /// Publishes a filled chunk. A clean chunk of the same hash dies before.
    ///
    /// Returns `None`, and takes the chunk back, if it was not filled, if the void count was raised since it
    /// was taken, if its page is being emptied, if a dirty chunk has the hash, or if the index has no room.
    pub fn publish(&mut self, taken: Taken, host: &mut impl Host) -> Option<Entry> {
        let filled = taken.filled.filter(|_| self.may_replace(&taken, |_| false));
        let Some((hash, bytes)) = filled else {
            self.give_back(taken);
            return None;
        };
        self.make_room(hash, host);
        self.index.insert(hash.0, taken.slot);
        self.slots.change(taken.slot, |slot| {
            (slot.state, slot.hash_or_death_ns, slot.bytes, slot.is_dirty) =
                (State::Living, hash.0, bytes, false);
        });
        let page = self.page_of(taken.slot);
        page.living += 1;
        let class = page.class as usize;
        self.classes[class].living.push_first(&mut self.slots, taken.slot);
        self.counters.published += 1;
        self.area.publish(taken.offset, taken.version);
        Some(Entry { offset: taken.offset as u64, bytes, version: taken.version })
    }

    /// Kills the clean chunk of the hash, or one of its bucket if that is full.
    fn make_room(&mut self, hash: KeyHash, host: &mut impl Host) {
        if let Some(old) = self.slot_of_hash(hash) {
            self.kill_slot(old, host);
            self.counters.killed += 1;
        } else if !self.index.has_room(hash.0)
            && let Some(victim) = self.victim(hash)
        {
            self.kill_slot(victim, host);
            self.counters.evicted += 1;
            self.counters.crowded_out += 1;
        }
    }

    /// Returns the oldest clean chunk of a bucket, as far as versions tell.
    fn victim(&self, hash: KeyHash) -> Option<u32> {
        let clean = self.index.slots_in(hash.0).filter(|slot| !self.slots.get(*slot).is_dirty);
        clean.min_by_key(|slot| unspread(self.slots.get(*slot).version))
    }

    /// Takes an unpublished chunk back. It needs no lease, because no client has had its version.
    pub fn give_back(&mut self, taken: Taken) {
        if self.is_own(&taken) {
            self.counters.given_back += 1;
            self.release(taken.slot);
        }
    }

    fn is_own(&self, taken: &Taken) -> bool {
        if taken.slot as usize >= self.slots.len() {
            return false;
        }
        let known = self.slots.get(taken.slot);
        known.state == State::Taken && known.version == taken.version
    }

    /// Kills a chunk, before the change that it must not survive becomes visible. Returns whether it lived.
    pub fn kill(&mut self, chunk: &Chunk, host: &mut impl Host) -> bool {
        if !self.lives(chunk.slot, chunk.entry.version) {
            return false;
        }
        self.counters.killed += 1;
        self.kill_slot(chunk.slot, host);
        self.bury(Work::OF_A_REQUEST.buried, host);
        true
    }

    pub(super) fn kill_slot(&mut self, slot: u32, host: &mut impl Host) {
        self.area.kill(self.offset(slot));
        let now_ns = host.now_ns();
        let known = self.slots.get(slot);
        self.index.remove(known.hash_or_death_ns, slot);
        self.dirty -= u64::from(known.is_dirty);
        let page = self.page_of(slot);
        page.living -= 1;
        page.dying += 1;
        let (class, is_emptied) = (page.class as usize, page.is_emptied);
        let class = &mut self.classes[class];
        class.dying += u32::from(!is_emptied);
        class.living.remove(&mut self.slots, slot);
        self.slots.change(slot, |slot| {
            (slot.state, slot.hash_or_death_ns, slot.is_dirty) = (State::Dying, now_ns, false);
        });
        self.dying.push_last(&mut self.slots, slot);
    }
}
