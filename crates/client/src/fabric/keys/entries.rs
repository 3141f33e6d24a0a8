//! Entries that a client knows: places of chunks, by the hashes of their keys. All are hints.

use micanite_chunks::Entry;

/// Places of a bucket: their hashes are one cache line.
const WAYS: usize = 8;
const BUCKETS_FIRST: usize = 128;

/// A bounded table that replaces the entry of its bucket that was used least recently. It begins small, and
/// doubles when a bucket is full.
#[derive(Debug)]
pub(in crate::fabric) struct Entries {
    /// 0: a free place.
    hashes: Vec<[u64; WAYS]>,
    places: Vec<[Place; WAYS]>,
    buckets_max: usize,
    count: usize,
    /// Number of uses so far.
    uses: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u64,
    version: u64,
    bytes: u32,
    used: u32,
}

impl Entries {
    /// Creates a table for up to this number of entries, rounded up to a power of two.
    pub(in crate::fabric) fn new(entries_max: usize) -> Self {
        let buckets_max = entries_max.div_ceil(WAYS).clamp(1, 1 << 40).next_power_of_two();
        let buckets = buckets_max.min(BUCKETS_FIRST);
        Self {
            hashes: vec![[0; WAYS]; buckets],
            places: vec![[Place::default(); WAYS]; buckets],
            buckets_max,
            count: 0,
            uses: 0,
        }
    }

    /// Returns the number of known entries.
    pub(in crate::fabric) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        // The high bits choose the partition.
        hash as usize & (self.hashes.len() - 1)
    }

    #[inline]
    fn find(&self, hash: u64) -> Option<(usize, usize)> {
        let bucket = self.bucket(hash);
        let way = self.hashes[bucket].iter().position(|known| *known == hash)?;
        (hash != 0).then_some((bucket, way))
    }

    /// Finds the entry of a hash.
    #[inline]
    pub(in crate::fabric) fn get(&mut self, hash: u64) -> Option<Entry> {
        let (bucket, way) = self.find(hash)?;
        self.uses = self.uses.wrapping_add(1);
        let place = &mut self.places[bucket][way];
        place.used = self.uses;
        Some(Entry { offset: place.offset, bytes: place.bytes, version: place.version })
    }

    /// Keeps an entry instead of the one that is known for the hash.
    pub(in crate::fabric) fn insert(&mut self, hash: u64, entry: Entry) {
        if hash == 0 {
            return;
        }
        self.uses = self.uses.wrapping_add(1);
        let used = self.uses;
        let place = Place { offset: entry.offset, version: entry.version, bytes: entry.bytes, used };
        let (bucket, way) = match self.find(hash) {
            Some(known) => known,
            None => self.room(hash),
        };
        self.hashes[bucket][way] = hash;
        self.places[bucket][way] = place;
    }

    /// Returns a place for a new hash, and counts it.
    fn room(&mut self, hash: u64) -> (usize, usize) {
        loop {
            let bucket = self.bucket(hash);
            if let Some(way) = self.hashes[bucket].iter().position(|known| *known == 0) {
                self.count += 1;
                return (bucket, way);
            }
            if self.hashes.len() < self.buckets_max {
                self.grow();
                continue;
            }
            let age = |place: &Place| self.uses.wrapping_sub(place.used);
            let oldest = self.places[bucket].iter().enumerate().max_by_key(|(_, place)| age(place));
            return (bucket, oldest.map_or(0, |(way, _)| way));
        }
    }

    /// Doubles the buckets. The entries of a bucket go to itself and to the one as far behind it as there
    /// were buckets.
    fn grow(&mut self) {
        let buckets = self.hashes.len();
        self.hashes.resize(2 * buckets, [0; WAYS]);
        self.places.resize(2 * buckets, [Place::default(); WAYS]);
        for bucket in 0..buckets {
            for way in 0..WAYS {
                let hash = self.hashes[bucket][way];
                let to = self.bucket(hash);
                if to != bucket {
                    self.hashes[bucket][way] = 0;
                    self.hashes[to][way] = hash;
                    self.places[to][way] = self.places[bucket][way];
                }
            }
        }
    }

    /// Forgets the entry of a hash.
    pub(in crate::fabric) fn forget(&mut self, hash: u64) {
        if let Some((bucket, way)) = self.find(hash) {
            self.hashes[bucket][way] = 0;
            self.count -= 1;
        }
    }

    /// Forgets the entry of a hash if it has this version.
    pub(in crate::fabric) fn forget_version(&mut self, hash: u64, version: u64) {
        if let Some((bucket, way)) = self.find(hash)
            && self.places[bucket][way].version == version
        {
            self.hashes[bucket][way] = 0;
            self.count -= 1;
        }
    }

    /// Forgets all entries. Their memory stays.
    pub(in crate::fabric) fn clear(&mut self) {
        self.hashes.fill([0; WAYS]);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::random::Random;

    fn entry(number: u64) -> Entry {
        Entry { offset: 64 * number, bytes: number as u32, version: number + 1 }
    }

    /// Proves that the table has each entry until its limit, and never a wrong one beyond it.
    #[test]
    fn entries_are_those_that_were_inserted() {
        let mut random = Random::new(7);
        let mut entries = Entries::new(4096);
        let mut model = HashMap::new();
        for round in 0..200_000_u64 {
            let hash = (random.next() % 3000).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            match random.next() % 8 {
                0 => {
                    entries.forget(hash);
                    model.remove(&hash);
                }
                1 => {
                    let version = random.next() % (round + 1);
                    entries.forget_version(hash, version);
                    if model.get(&hash).is_some_and(|entry: &Entry| entry.version == version) {
                        model.remove(&hash);
                    }
                }
                2 | 3 => {
                    entries.insert(hash, entry(round));
                    if hash != 0 {
                        model.insert(hash, entry(round));
                    }
                }
                _ => {
                    let found = entries.get(hash);
                    assert!(found.is_none() || found == model.get(&hash).copied());
                }
            }
        }
        assert!(entries.len() <= 4096 && entries.len() > 2 * model.len() / 3);
        entries.clear();
        assert!(model.keys().all(|hash| entries.get(*hash).is_none()) && entries.len() == 0);
    }

    /// Proves that the table begins small, grows with use, and stops at its limit.
    #[test]
    fn memory_grows_with_use_to_its_limit() {
        let mut entries = Entries::new(1 << 13);
        let first = entries.hashes.len();
        for number in 1..=100_000_u64 {
            entries.insert(number, entry(number));
            if number == 4 * first as u64 {
                assert_eq!(entries.hashes.len(), first);
            }
        }
        assert_eq!((entries.hashes.len() * WAYS, entries.len()), (1 << 13, 1 << 13));
    }

    /// Proves that a full bucket keeps what is in use.
    #[test]
    fn the_least_recently_used_entry_leaves() {
        let mut entries = Entries::new(1);
        for number in 1..=WAYS as u64 {
            entries.insert(number, entry(number));
        }
        assert!(entries.get(1).is_some());
        entries.insert(100, entry(100));
        assert!(entries.get(1).is_some() && entries.get(2).is_none() && entries.get(100).is_some());
    }
}
