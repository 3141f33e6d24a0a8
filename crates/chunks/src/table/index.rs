//! Index from the hash of a key to its chunk: buckets of one cache line, which do not grow.

const WAYS: usize = 8;
/// Bytes of an area for which there is a way. Chunks of twice as many bytes fill half of the ways.
const BYTES_PER_WAY: usize = 128;

/// Ways: `{slot + 1 | tag}`, 32 bits each; 0 is empty.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([u64; WAYS]);

/// Buckets, and a bitmap that knows most hashes that are not there.
#[derive(Debug)]
pub struct Index {
    buckets: Vec<Bucket>,
    /// Eight bits per bucket. Each is set while the bucket holds a hash that leads to it.
    present: Vec<u8>,
}

impl Index {
    pub fn new(bytes: usize) -> Self {
        let buckets = (bytes / BYTES_PER_WAY / WAYS).next_power_of_two();
        Self { buckets: vec![Bucket([0; WAYS]); buckets], present: vec![0; buckets] }
    }

    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    /// Returns whether the hash may be here, by the bitmap alone.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.present[self.bucket(hash)] & bit(hash) != 0
    }

    /// Returns the slot of the hash: the one for which `has_hash` holds.
    #[inline]
    pub fn find(&self, hash: u64, has_hash: impl Fn(u32) -> bool) -> Option<u32> {
        if !self.may_have(hash) {
            return None;
        }
        let ways = self.buckets[self.bucket(hash)].0.into_iter();
        let mut slots = ways.filter(|way| *way != 0 && tag_of(*way) == tag(hash)).map(slot_of);
        slots.find(|slot| has_hash(*slot))
    }

    /// Returns the slots in a bucket, the number of which is taken modulo the number of buckets.
    pub fn slots_in(&self, bucket: u64) -> impl Iterator<Item = u32> + use<> {
        let ways = self.buckets[self.bucket(bucket)].0;
        ways.into_iter().filter(|way| *way != 0).map(slot_of)
    }

    /// Returns whether the bucket of a hash has an empty way.
    pub fn has_room(&self, hash: u64) -> bool {
        self.buckets[self.bucket(hash)].0.contains(&0)
    }

    /// Inserts a hash that is not there, into a bucket that has room.
    pub fn insert(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        if let Some(way) = self.buckets[bucket].0.iter_mut().find(|way| **way == 0) {
            *way = (u64::from(slot) + 1) << 32 | u64::from(tag(hash));
            self.present[bucket] |= bit(hash);
        }
    }

    /// Removes the hash of a slot.
    pub fn remove(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        let ways = &mut self.buckets[bucket].0;
        for way in ways.iter_mut().filter(|way| **way != 0 && slot_of(**way) == slot) {
            *way = 0;
        }
        let living = ways.iter().filter(|way| **way != 0);
        self.present[bucket] = living.fold(0, |bits, way| bits | bit(u64::from(tag_of(*way)) << 32));
    }
}

/// Bits of the hash that a way keeps. Its last bits choose the bucket, its first ones the partition.
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

const fn tag_of(way: u64) -> u32 {
    way as u32
}

const fn slot_of(way: u64) -> u32 {
    ((way >> 32) - 1) as u32
}

/// Returns the bit of a hash in the byte of its bucket.
const fn bit(hash: u64) -> u8 {
    1 << (tag(hash) & 7)
}
