//! Requests that readers served without being allowed to note them in the items: a lossy ring
//! that the owner reads now and then, so that what only others read stays recent.

use micanite_memory::sync::{AtomicU64, Ordering};
use micanite_wire::hash::KeyHash;

use crate::index::entry::{Entry, match_tags};
use crate::partition::Partition;
use crate::writer::Writer;

const SLOTS: usize = if cfg!(loom) { 2 } else { 256 };

/// Hashes of keys that were requested; 0 = none. Later ones overwrite earlier ones.
#[derive(Debug)]
pub(crate) struct Samples([AtomicU64; SLOTS]);

impl Samples {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    /// Notes a request. Any thread.
    #[inline]
    pub fn note(&self, hash: KeyHash) {
        // The place follows from bits that neither tag nor partition use.
        self.0[(hash.0 >> 20) as usize % SLOTS].store(hash.0, Ordering::Relaxed);
    }
}

impl Writer<'_> {
    /// Counts the requests that readers noted.
    pub fn take_samples(&self) {
        let p: &Partition = self.partition;
        for slot in &p.samples.0 {
            if slot.load(Ordering::Relaxed) != 0 {
                self.count_sample(KeyHash(slot.swap(0, Ordering::Relaxed)));
            }
        }
    }

    /// The tag decides which item is meant: a wrong one would only be a little too recent.
    fn count_sample(&self, hash: KeyHash) {
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
