//! The five pools of Facebook's Memcached that were published: operations, keys, sizes, popularity.
//!
//! ```
//! use micanite_workload::{Pool, PoolOperation};
//!
//! let pool: Pool = "fb-etc".parse()?;
//! let (keys, seed) = (100_000, 1);
//! for item in pool.prefill(keys) {
//!     let (mut key, mut value) = (Vec::new(), Vec::new());
//!     item.push_key(&mut key);
//!     item.push_value(0, &mut value);
//!     // ... and stores them. From then on a GET hits at the pool's rate:
//! }
//! for request in pool.stream(keys, seed).take(1000) {
//!     match request.operation {
//!         PoolOperation::Get => { /* request.item, which is to hit if request.miss is none */ }
//!         PoolOperation::Update => { /* stores request.item with a version of the caller's */ }
//!         PoolOperation::Delete => {}
//!     }
//! }
//! # Ok::<_, String>(())
//! ```
//!
//! The caller decides whether the client stores values that a GET has missed (demand fill of a look-aside
//! cache). This is independent of the mix of operations: see [`Miss`].

mod daily;
mod item;
mod lengths;
mod parameters;
mod residents;
mod rings;
mod skew;
mod stream;

use std::fmt;
use std::str::FromStr;

pub use daily::DailyStream;
pub use item::PoolItem;
pub use stream::{Miss, PoolOperation, PoolOptions, PoolRequest, PoolStream};

/// A pool: a class of keys with servers of its own. `FromStr` and `Display` take and give
/// `fb-usr`, `fb-app`, `fb-etc`, `fb-var` and `fb-sys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pool {
    /// Status of user accounts: nearly nothing but GETs of tiny values.
    Usr,
    /// Metadata of one application's objects.
    App,
    /// Other data: the largest pool, with the most varied sizes.
    Etc,
    /// Browser information on the server's side: mostly written.
    Var,
    /// Locations of services; cached by its clients, so that few keys are asked for at a time.
    Sys,
}

impl Pool {
    /// All pools, in the papers' order.
    pub const ALL: [Self; 5] = [Self::Usr, Self::App, Self::Etc, Self::Var, Self::Sys];

    /// Returns the pool's requests over `keys` resident items, without end: [`PoolStream::new`] with the
    /// pool's own mix, for a single thread.
    ///
    /// # Panics
    /// When there are no keys, or more than [`crate::ITEMS_MAX`].
    pub fn stream(self, keys: u64, seed: u64) -> PoolStream {
        PoolStream::new(self, PoolOptions::new(keys, seed))
    }

    /// Returns the items that a server holds at the start so that GETs hit at the pool's rate: the `keys`
    /// resident items, most popular first, and a few (at most about a quarter more) that are invalidated
    /// again and again.
    pub fn prefill(self, keys: u64) -> impl ExactSizeIterator<Item = PoolItem> {
        let all = usize::try_from(self.prefill_items(keys)).unwrap_or(usize::MAX);
        (0..all).map(move |at| self.prefill_item(keys, at as u64))
    }

    /// Number of items of [`Self::prefill`].
    pub fn prefill_items(self, keys: u64) -> u64 {
        keys + stream::invalidated_items(self, keys)
    }

    /// The item at a place in [`Self::prefill`].
    pub fn prefill_item(self, keys: u64, at: u64) -> PoolItem {
        self.item(match at.checked_sub(keys) {
            None => at,
            Some(place) => stream::INVALIDATED + place,
        })
    }

    /// Returns whether the item of this number, of whatever pool, is one of the resident ones, which are in
    /// the server from the start to the end.
    #[inline]
    pub const fn is_resident(number: u64) -> bool {
        number & ((1 << stream::NUMBER_BITS) - 1) < stream::INVALIDATED
    }

    /// An item by its number within the pool.
    #[inline]
    const fn item(self, within: u64) -> PoolItem {
        PoolItem { pool: self, number: ((self as u64) << stream::NUMBER_BITS) + within }
    }

    /// Fractions of GET, UPDATE and DELETE among the requests; together 1.
    pub fn mix(self) -> [f64; 3] {
        let mix = self.parameters().mix;
        mix.map(|part| part / mix.iter().sum::<f64>())
    }

    /// Fraction of the GETs that hit.
    pub fn hit_rate(self) -> f64 {
        self.parameters().hits / 100.0
    }

    /// Fraction of the misses that have this cause.
    pub fn miss_share(self, cause: Miss) -> f64 {
        self.parameters().misses[cause as usize] / 100.0
    }

    /// GETs per second of one of the pool's servers.
    pub fn gets_per_s(self) -> f64 {
        self.parameters().gets_per_s
    }

    /// GETs, hits and misses, in an hour of the pool's time: with `keys` resident items the hour is
    /// scaled down as they are. What is said about reuse within hours holds for hours of so many GETs.
    pub fn gets_per_hour(self, keys: u64) -> f64 {
        self.parameters().gets_per_key_hour * keys as f64
    }

    /// Returns the number of items of a server whose GETs hit at the pool's rate when its clients store the
    /// items that they miss. With many more, the items that are requested once a day stay, too; with many
    /// fewer, resident ones are evicted.
    pub fn items_held(self, keys: u64) -> u64 {
        self.prefill_items(keys) + stream::passing_items(self, keys)
    }

    pub fn key_bytes_max(self) -> usize {
        self.parameters().key_bytes.longest()
    }

    pub fn value_bytes_max(self) -> usize {
        self.parameters().value_bytes.longest()
    }
}

impl FromStr for Pool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().find(|pool| pool.to_string() == text);
        named.copied().ok_or_else(|| format!("'{text}' is no pool: fb-usr, fb-app, fb-etc, fb-var or fb-sys"))
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parameters().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for pool in Pool::ALL {
            assert_eq!(pool.to_string().parse(), Ok(pool));
        }
        assert!("etc".parse::<Pool>().unwrap_err().contains("fb-etc"));
    }

    #[test]
    fn prefilled_items_are_different_and_as_many_as_said() {
        for pool in Pool::ALL {
            let items: std::collections::HashSet<_> = pool.prefill(1000).collect();
            assert_eq!(items.len(), pool.prefill(1000).len());
            assert!((1000..1300).contains(&items.len()), "{}", items.len());
        }
    }

    #[test]
    fn the_causes_of_misses_are_all_of_them() {
        for pool in Pool::ALL {
            let causes = [Miss::Compulsory, Miss::Invalidation, Miss::Eviction];
            let sum: f64 = causes.iter().map(|cause| pool.miss_share(*cause)).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{pool}: {sum}");
            assert!((pool.mix().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }
}
