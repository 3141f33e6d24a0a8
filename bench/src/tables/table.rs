//! The tables, filled, and who owns which keys.

use std::sync::Arc;

use clap::ValueEnum;
use micanite_engine::{Cache, Config, KeyHash, Request, Worker};
use micanite_server::native::Outbox;
use micanite_workload::{Keys, Values};

use super::answers::Answers;
use super::maps::{Key, Map, Plain, Quick, Sharded, Value};
use super::{engine, maps};
use crate::Result;
use crate::generator::packets::{KEY_BYTES, Terms, VALUE_BYTES};
use crate::harness::in_process;

/// Seed of the key hash, which clients compute.
pub(super) const HASH_SEED: u64 = 5;
/// Bits of the number of a partition in a map with a part for each worker.
const PARTITION_BITS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TableKind {
    /// Our engine: partitions that one worker owns each
    Micanite,
    /// A hash map per worker
    Map,
    /// A hash map of all workers, in 32 shards with a mutex each
    Sharded,
    /// quick_cache, of all workers
    Quick,
}

impl TableKind {
    pub const ALL: [Self; 4] = [Self::Micanite, Self::Map, Self::Sharded, Self::Quick];

    /// Word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Micanite => "micanite",
            Self::Map => "map",
            Self::Sharded => "sharded",
            Self::Quick => "quick",
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Micanite => "micanite's engine",
            Self::Map => "hash map per core (hashbrown 0.17)",
            Self::Sharded => "hash map in 32 shards with mutexes (hashbrown 0.17)",
            Self::Quick => "quick_cache 0.7",
        }
    }
}

/// A worker's part of a table.
pub(super) enum Table {
    Micanite(Worker),
    Map(Plain),
    Sharded(Sharded),
    Quick(Quick),
}

impl Table {
    /// Executes a batch.
    #[inline]
    pub fn execute<O: Outbox + Send>(&mut self, requests: &[Request<'_>], answers: &mut Answers<'_, O>) {
        match self {
            Self::Micanite(worker) => engine::execute(worker, requests, answers),
            Self::Map(map) => maps::execute(map, requests, answers),
            Self::Sharded(map) => maps::execute(map, requests, answers),
            Self::Quick(map) => maps::execute(map, requests, answers),
        }
    }
}

/// A table with its items, for some workers.
pub(super) struct Tables {
    pub kind: TableKind,
    /// Parts by worker.
    pub of_worker: Vec<Table>,
    /// Owner of each partition; none if all workers may touch all.
    pub owners: Option<Vec<usize>>,
    pub terms: Terms,
}

impl Tables {
    /// Creates tables with the items 0 to `items - 1`.
    pub fn new(kind: TableKind, items: u64, workers: usize) -> Result<Self> {
        let terms = |partition_bits| Terms { hash_seed: HASH_SEED, partition_bits, ..Terms::default() };
        let parted: Vec<_> = (0..1 << PARTITION_BITS).map(|at| at % workers).collect();
        let mut tables = match kind {
            TableKind::Micanite => return Self::micanite(items, workers, terms),
            TableKind::Map => {
                let each = items / workers as u64 * 17 / 16;
                Self {
                    kind,
                    of_worker: (0..workers).map(|_| Table::Map(Plain::new(each))).collect(),
                    owners: Some(parted),
                    terms: terms(PARTITION_BITS),
                }
            }
            TableKind::Sharded => {
                let map = Sharded::new(items);
                Self::shared(kind, workers, terms(0), || Table::Sharded(map.clone()))
            }
            TableKind::Quick => {
                let map = Quick::new(items);
                Self::shared(kind, workers, terms(0), || Table::Quick(map.clone()))
            }
        };
        tables.fill(items);
        Ok(tables)
    }

    fn shared(kind: TableKind, workers: usize, terms: Terms, each: impl Fn() -> Table) -> Self {
        Self { kind, of_worker: (0..workers).map(|_| each()).collect(), owners: None, terms }
    }

    fn micanite(items: u64, workers: usize, terms: impl Fn(u32) -> Terms) -> Result<Self> {
        let item_bytes = 8 + KEY_BYTES + VALUE_BYTES + 24;
        let cache = Arc::new(Cache::new(&Config {
            memory_bytes: items as usize * item_bytes * 10 / 9 + (64 << 20),
            workers,
            access: micanite_engine::Access::Erew,
            seed: HASH_SEED,
            ..Config::default()
        })?);
        let taken: Option<Vec<_>> = (0..workers).map(|number| cache.worker(number)).collect();
        let mut taken = taken.ok_or("a worker is in use")?;
        for worker in &mut taken {
            in_process::fill(&cache, worker, items);
        }
        let partitions = cache.layout().partitions;
        let owner = |partition| cache.route(partition).map_or(0, |route| route.owner);
        Ok(Self {
            kind: TableKind::Micanite,
            of_worker: taken.into_iter().map(Table::Micanite).collect(),
            owners: Some((0..partitions).map(owner).collect()),
            terms: terms(partitions.ilog2()),
        })
    }

    fn fill(&mut self, items: u64) {
        let (keys, values) = (Keys::new(KEY_BYTES), Values::new(VALUE_BYTES));
        let (mut key, mut value) = (Key::default(), Value::default());
        for item in 0..items {
            keys.write(item, &mut key);
            values.write(item, 0, &mut value);
            let hash = KeyHash::of(&key, HASH_SEED);
            let owner = match &self.owners {
                Some(owners) => owners[hash.partition(self.terms.partition_bits)],
                None => 0,
            };
            match &mut self.of_worker[owner] {
                Table::Map(map) => map.set(hash, key, value),
                Table::Sharded(map) => map.set(hash, key, value),
                Table::Quick(map) => map.set(hash, key, value),
                Table::Micanite(_) => unreachable!("it is filled by its own workers"),
            }
        }
    }
}
