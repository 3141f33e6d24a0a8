//! Memory beyond key and value, per item: fill beyond the brim, count, divide. Beside memcached
//! it is measured by the server's target.

use std::sync::Arc;

use micanite_engine::{
    Cache, Condition, Config, Expiry, Operation, Outcome, ReplySink, Request, Stats, ValueMeta, Worker,
};

use super::Options;
use crate::Result;
use crate::results::measurement::Measurement;

const MEMORY_BYTES: usize = 256 << 20;

pub(crate) fn run(options: &Options, report: &mut Measurement) -> Result<()> {
    for (key_bytes, value_bytes) in [(8, 8), (16, 64), (128, 1024), (16, 100 << 10)] {
        let case = format!("overhead {key_bytes}/{value_bytes}");
        if !options.common.wants(&case) {
            continue;
        }
        eprintln!("{case}");
        let (found, items) = fill_and_count(key_bytes, value_bytes, options)?;
        let payload = (found * (key_bytes + value_bytes)) as f64;
        let overhead = (MEMORY_BYTES as f64 - payload) / found as f64;
        let name = "memory beyond key and value";
        report.value(&case, name, "bytes/item", &[overhead]);
        let share = payload / MEMORY_BYTES as f64 * 100.0;
        report.value(&case, "key and value of the memory", "%", &[share]);
        let lost = items.evicted_bucket as f64 / items.items_inserted as f64 * 100.0;
        report.value(&case, "appended items lost to full buckets", "%", &[lost]);
    }
    Ok(())
}

#[derive(Default)]
struct Hits(usize, Vec<u8>);

impl ReplySink for Hits {
    fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
        self.1.resize(meta.value_bytes, 0);
        Some(&mut self.1)
    }

    fn rollback(&mut self, _: usize) {}

    fn finish(&mut self, _: usize, outcome: Outcome) {
        self.0 += usize::from(outcome == Outcome::Hit);
    }
}

/// Stores three times what fits, then asks for every key: the items found, and the counters.
fn fill_and_count(key_bytes: usize, value_bytes: usize, options: &Options) -> Result<(usize, Stats)> {
    let config = Config {
        memory_bytes: MEMORY_BYTES,
        eviction: options.eviction.unwrap_or_default(),
        ..Config::default()
    };
    let cache = Arc::new(Cache::new(&config)?);
    let mut worker = cache.worker(0).ok_or("no worker")?;
    let value = vec![7; value_bytes];
    let (condition, flags, expiry) = (Condition::Always, 0, Expiry::NEVER);
    let store = Operation::Store { condition, value: &value, flags, expiry };
    let items = 3 * MEMORY_BYTES / (key_bytes + value_bytes + 8);
    let mut hits = Hits::default();
    for_each_key(&mut worker, items, key_bytes, store, &mut hits);
    let stats = cache.stats();
    for_each_key(&mut worker, items, key_bytes, Operation::Get { cas: false }, &mut hits);
    Ok((hits.0, stats))
}

fn for_each_key(
    worker: &mut Worker,
    items: usize,
    key_bytes: usize,
    operation: Operation<'_>,
    sink: &mut Hits,
) {
    let mut key = vec![b'x'; key_bytes];
    for item in 0..items as u64 {
        key[..8].copy_from_slice(&item.to_le_bytes());
        let hash = worker.cache().hash(&key);
        worker.execute(&[Request { hash, key: &key, operation }], 0, sink);
    }
}
