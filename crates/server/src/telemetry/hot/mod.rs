//! Keys that are asked for most now: a sketch per worker, of some hundred requests a second.
//!
//! ```text
//!  a batch has run -> count down to the next sample --- not yet: nothing else
//!                                                  '-- the key of that request -> Space-Saving
//! ```
//!
//! The number of requests between two samples follows the load, so that sampling costs the same at a thousand
//! requests a second and at ten million: see `sketch`. Counts fade with a half-life of `sketch::HALF_LIFE_S`
//! seconds.

mod sketch;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, TryLockError};

use micanite_engine::Request;

use crate::telemetry::table::Counter;
use sketch::Sketch;
pub use sketch::{HALF_LIFE_S, KEYS_MAX};

/// Samples skipped while somebody reads the sketch.
const RETRY_REQUESTS: u64 = 256;

/// The sketch of a worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct HotKeys {
    /// Requests until the next sample; the worker alone writes it.
    left: Counter,
    /// When it last took a sample.
    sampled_s: Counter,
    /// The worker only tries to lock: it never waits for a reader, and leaves the sample out.
    sketch: Mutex<Sketch>,
}

impl HotKeys {
    /// Bytes of one worker's.
    pub const BYTES: usize = size_of::<Self>() + Sketch::BYTES;

    /// Nothing was asked for yet. Every seed is good.
    pub fn new(seed: u64) -> Self {
        Self {
            left: Counter::default(),
            sampled_s: Counter::default(),
            sketch: Mutex::new(Sketch::new(seed)),
        }
    }

    /// Looks at requests that the worker has executed.
    #[inline]
    pub fn note(&self, requests: &[Request<'_>], now_s: u32) {
        let (left, count) = (self.left.get(), requests.len() as u64);
        if left >= count {
            self.left.set(left - count);
        } else {
            self.sample(requests, now_s);
        }
    }

    /// From time to time: if there was no sample for a second, the next request is one.
    pub fn calm(&self, now_s: u32) {
        if u64::from(now_s) > self.sampled_s.get() + 1 {
            self.left.set(0);
        }
    }

    #[cold]
    fn sample(&self, requests: &[Request<'_>], now_s: u32) {
        let mut sketch = match self.sketch.try_lock() {
            Ok(sketch) => sketch,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.left.set(RETRY_REQUESTS),
        };
        let mut next = self.left.get() as usize;
        while let Some(request) = requests.get(next) {
            next += sketch.sample(request.hash.0, request.key, now_s) as usize;
        }
        self.left.set((next - requests.len()) as u64);
        self.sampled_s.set(now_s.into());
    }
}

/// A key that is asked for often.
#[derive(Clone, Debug, PartialEq)]
pub struct HotKey {
    /// The key.
    pub key: Box<[u8]>,
    /// Share of all requests that are for it, 0 to 1.
    pub share: f64,
}

/// The hottest keys of all workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hottest {
    /// The hottest first.
    pub keys: Vec<HotKey>,
    /// On how many samples this rests, faded ones counted in part.
    pub samples: f64,
}

impl Hottest {
    /// One JSON object. Printed keys need no escaping in it.
    pub fn json(&self) -> String {
        let keys = self.keys.iter().map(|hot| {
            let (key, share) = (printed(&hot.key), hot.share);
            format!(r#"{{"key":"{key}","share":{share:.6}}}"#)
        });
        format!(
            "{{\"half_life_seconds\":{},\"samples\":{:.0},\"keys\":[{}]}}\n",
            HALF_LIFE_S,
            self.samples,
            keys.collect::<Vec<_>>().join(",")
        )
    }
}

/// The hottest keys of all workers together.
pub fn hottest(workers: &[HotKeys], now_s: u32, keys_max: usize) -> Hottest {
    let mut weights: HashMap<Box<[u8]>, f64> = HashMap::new();
    let (mut total, mut samples) = (0.0, 0.0);
    for worker in workers {
        let sketch = worker.sketch.lock();
        let sketch = sketch.unwrap_or_else(PoisonError::into_inner);
        let faded = sketch.read(now_s, |key, weight| {
            *weights.entry(key.into()).or_default() += weight;
        });
        total += faded.weight;
        samples += faded.samples;
    }
    let mut keys: Vec<_> =
        weights.into_iter().map(|(key, weight)| HotKey { key, share: weight / total }).collect();
    keys.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.key.cmp(&b.key)));
    keys.truncate(keys_max);
    Hottest { keys, samples }
}

/// A key in print, as `lru_crawler metadump` shows keys: what is not letter, digit or one of
/// `-._~` as `%` and two digits.
pub fn printed(key: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(key.len());
    for byte in key {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests;
