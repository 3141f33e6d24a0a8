//! Counts the requests that readers recorded.

use micanite_memory::sync::Ordering;

use crate::index::hash::IndexHash;
use crate::partition::Partition;
use crate::partition::samples::PARTS;
use crate::writer::Writer;

impl Writer<'_> {
    /// Counts the requests that readers recorded.
    pub fn apply_samples(&self) {
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
            let matches = bucket.matches(hash.tag());
            if matches == 0 {
                continue;
            }
            let slot = matches.trailing_zeros() as usize;
            let Some(place) = p.place_of_item(bucket.entry(slot)) else {
                continue;
            };
            let found = self.found_at(bucket.slot_word(slot), place);
            if self.is_due_to_move(&found) {
                let mut buffer = [0; crate::limits::KEY_BYTES_MAX];
                let key = p.key_at(place.position, &mut buffer);
                self.reinsert(p.hash_at(place.position), key);
            } else {
                self.count_request(&found);
            }
            return;
        }
    }
}

impl Partition {
    /// Counts a request that a reader has served: where all workers write, in the item itself if the lock is
    /// free (counting is a write, and not worth a wait), and else as a sample for the owner.
    #[inline]
    pub fn note_read(&self, is_shared: bool, (hash, key): (IndexHash, &[u8]), now_s: u32) {
        if !is_shared {
            self.samples.note(hash);
        } else if let Some(writer) = self.try_writer(now_s) {
            writer.note_request(hash, key);
        }
    }
}
