//! Models of races, run on the engine's own code: `scripts/test/loom`.
//!
//! loom explores the interleavings, and the values that relaxed loads may return, up to a bound of
//! preemptions. It does not see: mapped memory (regions are on the heap here, the mirror is a wrap
//! of the index), compiler reordering of plain accesses (there are none), more than one reader and
//! one writer at a time, second attempts of a read (each attempt begins anew). It knows the last
//! access to each place only: a thread that loads a place before it writes there hides what another
//! had read there, so the order of threads matters.
//!
//! Each model names the orderings that it covers: without one of them it fails.

mod copies;
mod flush;
mod index;
mod logs;
mod pages;
mod reads;
mod routes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;

use super::support::*;
use crate::index::bucket::Bucket;
use crate::index::tags::Scalar;
use crate::partition::{Hint, UNSURE};
use crate::reader::Read;
use crate::*;

const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];

fn model(test: impl Fn() + Send + Sync + 'static) {
    model_of(2, test);
}

/// Explores the orders of events with up to this many preemptions.
fn model_of(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        test();
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs > 1, "one order of events alone was explored");
}

/// Makes a cache of two buckets, and one log of `data_units`.
fn tiny(data_units: u64) -> Arc<Cache> {
    of_buckets(2, data_units)
}

fn of_buckets(buckets: u64, data_units: u64) -> Arc<Cache> {
    let geometry = Setup {
        buckets,
        data_units,
        value_bytes_max: 16,
        eviction: Eviction::Fifo,
        workers: 2,
        ..Setup::default()
    };
    geometry.cache()
}

/// Iterates over the two-byte keys of a bucket.
fn keys_of(cache: &Cache, bucket: u64) -> impl Iterator<Item = [u8; 2]> {
    let keys = (0..=u16::MAX).map(u16::to_le_bytes);
    keys.filter(move |key| bucket_of(cache, key) == bucket)
}

/// Returns the bucket of a key.
fn bucket_of(cache: &Cache, key: &[u8]) -> u64 {
    let p = &cache.partitions[0];
    p.index_hash(cache.hash(key)).bucket(p.all_buckets()) as u64
}

/// Runs `run` on another thread.
fn spawn<R: 'static>(cache: &Arc<Cache>, run: impl FnOnce(&Cache) -> R + 'static) -> thread::JoinHandle<R> {
    let cache = Arc::clone(cache);
    thread::spawn(move || run(&cache))
}

/// Reads without the fallback to the lock, which would hide the result of the optimistic read.
/// `None` if it was contended.
fn look(cache: &Cache, key: &[u8]) -> Option<Option<Vec<u8>>> {
    let hash = cache.hash(key);
    let request = Request { hash, key, operation: Operation::Get { cas: false } };
    let mut replies = Replies::default();
    let plain = crate::reader::PlainGet;
    let partition = cache.partition(hash);
    let read = partition.read((0, &hashed(partition, &request)), &plain, 0, &mut replies);
    if !matches!(read, Read::Done { .. }) {
        return None;
    }
    let reply = replies.0.pop().expect("a reply");
    Some((reply.outcome == Some(Outcome::Hit)).then_some(reply.value))
}

/// Returns the value of a key, if a read beside the writer finds it.
fn read(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    look(cache, key).flatten()
}

/// Returns what prefetching for a key without the right to write leaves.
fn hint_for<'a>(cache: &'a Cache, key: &[u8]) -> Hint<'a> {
    let hash = cache.hash(key);
    let partition = cache.partition(hash);
    let mut hint = partition.prefetch_bucket(partition.index_hash(hash), UNSURE);
    let bucket = Bucket::at(&partition.region, hint.bucket);
    partition.prefetch_item::<Scalar>(&mut hint, bucket);
    hint
}

/// Reads where the item was seen, without the fallback to a lookup. `None` if that tells nothing.
fn read_at(hint: &Hint<'_>, key: &[u8]) -> Option<Vec<u8>> {
    let mut replies = Replies::default();
    let plain = crate::reader::PlainGet;
    let read = hint.partition.read_hinted((0, key), &plain, hint, 0, &mut replies)?;
    assert!(matches!(read, Read::Done { .. }), "{read:?}");
    replies.0.pop().map(|reply| reply.value)
}

/// Reads the item of a hint as plain gets do. `None` if that tells nothing.
fn read_plain_at(hint: &Hint<'_>, key: &[u8]) -> Option<Vec<u8>> {
    let mut replies = Replies::default();
    let read = hint.partition.read_plain((0, key), hint, &mut replies)?;
    assert!(matches!(read, Read::Done { .. }), "{read:?}");
    replies.0.pop().map(|reply| reply.value)
}

/// Prefetches, then reads as plain gets do.
fn read_plain(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    read_plain_at(&hint_for(cache, key), key)
}

/// Prefetches, then reads where the item was seen.
fn read_seen(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    read_at(&hint_for(cache, key), key)
}
