//! Requests to a cache: recorded, made by laws, read from traces. The recording is always there and depends
//! on nothing; every other part is a feature:
//!
//! | module | feature | what it holds |
//! |---|---|---|
//! | [`recording`] | | the file that a server records a sample of its requests in |
//! | `synthetic` | `synthetic` | requests made by laws; its items stand at the crate's root |
//! | `figure` | `figure` | figures as SVG |
//! | `trace` | `trace` | traces of requests: readers, statistics, simulation |

#[cfg(feature = "figure")]
pub mod figure;
pub mod recording;
#[cfg(feature = "synthetic")]
mod synthetic;
#[cfg(feature = "trace")]
pub mod trace;

#[cfg(feature = "synthetic")]
pub use synthetic::{
    DailyStream, DataSet, EtcModel, ITEMS_MAX, Items, KEY_BYTES_MAX, KeyedLengths, Keys, Lengths, Miss, Mix,
    Next, Pool, PoolItem, PoolOperation, PoolOptions, PoolRequest, PoolStream, Popularity, Preset, Random,
    Requests, Sampler, Values, Workload, Zipf, ZipfGray,
};
