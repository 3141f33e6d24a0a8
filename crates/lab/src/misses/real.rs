//! The engine itself, all of its memory counted: a trace replayed with demand fill, one request
//! at a time. Key and value together have the size that the trace gives.

use micanite_engine::Eviction;
use micanite_trace::simulate::{EngineCache, Frame};

use super::trace::Trace;
use crate::Result;

/// The least memory of a cache.
const MEMORY_BYTES_MIN: u64 = micanite_engine::limits::MEMORY_BYTES_MIN as u64;
/// It is always this second.
const NOW_S: u32 = 2;

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
    let largest = trace.sizes.iter().max().copied().unwrap_or(0);
    let mut cache = EngineCache::new(eviction, capacity, Frame::Memory, largest.into())?;
    let mut misses = 0u64;
    for request in &trace.requests {
        cache.set_now(NOW_S);
        let object = *request as usize;
        let (name, bytes) = (trace.names[object], u64::from(trace.sizes[object]));
        if !cache.get(name, 0) {
            misses += 1;
            cache.set(name, 0, bytes, 0);
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
