//! Requests made by laws: which items, how large, how often read and how often written.
//!
//! No input or output happens here. The same seed and thread number always give the same requests,
//! and nothing allocates once it has been made.
//!
//! | module | what it holds |
//! |---|---|
//! | [`Random`] | the generator that everything else draws from |
//! | [`Zipf`], [`ZipfGray`] | the law, exactly, and the fast approximation that many use |
//! | [`Popularity`], [`Sampler`] | the laws by name, and one of them ready to be drawn from |
//! | [`DataSet`] | lengths of keys and values |
//! | [`Keys`] | the key of an item |
//! | [`Values`] | the value of an item, which shows whether it belongs to its key |
//! | [`Items`] | keys and values of a run's items, whatever their lengths |
//! | [`Mix`], [`Requests`] | reads and writes, in the order of one thread |
//! | [`Pool`], [`PoolStream`] | the published pools of Facebook's Memcached: sizes, operations, locality |
//! | [`DailyStream`] | a pool by the time of the day |
//! | [`Preset`] | YCSB's workloads, MICA's data sets, InnerCache's mixes |
//! | [`Workload`] | all of those by name |
//! | [`EtcModel`] | lengths and times between requests by the published model of one of them |

mod data_set;
mod etc_model;
mod items;
mod key;
mod pool;
mod popularity;
mod preset;
mod random;
mod requests;
mod value;
mod workload;
mod zipf;
mod zipf_gray;

pub use data_set::{DataSet, KeyedLengths};
pub use etc_model::EtcModel;
pub use items::Items;
pub use key::{KEY_BYTES_MAX, Keys};
pub use pool::{DailyStream, Miss, Pool, PoolItem, PoolOperation, PoolOptions, PoolRequest, PoolStream};
pub use popularity::{ITEMS_MAX, Popularity, Sampler};
pub use preset::{Lengths, Preset};
pub use random::Random;
pub use requests::{Mix, Next, Requests};
pub use value::Values;
pub use workload::Workload;
pub use zipf::Zipf;
pub use zipf_gray::ZipfGray;
