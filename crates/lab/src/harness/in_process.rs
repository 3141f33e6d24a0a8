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
    let mut options = Options::default();
    options.threads.set(workers);
    options.access.set("erew");
    options.memory_limit.set(memory);
    let settings = Settings::of(&options, workers)?;
    let cache = Arc::new(Cache::new(&settings.engine(SEED))?);
    let cores = (1..=workers as u16).map(|port| CoreEntry { port, node: 0 });
    let native =
        NativeShared::new(cores.collect(), PAYLOAD_BYTES, [1, 2, 3]).over(Vec::new(), Box::default());
    Ok(Arc::new(Server::new(settings, cache, Some(native), NOW_S)?))
}

/// Stores those of the items 0 to `items - 1` that a worker owns.
pub(crate) fn fill(cache: &Cache, worker: &mut Worker, items: u64) {
    let (keys, values) = (Keys::new(KEY_BYTES), Values::new(VALUE_BYTES));
    for item in 0..items {
        let (mut key, mut value) = ([0; KEY_BYTES], [0; VALUE_BYTES]);
        keys.write(item, &mut key);
        let hash = cache.hash(&key);
        let route = cache.route(cache.partition_of(hash));
        if route.map_or(0, |route| route.owner) != worker.number() {
            continue;
        }
        values.write(item, 0, &mut value);
        let operation =
            Operation::Store { condition: Condition::Always, value: &value, flags: 0, expiry: Expiry::NEVER };
        let key = &key[..];
        let request = Request { hash, key, operation };
        worker.execute(&[request], NOW_S, &mut Discard);
    }
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
