//! Replies are written straight into the registered buffers of clients.

use micanite_engine::ChunkEntry;
use micanite_wire::native;

use super::client::Client;
use super::counters::FabricCounters;
use crate::native::{Outbox, Source};

/// The replies of a round, by the places of their clients.
pub(super) struct FabricOutbox<'a> {
    pub clients: &'a mut [Client],
    pub counters: &'a FabricCounters,
    /// The second, at its latest.
    pub second: u64,
    /// Place of the open reply.
    pub place: usize,
}

impl Outbox for FabricOutbox<'_> {
    const IS_FABRIC: bool = true;

    #[inline]
    fn open(&mut self, to: Source) {
        self.place = to.number as usize;
    }

    #[inline]
    fn slot(&mut self) -> &mut [u8] {
        // A request came after the reply to the one before it was sent, so its buffer is back.
        self.clients[self.place].reply.buffer.as_deref_mut().unwrap_or_default()
    }

    #[inline]
    fn commit(&mut self, bytes: usize) {
        self.clients[self.place].reply.bytes = bytes;
    }

    #[inline]
    fn second(&self) -> u64 {
        self.second
    }

    #[inline]
    fn limit(&self, to: Source, most: usize) -> usize {
        most.min(self.clients[to.number as usize].limit_bytes)
    }

    #[inline]
    fn note_entry(&mut self, of: Source, hash: u64, entry: ChunkEntry) {
        let ChunkEntry { offset, version, bytes } = entry;
        let entry = native::ChunkEntry { hash, offset, version, bytes };
        if self.clients[of.number as usize].note_entry(entry) {
            self.counters.entries_dropped.add(1);
        }
    }
}
