//! Death of chunks. A chunk dies before the change that it must not survive is visible.

use micanite_wire::hash::KeyHash;

use crate::limits::{CHUNKS_CLEANED_MAX, KEY_BYTES_MAX};
use crate::partition::Place;
use crate::partition::chunks::{ChunkStats, Chunks};
use crate::region::copy_budget;
use crate::writer::Writer;

impl Writer<'_> {
    /// Kills the chunk of the key of the item at a position. Without a cache area it costs a test.
    ///
    /// The caller has space and entry for its change, which its next release store makes visible. If the
    /// entry is dirty, it changes, too.
    #[inline(always)]
    pub fn kill_chunk(&self, position: usize) {
        if let Some(chunks) = self.partition.chunks.get() {
            self.kill_chunk_in(chunks, position);
        }
    }

    #[cold]
    #[inline(never)]
    fn kill_chunk_in(&self, chunks: &Chunks, position: usize) {
        let p = self.partition;
        if !p.holds(position, p.header(position)) {
            return self.void_chunks(); // damaged: its key is not known
        }
        let mut buffer = [0; KEY_BYTES_MAX];
        let key = p.key_at(position, &mut buffer);
        let hash = KeyHash::of(key, p.layout.seed);
        chunks.with(self, |held, host| {
            if let Some(chunk) = held.table.find(hash, key) {
                held.table.kill(&chunk, host);
            }
        });
    }

    /// Kills the chunk of the item at the head of a log. An item that no entry leads to, which a killed
    /// process may leave, has none: the chunk of its key belongs to another one.
    #[inline(always)]
    pub fn kill_chunk_at_head(&self, place: &Place) {
        if let Some(chunks) = self.partition.chunks.get() {
            self.kill_chunk_at_head_in(chunks, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn kill_chunk_at_head_in(&self, chunks: &Chunks, place: &Place) {
        let p = self.partition;
        if p.holds(place.position, p.header(place.position)) {
            let hash = p.hash_at(place.position);
            if self.slot_of(hash, self.entry_of(hash, place)).is_none() {
                return;
            }
        }
        self.kill_chunk_in(chunks, place.position);
    }

    /// Makes all chunks of the partition void, before their items are invalidated.
    pub fn void_chunks(&self) {
        if let Some(chunks) = self.partition.chunks.get() {
            chunks.with(self, |held, _| held.table.raise_void());
        }
    }

    /// Tells readers of chunks the second of a flush that is due, or that there is none.
    pub fn set_flush_due(&self, second: Option<u32>) {
        if let Some(chunks) = self.partition.chunks.get() {
            chunks.with(self, |held, _| held.table.set_flush(second));
        }
    }

    /// Does a bounded part of what requests have left to do, and publishes the statistics.
    pub fn maintain_chunks(&self) {
        if let Some(chunks) = self.partition.chunks.get() {
            let stats = chunks.with(self, |held, host| {
                held.table.upkeep(host);
                let cleans = !chunks.is_back();
                for _ in 0..CHUNKS_CLEANED_MAX {
                    if !cleans || copy_budget::is_spent() || !held.table.copy_back_next(host) {
                        break;
                    }
                }
                ChunkStats {
                    counters: held.table.counters(),
                    usage: held.table.usage(),
                    prefetched: held.prefetched,
                    loads_refused: held.loads_refused,
                }
            });
            chunks.publish_stats(stats);
        }
    }
}
