//! The region, seen from the process that writes it.

use std::sync::Arc;

use micanite_memory::sync::Ordering::{Relaxed, Release};
use micanite_memory::sync::{AtomicU64, fence};
use micanite_memory::{Region, WORD_BYTES};
use micanite_wire::hash::KeyHash;

use crate::layout::{Entry, Geometry, HEADER_BYTES, HEADER_WORDS, Header, Record, VERSION};

/// Item as a chunk is filled with it.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    pub hash: KeyHash,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub flags: u32,
    /// 0: it does not expire.
    pub expiry_s: u32,
}

/// Cache area: the region and its sizes. Clones are the same area.
#[derive(Clone, Debug)]
pub struct Area {
    region: Arc<Region>,
    geometry: Geometry,
}

impl Area {
    /// Writes constants and records into a zeroed region. Returns `None` if the region is too small.
    ///
    /// `incarnation` is the number of this process, which no other that clients may have read from has had.
    pub fn new(region: Arc<Region>, geometry: Geometry, incarnation: u64) -> Option<Self> {
        if region.words() < geometry.bytes() / WORD_BYTES {
            return None;
        }
        for (index, word) in geometry.constants().into_iter().enumerate() {
            region.word(index).store(word, Relaxed);
        }
        let area = Self { region, geometry };
        for partition in 0..geometry.partitions() {
            let record = Record { incarnation, void: 0, flush_s: 0 };
            for (word, at) in record.words().into_iter().zip(0..) {
                area.word_of(geometry.record_offset(partition), at).store(word, Relaxed);
            }
        }
        Some(area)
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the record of a partition.
    pub(crate) fn record(&self, partition: usize) -> Record {
        let words = self.region.array::<3>(self.geometry.record_offset(partition) / WORD_BYTES);
        let [incarnation, void, flush_s] = words.each_ref().map(|word| word.load(Relaxed));
        Record { incarnation, void, flush_s }
    }

    pub(crate) fn set_void(&self, partition: usize, void: u64) {
        self.word_of(self.geometry.record_offset(partition), 1).store(void, Release);
    }

    pub(crate) fn set_flush(&self, partition: usize, flush_s: u64) {
        self.word_of(self.geometry.record_offset(partition), 2).store(flush_s, Release);
    }

    fn word_of(&self, offset: usize, word: usize) -> &AtomicU64 {
        self.region.word(offset / WORD_BYTES + word)
    }

    /// Makes the chunk dead to every read that begins after the caller's next release store.
    pub(crate) fn kill(&self, offset: usize) {
        self.word_of(offset, VERSION).store(0, Relaxed);
    }

    /// Makes a chunk dead whose bytes may be those of a value of the page's previous class.
    pub(crate) fn carve(&self, offset: usize) {
        // A reader of that value that sees the 0 sees the kill of its chunk, too, when it then reads the
        // header a second time.
        fence(Release);
        self.kill(offset);
    }

    /// Publishes what [`Area::fill`] wrote.
    pub(crate) fn publish(&self, offset: usize, version: u64) {
        self.word_of(offset, VERSION).store(version, Release);
    }

    /// Writes all of a chunk but its version, which stays 0.
    pub(crate) fn fill(&self, offset: usize, header: &Header, item: &Item<'_>) {
        // A reader that sees one of the bytes below sees the kill of the previous chunk, too, when it then
        // reads the header a second time.
        fence(Release);
        for (at, word) in header.words().into_iter().enumerate().skip(VERSION + 1) {
            self.word_of(offset, at).store(word, Relaxed);
        }
        self.word_of(offset, HEADER_WORDS).store(header.checksum(item.key, item.value), Relaxed);
        self.region.copy_in(offset + HEADER_BYTES, item.key);
        self.region.copy_in(offset + HEADER_BYTES + item.key.len(), item.value);
    }

    /// Returns the header of the chunk that an entry of this area leads to, and `None` for other entries.
    /// Without the right to write the partition the words may be a mixture.
    pub fn header(&self, entry: Entry) -> Option<Header> {
        self.geometry.contains(entry).then(|| self.header_at(entry.offset as usize))
    }

    pub(crate) fn header_at(&self, offset: usize) -> Header {
        let words = self.region.array::<HEADER_WORDS>(offset / WORD_BYTES);
        Header::of_words(words.each_ref().map(|word| word.load(Relaxed)))
    }

    pub(crate) fn has_key(&self, offset: usize, key: &[u8]) -> bool {
        self.header_at(offset).key_bytes as usize == key.len()
            && self.region.equals((offset + HEADER_BYTES) / WORD_BYTES, key)
    }

    /// Copies bytes of key and value from `from` on: the key first. Returns whether the entry has them.
    pub fn copy_out(&self, entry: Entry, from: usize, target: &mut [u8]) -> bool {
        let end = from.checked_add(target.len()).and_then(|end| end.checked_add(HEADER_BYTES));
        if !self.geometry.contains(entry) || end.is_none_or(|end| end > entry.bytes as usize) {
            return false;
        }
        self.region.copy_out(entry.offset as usize + HEADER_BYTES + from, target);
        true
    }
}
