//! A server in this process without sockets, for loops that feed it from memory.

use std::sync::Arc;

use micanite_engine::{Cache, Condition, Expiry, Operation, Outcome, ReplySink, Request, ValueMeta, Worker};
use micanite_server::configuration::{Options, Settings};
use micanite_server::native::NativeShared;
use micanite_server::shared::Server;
use micanite_wire::native::{CoreEntry, PAYLOAD_BYTES};
use micanite_workload::{Keys, Values};

use crate::Result;
use crate::generator::packets::{KEY_BYTES, VALUE_BYTES};

/// The time that it always is.
pub(crate) const NOW_S: u32 = 1_000_000;
const SEED: u64 = 14;

/// A server of this many workers with this much memory, without sockets.
pub(crate) fn server(workers: usize, memory: &str) -> Result<Arc<Server>> {
    server_of(workers, memory, "cache", None)
}

/// The same as a cache or a store, with at least so many partitions.
pub(crate) fn server_of(
    workers: usize,
    memory: &str,
    semantics: &str,
    partitions: Option<usize>,
) -> Result<Arc<Server>> {
    let mut options = Options::default();
    options.threads.set(workers);
    options.access.set("erew");
    options.memory_limit.set(memory);
    options.semantics.set(semantics);
    let settings = Settings::of(&options, workers)?;
    let mut config = settings.engine(SEED);
    if let Some(partitions) = partitions {
        config.partition_bytes_max = config.memory_bytes / partitions;
    }
    let cache = Arc::new(Cache::new(&config)?);
    let cores = (1..=workers as u16).map(|port| CoreEntry { port, node: 0 });
    let native = NativeShared::new(cores.collect(), PAYLOAD_BYTES, [1, 2, 3]).over(Vec::new());
    Ok(Arc::new(Server::new(settings, cache, Some(native), NOW_S)?))
}

/// Stores those of the tiny items 0 to `items - 1` that a worker owns.
pub(crate) fn fill(cache: &Cache, worker: &mut Worker, items: u64) {
    fill_with(cache, worker, items, |_| VALUE_BYTES);
}

/// The same with values whose length the partition decides.
pub(crate) fn fill_with(cache: &Cache, worker: &mut Worker, items: u64, bytes: impl Fn(usize) -> usize) {
    let keys = Keys::new(KEY_BYTES);
    let mut value = Vec::new();
    for item in 0..items {
        let mut key = [0; KEY_BYTES];
        keys.write(item, &mut key);
        let hash = cache.hash(&key);
        let partition = cache.partition_of(hash);
        let route = cache.route(partition);
        if route.map_or(0, |route| route.owner) != worker.number() {
            continue;
        }
        value.clear();
        Values::new(bytes(partition)).push(item, 0, &mut value);
        store(cache, worker, &key, &value);
    }
}

/// Stores an item.
pub(crate) fn store(cache: &Cache, worker: &mut Worker, key: &[u8], value: &[u8]) {
    let operation = Operation::Store { condition: Condition::Always, value, flags: 0, expiry: Expiry::NEVER };
    let request = Request { hash: cache.hash(key), key, operation };
    worker.execute(&[request], NOW_S, &mut Discard);
}

/// Drops every reply.
struct Discard;

impl ReplySink for Discard {
    fn reserve(&mut self, _: usize, _: ValueMeta) -> Option<&mut [u8]> {
        None
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, _: Outcome) {}
}
