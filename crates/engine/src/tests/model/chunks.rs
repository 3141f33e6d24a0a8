//! One-sided reads beside the model: what a client accepts is the item's newest value, and there is one.

use super::{Key, Model, OwnedRequest};
use crate::tests::area::{LEASE_NS, read};
use crate::*;

/// Entries of a key that a client remembers.
const ENTRIES_MAX: usize = 4;
/// Keys whose chunks are read after a batch, besides those of the batch.
const READ_AFTER_BATCH: usize = 4;

impl Key {
    pub(super) fn learn(&mut self, entry: Option<ChunkEntry>) {
        let Some(entry) = entry.filter(|entry| !self.entries.contains(entry)) else {
            return;
        };
        if self.entries.len() == ENTRIES_MAX {
            self.entries.remove(0);
        }
        self.entries.push(entry);
    }
}

impl Model {
    /// Reads the chunks of the keys of a batch, and some others.
    pub(super) fn read_chunks_after(&mut self, batch: &[OwnedRequest]) {
        if !self.has_area {
            return;
        }
        self.tally.dirty += u64::from(self.workers.cache().dirty_chunks() > 0);
        for request in batch {
            self.read_chunks_of(request.key);
        }
        for _ in 0..READ_AFTER_BATCH {
            self.next_read = (self.next_read + 1) % self.keys.len();
            self.read_chunks_of(self.next_read);
        }
    }

    pub(super) fn read_all_chunks(&mut self) {
        if self.has_area {
            (0..self.keys.len()).for_each(|key| self.read_chunks_of(key));
        }
    }

    fn read_chunks_of(&mut self, key: usize) {
        let now_s = self.workers.now_s;
        let known = &self.keys[key];
        let mut accepted = 0;
        for entry in &known.entries {
            let of_key = (known.hash, known.name.as_slice());
            let Some((value, flags)) = read(self.workers.cache(), of_key, *entry, now_s, LEASE_NS) else {
                continue;
            };
            accepted += 1;
            let item = known.item.as_ref().filter(|item| !item.expiry.has_passed(now_s));
            let is_newest = item.is_some_and(|item| item.value == value && item.flags == flags);
            assert!(
                is_newest,
                "{}: a client accepts {} with flags {flags}, the newest is {:?}",
                known.name.escape_ascii(),
                value.escape_ascii(),
                item.map(|item| (item.value.escape_ascii().to_string(), item.flags)),
            );
        }
        assert!(accepted <= 1, "two living chunks of a key");
        self.tally.accepted += accepted;
    }

    /// Reports reads of some keys, as a client's history.
    pub(super) fn note_accesses(&mut self, drawn: usize) {
        if !self.has_area {
            return;
        }
        let count = self.keys.len();
        let of = |step: usize| (self.keys[(drawn + step) % count].hash, step as u32 % 4);
        let accesses: Vec<_> = (0..8.min(count)).map(of).collect();
        let now_s = self.workers.now_s;
        let mut learnt = Vec::new();
        self.workers.beside_sleepers(|worker| {
            worker.note_accesses(&accesses, now_s, |hash, entry| learnt.push((hash, entry)))
        });
        for (hash, entry) in learnt {
            let key = self.keys.iter_mut().find(|key| key.hash == hash).unwrap();
            key.learn(Some(entry));
        }
        self.read_all_chunks();
    }

    /// Forgets items whose newest value is in their chunk only: the process is about to be killed.
    pub(super) fn forget_dirty(&mut self) {
        let cache = self.workers.cache();
        if cache.dirty_chunks() == 0 || cache.maps().is_empty() {
            return;
        }
        for key in &mut self.keys {
            let partition = cache.partition(key.hash);
            let writer = partition.writer(0);
            let found = writer.lookup(partition.index_hash(key.hash), &key.name);
            if found.is_some_and(|found| writer.is_dirty(&found)) {
                key.item = None;
            }
        }
    }
}
