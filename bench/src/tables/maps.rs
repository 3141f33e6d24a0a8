//! Tables of other crates under the common port. Keys and values have eight bytes each and lie in
//! the table itself, which is the best case for a map; nothing expires, and but for quick_cache
//! nothing could be evicted.

use std::sync::{Arc, Mutex};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use micanite_engine::{KeyHash, Operation, Request};
use micanite_server::native::Outbox;
use micanite_wire::native::Status;
use quick_cache::UnitWeighter;

use super::answers::Answers;
use super::table::HASH_SEED;
use crate::engine::peers::OneShotXxh3;
use crate::generator::packets::{KEY_BYTES, VALUE_BYTES};

pub(super) type Key = [u8; KEY_BYTES];
pub(super) type Value = [u8; VALUE_BYTES];

/// Shards are chosen by the first bits of the hash.
const SHARD_BITS: u32 = 5;

/// A table that does one request at a time.
pub(super) trait Map {
    fn get(&mut self, hash: KeyHash, key: &Key) -> Option<Value>;
    fn set(&mut self, hash: KeyHash, key: Key, value: Value);
}

/// Executes a batch, one request after the other.
#[inline]
pub(super) fn execute<O: Outbox>(map: &mut impl Map, requests: &[Request<'_>], answers: &mut Answers<'_, O>) {
    for (index, request) in requests.iter().enumerate() {
        let Ok(key) = Key::try_from(request.key) else {
            answers.status(index, Status::BadRequest);
            continue;
        };
        let Operation::Store { value, .. } = request.operation else {
            let found = map.get(request.hash, &key);
            let room = found.and_then(|_| answers.room(index, 0, VALUE_BYTES));
            match (found, room) {
                (Some(value), Some(room)) => {
                    room.copy_from_slice(&value);
                    answers.found(index, VALUE_BYTES);
                }
                (Some(_), None) => answers.status(index, Status::NoRoom),
                (None, _) => answers.status(index, Status::NotFound),
            }
            continue;
        };
        match Value::try_from(value) {
            Ok(value) => {
                map.set(request.hash, key, value);
                answers.status(index, Status::Ok);
            }
            Err(_) => answers.status(index, Status::TooLarge),
        }
    }
}

/// hashbrown, with the hash that the client has made: nobody hashes twice.
pub(super) struct Plain(HashTable<(Key, Value)>);

impl Plain {
    pub fn new(items: u64) -> Self {
        Self(HashTable::with_capacity(items as usize))
    }
}

/// The first bits chose partition and shard: hashbrown takes the last for the place, and the first
/// for its tags.
#[inline]
fn turned(hash: KeyHash) -> u64 {
    hash.0.rotate_right(16)
}

impl Map for Plain {
    #[inline]
    fn get(&mut self, hash: KeyHash, key: &Key) -> Option<Value> {
        let found = self.0.find(turned(hash), |(other, _)| other == key);
        found.map(|(_, value)| *value)
    }

    #[inline]
    fn set(&mut self, hash: KeyHash, key: Key, value: Value) {
        let again = |(key, _): &(Key, Value)| turned(KeyHash::of(key, HASH_SEED));
        match self.0.entry(turned(hash), |(other, _)| *other == key, again) {
            Entry::Occupied(mut occupied) => occupied.get_mut().1 = value,
            Entry::Vacant(vacant) => drop(vacant.insert((key, value))),
        }
    }
}

/// One map for all workers, in shards, each on cache lines of its own and under a mutex.
#[derive(Clone)]
pub(super) struct Sharded(Arc<[Shard]>);

#[repr(align(64))]
struct Shard(Mutex<Plain>);

impl Sharded {
    pub fn new(items: u64) -> Self {
        let each = (items >> SHARD_BITS) * 17 / 16 + 1;
        let shard = |_| Shard(Mutex::new(Plain::new(each)));
        Self((0..1 << SHARD_BITS).map(shard).collect())
    }

    #[inline]
    fn with<T>(&self, hash: KeyHash, act: impl FnOnce(&mut Plain) -> T) -> T {
        let shard = self.0[hash.partition(SHARD_BITS)].0.lock();
        act(&mut shard.expect("no worker panics with a shard"))
    }
}

impl Map for Sharded {
    #[inline]
    fn get(&mut self, hash: KeyHash, key: &Key) -> Option<Value> {
        self.with(hash, |map| map.get(hash, key))
    }

    #[inline]
    fn set(&mut self, hash: KeyHash, key: Key, value: Value) {
        self.with(hash, |map| map.set(hash, key, value));
    }
}

/// quick_cache, one for all workers, with room for an eighth more items. It hashes by itself.
#[derive(Clone)]
pub(super) struct Quick(Arc<quick_cache::sync::Cache<Key, Value, UnitWeighter, OneShotXxh3>>);

impl Quick {
    pub fn new(items: u64) -> Self {
        let room = items + items / 8;
        Self(Arc::new(quick_cache::sync::Cache::with(
            room as usize,
            room,
            UnitWeighter,
            OneShotXxh3,
            Default::default(),
        )))
    }
}

impl Map for Quick {
    #[inline]
    fn get(&mut self, _: KeyHash, key: &Key) -> Option<Value> {
        self.0.get(key)
    }

    #[inline]
    fn set(&mut self, _: KeyHash, key: Key, value: Value) {
        self.0.insert(key, value);
    }
}
