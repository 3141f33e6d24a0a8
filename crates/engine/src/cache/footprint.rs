//! Memory that items take, for plans.

use crate::limits::{
    BUCKET_ENTRIES, BUCKET_WORDS, INDEX_LOAD_SIXTEENTHS, MAIN_PER_SPARE_CACHE, MAIN_PER_SPARE_STORE,
};
use crate::log::LAP_SHARE;
use crate::log::item::Shape;
use crate::partition::Semantics;

/// Memory that an item takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Footprint {
    /// Bytes in a log or in the heap: header, key, value, padding.
    pub item_bytes: usize,
    /// Bytes of the index: its share of main and spare buckets.
    pub index_bytes: f64,
    /// Factor for space that holds no item: what a log gives up per lap.
    pub slack: f64,
}

impl Footprint {
    /// Returns the memory of an item with these lengths, without expiry.
    pub fn of(key_bytes: usize, value_bytes: usize, semantics: Semantics) -> Self {
        let is_store = semantics == Semantics::Store;
        let shape = Shape { key_bytes, value_bytes, meta: false, state: false, cas: is_store };
        let (main_per_spare, slack) = match semantics {
            Semantics::Cache => (MAIN_PER_SPARE_CACHE, 1.0 + 1.0 / LAP_SHARE as f64),
            Semantics::Store => (MAIN_PER_SPARE_STORE, 1.0),
        };
        let lines = 1.0 + 1.0 / main_per_spare as f64;
        // A bucket is split when the index holds this many items for each main bucket.
        let items = (BUCKET_ENTRIES as u64 * INDEX_LOAD_SIXTEENTHS) as f64 / 16.0;
        let index_bytes = (BUCKET_WORDS * 8) as f64 * lines / items;
        Self { item_bytes: shape.units() as usize * 8, index_bytes, slack }
    }

    /// Returns the memory in which so many of these items have room.
    pub fn memory_bytes(&self, items: f64) -> f64 {
        items * (self.item_bytes as f64 + self.index_bytes) * self.slack
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tests::support::Client;
    use crate::{Cache, Config, Outcome};

    /// A full cache holds as many items as the formula says, within 8 %.
    #[test]
    fn a_full_cache_holds_what_the_formula_says() {
        for value_bytes in [8usize, 64, 1024] {
            let config = Config { memory_bytes: 16 << 20, value_bytes_max: 4096, ..Config::default() };
            let cache = Arc::new(Cache::new(&config).unwrap());
            let mut client = Client::new(&cache, 0);
            let footprint = Footprint::of(8, value_bytes, Semantics::Cache);
            let expected = config.memory_bytes as f64 / footprint.memory_bytes(1.0);
            let value = vec![1; value_bytes];
            for number in 0..(expected * 2.0) as u64 {
                assert_eq!(client.set(&number.to_le_bytes(), &value), Outcome::Stored);
            }
            let items = cache.stats().items_live as f64;
            assert!((items / expected - 1.0).abs() < 0.08, "{value_bytes}: {items} of {expected}");
        }
    }
}
