//! Chunks beside the operations of the engine. The model reads them, too (`model/chunks.rs`).

mod back;
mod life;
mod threads;

use std::sync::Arc;

use super::area::{LEASE_NS, read};
use super::support::*;
use crate::*;

pub(crate) const KEY: &[u8] = b"key";
pub(crate) const OTHER: &[u8] = b"other";

impl Client {
    pub fn cache(&self) -> Arc<Cache> {
        self.worker.shared_cache()
    }

    /// Gets an item with its entry.
    pub fn entry_of(&mut self, key: &[u8]) -> ChunkEntry {
        let reply = self.ask(key, Operation::GetEntry);
        assert_eq!(reply.outcome, Some(Outcome::Hit), "{}", key.escape_ascii());
        reply.entry.expect("room in the cache area")
    }

    /// Stores a value as a fabric client does, with the flags and the expiry of the kill tests.
    pub fn store_entry(&mut self, key: &[u8], value: &[u8]) {
        let (condition, flags) = (Condition::Always, 0);
        let operation = Operation::StoreEntry { condition, value, flags, expiry: Expiry::NEVER };
        assert_eq!(self.outcome(key, operation), Outcome::Stored);
    }

    /// Reads a chunk one-sided.
    pub fn read(&self, key: &[u8], entry: ChunkEntry) -> Option<Vec<u8>> {
        let cache = self.cache();
        read(&cache, (cache.hash(key), key), entry, self.now_s, LEASE_NS).map(|(value, _)| value)
    }
}

/// Returns a cache or a store with a cache area, and its only client.
fn client(semantics: Semantics, write: ChunkWrite) -> Client {
    let setup = Setup { semantics, area: Some(write), ..Setup::default() };
    Client::new(&setup.cache(), 0)
}
