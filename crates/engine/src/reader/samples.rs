//! Requests that readers served without the right to count them in the items. They go into a lossy
//! ring that the owner reads now and then, so that items requested only by others stay recent.

use crate::index::hash::IndexHash;
use micanite_memory::sync::{AtomicU64, Ordering};

use crate::index::entry::{Entry, match_tags};
use crate::writer::Writer;

/// Bytes of a partition for each slot, within these limits: the more items there are, the more of
/// them are read between two visits of the owner. A Zipf-distributed stream that other readers
/// serve, 10,000 gets between visits, then misses 1 % more often than one that the owner serves.
const BYTES_PER_SLOT: usize = 4 << 10;
const SLOTS_MIN: usize = if cfg!(loom) { 2 } else { 256 };
const SLOTS_MAX: usize = 8192;
/// Bits of the word that marks the parts of the slots that are not empty.
const PARTS: usize = 64;

/// Hashes of requested keys; 0 = none. Later ones overwrite earlier ones.
#[derive(Debug)]
pub(crate) struct Samples {
    slots: Box<[AtomicU64]>,
    /// Logarithm of the slots of a part.
    part_bits: u32,
    /// Parts with new samples, so that few samples cost little to take.
    parts: AtomicU64,
}

impl Samples {
    /// Makes the ring of a partition of this size.
    pub fn new(partition_bytes: usize) -> Self {
        let slots = (partition_bytes / BYTES_PER_SLOT).next_power_of_two();
        let slots = if cfg!(loom) { SLOTS_MIN } else { slots };
        let slots = slots.clamp(SLOTS_MIN, SLOTS_MAX);
        Self {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            part_bits: (slots / PARTS).max(1).ilog2(),
            parts: AtomicU64::new(0),
        }
    }

    /// Records a request. Any thread may call this.
    #[inline]
    pub fn note(&self, hash: IndexHash) {
        // The slot follows from bits that the tag does not use.
        let slot = (hash.word() >> 20) as usize & (self.slots.len() - 1);
        self.slots[slot].store(hash.word(), Ordering::Relaxed);
        let part = 1 << (slot >> self.part_bits);
        // If the owner takes the slots at this moment, it may miss this sample until its part is
        // marked again: samples may be lost, or late.
        if self.parts.load(Ordering::Relaxed) & part == 0 {
            self.parts.fetch_or(part, Ordering::Relaxed);
        }
    }
}

impl Writer<'_> {
    /// Counts the requests that readers recorded.
    pub fn take_samples(&self) {
        let samples = &self.partition.samples;
        if samples.parts.load(Ordering::Relaxed) == 0 {
            return;
        }
        let parts = samples.parts.swap(0, Ordering::Relaxed);
        for part in (0..PARTS).filter(|part| parts >> part & 1 == 1) {
            let first = part << samples.part_bits;
            for slot in &samples.slots[first..first + (1 << samples.part_bits)] {
                if slot.load(Ordering::Relaxed) != 0 {
                    let hash = slot.swap(0, Ordering::Relaxed);
                    self.count_sample(IndexHash::of_word(hash));
                }
            }
        }
    }

    /// Counts a request for the item with this tag: a wrong item would only become a little too
    /// recent.
    fn count_sample(&self, hash: IndexHash) {
        let p = self.partition;
        for bucket in p.chain(p.bucket(hash)) {
            let entries = bucket.entries();
            let matches = match_tags(&entries, hash.tag());
            if matches == 0 {
                continue;
            }
            let slot = matches.trailing_zeros() as usize;
            let Some(place) = p.place(Entry(entries[slot])) else {
                continue;
            };
            if !p.holds(place.position, p.header(place.position)) {
                continue;
            }
            let found = self.found_at(bucket.slot_word(slot), place);
            if self.is_due_to_move(&found) {
                let mut buffer = [0; crate::limits::KEY_BYTES_MAX];
                let key = self.key_at(place.position, &mut buffer);
                self.reinsert(self.hash_at(place.position), key);
            } else {
                self.count_request(&found);
            }
            return;
        }
    }
}
