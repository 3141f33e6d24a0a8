//! The right to write a partition, and what all writing operations are made of: find an item,
//! append one, overwrite one, retire one.

use micanite_memory::sync::Ordering::Relaxed;
use micanite_wire::hash::KeyHash;

use crate::index::entry::{Entry, match_tags};
use crate::limits::BUCKET_ENTRIES;
use crate::log::item::{Header, Shape, pack_meta, unpack_meta};
use crate::partition::{Field, Partition};
use crate::request::{Expiry, Outcome, Request};

/// The one writer of a partition; gives the lock back when dropped, if it holds it.
pub(crate) struct Writer<'a> {
    pub partition: &'a Partition,
    locked: bool,
}

impl Drop for Writer<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.locked {
            self.partition.lock.unlock();
        }
    }
}

/// An item that was found, valid until the writer changes something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub slot: usize,
    pub offset: u64,
    pub position: usize,
    pub header: Header,
    pub flags: u32,
    pub expiry: Expiry,
}

impl Found {
    /// Where the value begins, in bytes of the log.
    #[inline]
    pub fn value_at(&self) -> usize {
        (self.position + self.header.key_word()) * 8 + self.header.key_bytes()
    }

    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.header.value_bytes().unwrap_or(0)
    }
}

/// An item to be appended.
pub(crate) struct NewItem<'a> {
    pub key: &'a [u8],
    pub flags: u32,
    pub expiry: Expiry,
    /// The CAS value that the item keeps, because it was given out and nothing but its place
    /// changes.
    pub cas: Option<u64>,
    /// The value, in two parts.
    pub value: [Part<'a>; 2],
}

/// A part of a value: the caller's bytes, or bytes that are in the log already.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Bytes(&'a [u8]),
    Log { first_byte: usize, bytes: usize },
}

impl Part<'_> {
    pub const NONE: Self = Self::Bytes(&[]);

    fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Log { bytes, .. } => *bytes,
        }
    }
}

/// There is no place for the item, and nothing has changed.
#[derive(Debug)]
pub(crate) struct OutOfSpace;

impl<'a> Writer<'a> {
    #[inline]
    pub fn new(partition: &'a Partition, locked: bool) -> Self {
        Self { partition, locked }
    }

    /// The item of a key. One that has expired is removed and not found.
    #[inline]
    pub fn find(&self, hash: KeyHash, key: &[u8], now_s: u32) -> Option<Found> {
        let entries = self.partition.bucket(hash).entries();
        let mut matches = match_tags(&entries, hash.tag());
        while matches != 0 {
            let slot = matches.trailing_zeros() as usize;
            matches &= matches - 1;
            let Some(found) = self.item(slot, Entry(entries[slot])) else {
                continue;
            };
            if found.header.key_bytes() != key.len() {
                continue;
            }
            if self
                .partition
                .log
                .equals(found.position + found.header.key_word(), key)
            {
                if found.expiry.has_passed(now_s) {
                    self.expire(hash, &found);
                    return None;
                }
                return Some(found);
            }
        }
        None
    }

    /// What an entry points to, if it is still there.
    #[inline]
    pub fn item(&self, slot: usize, entry: Entry) -> Option<Found> {
        let p = self.partition;
        let offset = p.offset_live(entry)?;
        let position = self.at(offset);
        let header = p.header(position);
        let meta = if header.has_meta() {
            p.log.word(position + 1).load(Relaxed)
        } else {
            0
        };
        let (expiry_s, flags) = unpack_meta(meta);
        Some(Found {
            slot,
            offset,
            position,
            header,
            flags,
            expiry: Expiry(expiry_s),
        })
    }

