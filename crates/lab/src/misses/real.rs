//! The engine itself, all of its memory counted: a trace replayed with demand fill, one request
//! at a time. Key and value together have the size that the trace gives.

use std::sync::Arc;

use micanite_engine::{Cache, Config, Eviction, Expiry, Outcome, Worker};

use super::trace::Trace;
use crate::Result;

/// The least memory of a cache.
const MEMORY_BYTES_MIN: u64 = micanite_engine::limits::MEMORY_BYTES_MIN as u64;
const KEY_BYTES: usize = 8;

/// What a replay gave.
pub(crate) struct Replayed {
    pub object_miss: f64,
    pub moves_per_request: f64,
    /// Live items that a full bucket threw out, of those that were stored.
    pub lost_share: f64,
}

/// `None` where the capacity is below what a cache can have.
pub(crate) fn replay(trace: &Trace, eviction: Eviction, capacity: u64) -> Result<Option<Replayed>> {
    if capacity < MEMORY_BYTES_MIN {
        return Ok(None);
    }
    let largest = trace.sizes.iter().max().copied().unwrap_or(0) as usize;
    let config = Config {
        memory_bytes: capacity as usize,
        value_bytes_max: largest.max(1024),
        eviction,
        ..Config::default()
    };
    let cache = Arc::new(Cache::new(&config)?);
    let mut worker = cache.worker(0).ok_or("no worker")?;
    let value = vec![7; largest];
    let mut misses = 0u64;
    for (number, request) in trace.requests.iter().enumerate() {
        let object = *request as usize;
        misses += u64::from(ask(&mut worker, trace, object, &value)?);
        if number % 10_000 == 0 {
            worker.maintain(1);
        }
    }
    let stats = cache.stats();
    let requests = trace.requests.len() as f64;
    Ok(Some(Replayed {
        object_miss: misses as f64 / requests,
        moves_per_request: (stats.reinserted + stats.promoted) as f64 / requests,
        lost_share: stats.evicted_bucket as f64 / stats.items_appended.max(1) as f64,
    }))
}

/// Asks for an object and stores it if it is missing, which is the result.
fn ask(worker: &mut Worker, trace: &Trace, object: usize, value: &[u8]) -> Result<bool> {
    let key = trace.names[object].to_le_bytes();
    let size = trace.sizes[object] as usize;
    // Sizes below a key's: a shorter key would not be another object's.
    let value = &value[..size.saturating_sub(KEY_BYTES)];
    let found = worker.get_with(&key, 1, |found, _| found.len() == value.len());
    match found.map_err(|outcome| format!("{outcome:?}"))? {
        Some(true) => Ok(false),
        Some(false) => Err("a value of another length".into()),
        None => match worker.set(&key, value, Expiry::NEVER, 1) {
            Outcome::Stored => Ok(true),
            outcome => Err(format!("not stored: {outcome:?}").into()),
        },
    }
}
