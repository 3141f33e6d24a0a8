//! The engine: partitions with index, logs or heap, operations, eviction, batch pipeline. No threads,
//! and no clock but that of [`SimpleCache`].
//!
//! ```
//! let cache = micanite_engine::SimpleCache::new(64 << 20)?;
//! cache.set("greeting", "hello")?;
//! assert_eq!(cache.get("greeting"), Some(b"hello".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`SimpleCache`] is the place to begin. The rest of this page is for programs with workers of their own.
//!
//! A [`Cache`] consists of a few partitions; the high bits of a key's hash choose one. A partition
//! is an index of cache-line buckets, and items in circular logs or in a heap, addressed by
//! offsets; `docs/partition-image.md` specifies its bytes. One thread writes it at a time. Others
//! may read it meanwhile: every bucket carries a version, every item contains its key, and a
//! concurrent reader checks both afterwards.
//!
//! ```text
//!  Worker::execute(batch)                          worker/pipeline.rs
//!    stage 1  prefetch the bucket of each key      index/bucket.rs
//!    stage 2  match tags, prefetch the items       index/entry.rs, log/
//!    stage 3  in order, each one of                operations/, reader/
//!             one worker:      the owner: no lock, no validation
//!             several workers: reads optimistic, writes under the partition's lock
//! ```
//!
//! A cache may miss: it evicts items when a log is full (at its head) or a chain is full, and items
//! expire. It never returns a wrong value.
//!
//! # Batches of a worker
//! ```
//! use micanite_engine::{Cache, Condition, Config, Expiry, Operation, Outcome, ReplySink, Request};
//! use micanite_engine::ValueMeta;
//!
//! #[derive(Default)]
//! struct Reply { value: Vec<u8>, outcome: Option<Outcome> }
//!
//! impl ReplySink for Reply {
//!     fn reserve(&mut self, _: usize, meta: ValueMeta) -> Option<&mut [u8]> {
//!         self.value.resize(meta.value_bytes, 0);
//!         Some(&mut self.value)
//!     }
//!     fn rollback(&mut self, _: usize) {}
//!     fn finish(&mut self, _: usize, outcome: Outcome) { self.outcome = Some(outcome) }
//! }
//!
//! let cache = std::sync::Arc::new(Cache::new(&Config { memory_bytes: 8 << 20, ..Config::default() })?);
//! let mut worker = cache.worker(0).unwrap();
//! let mut ask = |operation| {
//!     let mut reply = Reply::default();
//!     let key = b"greeting".as_slice();
//!     worker.execute(&[Request { hash: cache.hash(key), key, operation }], 0, &mut reply);
//!     reply
//! };
//! let (condition, value) = (Condition::Always, b"hello".as_slice());
//! ask(Operation::Store { condition, value, flags: 0, expiry: Expiry::NEVER });
//! let reply = ask(Operation::Get { cas: false });
//! assert_eq!((reply.outcome, reply.value), (Some(Outcome::Hit), b"hello".to_vec()));
//! # Ok::<(), micanite_engine::CreateError>(())
//! ```

mod access;
mod cache;
mod heap;
mod image;
mod index;
pub mod limits;
mod log;
mod operations;
mod partition;
mod reader;
mod region;
#[cfg(any(test, feature = "fuzz"))]
mod tests;
mod worker;
mod writer;

pub use access::{Access, Route};
pub use cache::chunks::AttachError;
pub use cache::config::{Config, Maps, Simulated};
pub use cache::error::{CreateError, CreateErrorKind};
pub use cache::footprint::Footprint;
pub use cache::layout::Layout;
pub use cache::nodes::{Bound, WorkerNodes};
pub use cache::stats::Stats;
pub use cache::{Cache, LimitError, RouteError};
pub use image::{ImageState, Resizing};
pub use index::hash::{BUCKET_BITS, Buckets, IndexHash, Secret, TAG_BITS};
pub use limits::{BATCH_REQUESTS_MAX, KEY_BYTES_MAX};
pub use log::item::Expiry;
pub use micanite_chunks::Entry as ChunkEntry;
pub use micanite_memory::Pages;
pub use micanite_wire::hash::KeyHash;
pub use operations::request::{
    Condition, ItemMeta, MetaArithmetic, MetaDelete, MetaGet, MetaStore, Operation, Outcome, ReplySink,
    Request, StoreMode, ValueMeta,
};
pub use partition::Semantics;
pub use partition::chunks::{ChunkConfig, ChunkStats, ChunkWrite};
pub use partition::eviction::Eviction;
pub use partition::item::ItemInfo;
pub use partition::namespace::TooManyNamespaces;
pub use reader::external::Geometry;
pub use reader::snapshot::Snapshot;
pub use reader::walk::{PART_ITEMS_MIN as WALK_PART_ITEMS_MIN, Visit, Visitor, Walk, Walked};
#[cfg(all(any(test, feature = "fuzz"), not(loom)))]
pub use tests::fuzz;
pub use worker::Worker;
pub use worker::outside::{ImageReader, OutsideRead};
pub use worker::simple_cache::{SetError, SimpleCache};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