    /// Appends an item and points the index to it: at the place of `replaced`, else at a free
    /// entry, else at that of the oldest item of the bucket.
    pub fn append(
        &self,
        hash: KeyHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Result<(), OutOfSpace> {
        let p = self.partition;
        let shape = Shape {
            key_bytes: item.key.len(),
            value_bytes: item.value[0].bytes() + item.value[1].bytes(),
            meta: item.flags != 0 || item.expiry != Expiry::NEVER,
            cas: item.cas.is_some(),
        };
        let units = shape.units();
        let header = shape
            .header_in(units)
            .filter(|_| units <= p.layout.item_units_max);
        let header = header.ok_or(OutOfSpace)?;
        let header = if shape.cas {
            header.with_cas_given()
        } else {
            header
        };
        let copies = item
            .value
            .iter()
            .any(|part| matches!(part, Part::Log { .. }));
        let offset = self
            .reserve(units, replaced.filter(|_| copies))
            .ok_or(OutOfSpace)?;
        self.write_item(self.at(offset), header, item);
        self.note_expiry(item.expiry);
        let bucket = p.bucket(hash);
        bucket.write(|| {
            let slot = match replaced {
                Some(found) => {
                    self.retire(found.offset);
                    found.slot
                }
                None => self.free_slot(bucket.entries()),
            };
            bucket.set(slot, Entry::new(hash.tag(), offset, p.offset_mask));
        });
        p.add(Field::ItemsLive, 1);
        p.add(Field::UnitsLive, units);
        self.scan_as_the_tail_advances();
        Ok(())
    }

    /// Appends an item that a client wrote (not one that only moves).
    #[inline]
    pub fn append_new(
        &self,
        hash: KeyHash,
        item: &NewItem<'_>,
        replaced: Option<&Found>,
    ) -> Outcome {
        if self.append(hash, item, replaced).is_err() {
            return Outcome::OutOfMemory;
        }
        self.partition.add(Field::ItemsAppended, 1);
        Outcome::Stored
    }

    /// Writes a whole new value for a key, in the space of the item that was found, or anew.
    #[inline]
    pub fn write_value(
        &self,
        request: &Request<'_>,
        found: Option<&Found>,
        value: &[u8],
        (flags, expiry): (u32, Expiry),
    ) -> Outcome {
        if let Some(found) = found
            && self.overwrite(request.hash, found, value, flags, expiry)
        {
            return Outcome::Stored;
        }
        let value = [Part::Bytes(value), Part::NONE];
        let item = NewItem {
            key: request.key,
            flags,
            expiry,
            cas: None,
            value,
        };
        self.append_new(request.hash, &item, found)
    }

    #[inline]
    fn write_item(&self, position: usize, header: Header, item: &NewItem<'_>) {
        let log = &self.partition.log;
        let mut word = position;
        log.word(word).store(header.0, Relaxed);
        word += 1;
        if header.has_meta() {
            log.word(word)
                .store(pack_meta(item.expiry.0, item.flags), Relaxed);
            word += 1;
        }
        if let Some(cas) = item.cas {
            log.word(word).store(cas, Relaxed);
            word += 1;
        }
        log.copy_in(word * 8, item.key);
        let mut at = word * 8 + item.key.len();
        for part in item.value {
            match part {
                Part::Bytes(bytes) => log.copy_in(at, bytes),
                Part::Log { first_byte, bytes } => log.copy_within(first_byte, at, bytes),
            }
            at += part.bytes();
        }
    }

    /// Writes a value into the space of an item, if it may stay there: it fits, nobody was given
    /// its CAS value, and it is not due to move to the tail.
    #[inline]
    pub fn overwrite(
        &self,
        hash: KeyHash,
        found: &Found,
        value: &[u8],
        flags: u32,
        expiry: Expiry,
    ) -> bool {
        let old = found.header;
        let meta = flags != 0 || expiry != Expiry::NEVER;
        if old.cas_given() || meta && !old.has_meta() || self.is_due_to_move(found) {
            return false;
        }
        let shape = Shape {
            key_bytes: old.key_bytes(),
            value_bytes: value.len(),
            meta: old.has_meta(),
            cas: false,
        };
        let Some(header) = shape.header_in(old.units()) else {
            return false;
        };
        let log = &self.partition.log;
        self.partition.bucket(hash).write(|| {
            log.word(found.position).store(header.0, Relaxed);
            if shape.meta {
                log.word(found.position + 1)
                    .store(pack_meta(expiry.0, flags), Relaxed);
            }
            log.copy_in(found.value_at(), value);
        });
        self.note_expiry(expiry);
        self.partition.add(Field::ItemsOverwritten, 1);
        true
    }

    /// Whether a requested item is far enough from the tail to be moved there.
    #[inline]
    pub fn is_due_to_move(&self, found: &Found) -> bool {
        let p = self.partition;
        p.get(Field::Tail) - found.offset >= p.layout.reinsert_distance_units
    }

    /// Appends a copy of an item that differs in flags or expiry at most; its CAS value stays.
    pub fn relocate(
        &self,
        hash: KeyHash,
        key: &[u8],
        found: &Found,
        expiry: Expiry,
    ) -> Result<(), OutOfSpace> {
        let value = Part::Log {
            first_byte: found.value_at(),
            bytes: found.value_bytes(),
        };
        let cas = found.header.cas_given().then(|| self.cas_of(found));
        let item = NewItem {
            key,
            flags: found.flags,
            expiry,
            cas,
            value: [value, Part::NONE],
        };
        self.append(hash, &item, Some(found))
    }

    /// The CAS value of an item.
    #[inline]
    pub fn cas_of(&self, found: &Found) -> u64 {
        if found.header.has_cas() {
            let word = found.position + found.header.key_word() - 1;
            self.partition.log.word(word).load(Relaxed)
        } else {
            found.offset
        }
    }

    /// Notes that the CAS value of an item is known outside, so that the next write changes it.
    #[inline]
    pub fn give_cas(&self, hash: KeyHash, found: &Found) -> u64 {
        if !found.header.cas_given() {
            self.partition.bucket(hash).write(|| {
                let header = found.header.with_cas_given();
                self.partition
                    .log
                    .word(found.position)
                    .store(header.0, Relaxed);
            });
        }
        self.cas_of(found)
    }

    /// Removes an item.
    #[inline]
    pub fn remove(&self, hash: KeyHash, found: &Found) {
        let bucket = self.partition.bucket(hash);
        bucket.write(|| {
            bucket.set(found.slot, Entry::EMPTY);
            self.retire(found.offset);
        });
    }

    /// Removes an item whose expiry has passed.
    #[cold]
    pub fn expire(&self, hash: KeyHash, found: &Found) {
        self.remove(hash, found);
        self.partition.add(Field::Expired, 1);
    }

    /// Gives the space of an item back, unless the head took it already.
    #[inline]
    pub fn retire(&self, offset: u64) {
        let p = self.partition;
        if !p.is_live(offset) {
            return;
        }
        let position = self.at(offset);
        let header = p.header(position);
        p.log.word(position).store(header.with_dead().0, Relaxed);
        p.add(Field::ItemsLive, 1u64.wrapping_neg());
        p.add(Field::UnitsLive, header.units().wrapping_neg());
    }

    /// An entry of a bucket that may be taken: empty or dangling, else that of the oldest item,
    /// which is evicted (MICA 4.3.2: the one most behind the tail).
    #[inline]
    fn free_slot(&self, entries: [u64; BUCKET_ENTRIES]) -> usize {
        let p = self.partition;
        let tail = p.get(Field::Tail);
        let mut oldest = (0, 0);
        for (slot, entry) in entries.into_iter().map(Entry).enumerate() {
            let Some(offset) = p.offset_live(entry) else {
                return slot;
            };
            if tail - offset > oldest.0 {
                oldest = (tail - offset, slot);
            }
        }
        self.retire(tail - oldest.0);
        p.add(Field::EvictedBucket, 1);
        oldest.1
    }

    #[inline]
    pub fn note_expiry(&self, expiry: Expiry) {
        if expiry != Expiry::NEVER {
            self.partition.set(Field::Expiring, 1);
        }
    }
}
