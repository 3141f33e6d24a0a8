//! Loads of items into the cache area.

use micanite_chunks::{Entry, Item};
use micanite_wire::hash::KeyHash;

use crate::index::bucket::Bucket;
use crate::index::hash::IndexHash;
use crate::limits::{KEY_BYTES_MAX, READS_OF_LOADED};
use crate::operations::request::{HashedRequest, ReplySink};
use crate::partition::chunks::{Chunks, Held};
use crate::region::{Field, copy_budget};
use crate::writer::{Found, Writer};

impl Writer<'_> {
    /// Gets an item, and its chunk's entry. Returns whether the sink had room for the value; if not, the item
    /// may have been loaded, and nothing else has happened.
    pub fn get_entry<S: ReplySink>(
        &self,
        (index, request): (usize, &HashedRequest<'_>),
        sink: &mut S,
    ) -> bool {
        if let Some(entry) = self.load(request.hash, request.key) {
            sink.entry(index, entry);
        }
        self.get((index, request), false, sink)
    }

    /// Returns the entry of a key's chunk. Loads the item if it has none, and there is room.
    pub fn load(&self, hash: IndexHash, key: &[u8]) -> Option<Entry> {
        let chunks = self.partition.chunks.get()?;
        let mut found = self.find_any(hash, key)?;
        let key_hash = KeyHash::of(key, self.partition.layout.seed);
        let known = chunks.with(self, |held, _| {
            let chunk = held.table.find(key_hash, key).filter(|chunk| !chunk.is_void)?;
            held.table.touch(chunk.entry.offset, chunk.entry.version);
            Some(chunk.entry)
        });
        if known.is_some() {
            return known;
        }
        if self.is_dirty(&found) {
            found = self.cleaned(hash, found)?; // its chunk is void
        }
        self.load_found(chunks, (hash, key_hash, key), &found)
    }

    /// Loads an item that has no chunk that clients accept.
    fn load_found(
        &self,
        chunks: &Chunks,
        (index_hash, hash, key): (IndexHash, KeyHash, &[u8]),
        found: &Found,
    ) -> Option<Entry> {
        let moves = self.partition.get(Field::Moves);
        let value_bytes = found.value_bytes();
        let loaded = chunks.with(self, |held, host| {
            // An access that the item would record, or a stale mark, needs the writer.
            if found.header.has_state() {
                return None;
            }
            let mut taken = held.table.take(key.len(), value_bytes, host)?;
            // The search for a chunk copies other items back, where they are, or removes them.
            let mut found = *found;
            if self.has_moved(moves, Some(&found)) {
                match self.lookup(index_hash, key) {
                    Some(at) => found = at,
                    None => {
                        held.table.give_back(taken);
                        return None;
                    }
                }
            }
            self.show(&found, |value| {
                let (flags, expiry_s) = (found.flags, found.expiry.0);
                taken.fill(&chunks.area, &Item { hash, key, value, flags, expiry_s })
            });
            held.table.publish(taken, host)
        });
        match loaded {
            Some(_) => copy_budget::spend(value_bytes),
            None => chunks.with(self, |held, _| held.loads_refused += 1),
        }
        loaded
    }

    /// Applies what a client has read one-sided: marks the chunk of the hash as used, or loads an item that
    /// was requested often enough. Returns the entry of a chunk that is new.
    pub fn note_read(&self, hash: KeyHash, count: u32) -> Option<Entry> {
        let chunks = self.partition.chunks.get()?;
        let touch = |held: &mut Held| {
            let chunk = held.table.find_hash(hash).filter(|chunk| !chunk.is_void);
            chunk.is_some_and(|chunk| held.table.touch(chunk.entry.offset, chunk.entry.version))
        };
        if chunks.with(self, |held, _| touch(held)) || count < READS_OF_LOADED || copy_budget::is_spent() {
            return None;
        }
        let mut key = [0; KEY_BYTES_MAX];
        let key = self.key_of(hash, &mut key)?;
        let entry = self.load(self.partition.index_hash(hash), key)?;
        chunks.with(self, |held, _| held.prefetched += 1);
        Some(entry)
    }

    /// Returns the key of the item whose key has this hash.
    fn key_of<'b>(&self, hash: KeyHash, buffer: &'b mut [u8; KEY_BYTES_MAX]) -> Option<&'b [u8]> {
        let p = self.partition;
        let index = p.index_hash(hash);
        let entries = p.chain(p.bucket(index)).flat_map(Bucket::entries).map(crate::index::entry::Entry);
        let mut places =
            entries.filter(|entry| entry.has_tag(index.tag())).filter_map(|entry| p.place_of_item(entry));
        let place = places.find(|place| {
            let mut key = [0; KEY_BYTES_MAX];
            KeyHash::of(p.key_at(place.position, &mut key), p.layout.seed) == hash
        })?;
        Some(p.key_at(place.position, buffer))
    }
}
