//! What a cache is asked for: which items, how large, how often read and how often written.
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
//! | [`Mix`], [`Requests`] | reads and writes, in the order of one thread |

mod data_set;
mod key;
mod popularity;
mod random;
mod requests;
mod value;
mod zipf;
mod zipf_gray;

pub use data_set::DataSet;
pub use key::{KEY_BYTES_MAX, Keys};
pub use popularity::{ITEMS_MAX, Popularity, Sampler};
pub use random::Random;
pub use requests::{Mix, Requests};
pub use value::Values;
pub use zipf::Zipf;
pub use zipf_gray::ZipfGray;
