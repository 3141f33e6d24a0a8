//! Requests that readers served without the right to count them in the items. They go into a lossy
//! ring that the owner reads now and then, so that items requested only by others stay recent.

use crate::index::hash::IndexHash;
use micanite_memory::sync::{AtomicU64, Ordering};

/// Bytes of a partition for each slot, within these limits: the more items there are, the more of
/// them are read between two visits of the owner. A Zipf-distributed stream that other readers
/// serve, 10,000 gets between visits, then misses 1 % more often than one that the owner serves.
const BYTES_PER_SLOT: usize = 4 << 10;
const SLOTS_MIN: usize = if cfg!(loom) { 2 } else { 256 };
const SLOTS_MAX: usize = 8192;
/// Bits of the word that marks the parts of the slots that are not empty.
pub(crate) const PARTS: usize = 64;

/// Hashes of requested keys; 0 = none. Later ones overwrite earlier ones.
#[derive(Debug)]
pub(crate) struct Samples {
    pub slots: Box<[AtomicU64]>,
    /// Logarithm of the slots of a part.
    pub part_bits: u32,
    /// Parts with new samples, so that few samples cost little to take.
    pub parts: AtomicU64,
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
