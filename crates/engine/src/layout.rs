//! How the memory of a cache is split: partitions, and index and log in each.

use crate::config::Config;
use crate::error::CreateError;
use crate::limits::{
    BUCKET_ENTRIES, HUGE_LOG_BYTES_MIN, IMAGE_HEADER_WORDS, KEY_BYTES_MAX, MEMORY_BYTES_MIN,
    OFFSET_BITS, PARTITION_ITEMS_MIN, PARTITION_LOG_BYTES_MIN, VALUE_BYTES_MAX,
    VALUE_BYTES_MAX_MIN,
};
use crate::log::item::Shape;
use crate::partition::PartitionLayout;
use micanite_memory::{HUGE_PAGE_BYTES, PAGE_BYTES};
use micanite_wire::hash::PARTITION_BITS;

/// Entries of the index per expected item, in percent: a load of 0.6, at which full buckets cost
/// about 3 % of the items (a load of 0.5, 0.7, 1.0: 1.2, 4.7, 14.9 %).
const ENTRIES_PER_ITEM_PERCENT: usize = 167;

/// Sizes derived from a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Partitions, a power of two.
    pub partitions: usize,
    /// Bytes of all indexes, header pages included.
    pub index_bytes: usize,
    /// Bytes of all logs.
    pub log_bytes: usize,
    /// Buckets of all indexes, each of 64 bytes and 7 entries.
    pub buckets: usize,
    /// The longest value taken.
    pub value_bytes_max: usize,
}

impl Layout {
    /// Splits the memory.
    ///
    /// # Errors
    /// Sizes out of range, and memory too small for the largest item twice.
    pub fn of(config: &Config) -> Result<Self, CreateError> {
        check(config)?;
        let item_bytes = item_bytes_max(config.value_bytes_max);
        let log_bytes = config.memory_bytes - index_share(config, config.memory_bytes);
        let least = PARTITION_LOG_BYTES_MIN.max(PARTITION_ITEMS_MIN * item_bytes);
        let wanted = (4 * config.workers).min(log_bytes / least).max(1);
        let partitions = (1 << wanted.ilog2()).min(1 << PARTITION_BITS);

        let memory_bytes = config.memory_bytes / partitions;
        let (index_bytes, log_bytes) = split(config, memory_bytes);
        if log_bytes < 2 * item_bytes {
            return Err(CreateError::new(format!(
                "{} bytes of memory hold a log of {log_bytes} bytes, too small for values of {} bytes: \
                 more memory, or a smaller largest value",
                config.memory_bytes, config.value_bytes_max
            )));
        }
        let buckets = (index_bytes - IMAGE_HEADER_WORDS * 8) / 64;
        Ok(Self {
            partitions,
            index_bytes: partitions * index_bytes,
            log_bytes: partitions * log_bytes,
            buckets: partitions * buckets,
            value_bytes_max: config.value_bytes_max,
        })
    }

    pub(crate) fn partition(&self, config: &Config, number: usize) -> PartitionLayout {
        let log_bytes = (self.log_bytes / self.partitions) as u64;
        PartitionLayout {
            number,
            partition_bits: self.partitions.ilog2(),
            seed: config.seed,
            buckets: (self.buckets / self.partitions) as u64,
            log_units: log_bytes / 8,
            item_units_max: item_bytes_max(self.value_bytes_max) as u64 / 8,
            offset_bits: OFFSET_BITS,
            reinsert_distance_units: config.eviction.reinsert_distance_bytes(log_bytes) / 8,
        }
    }
}

fn check(config: &Config) -> Result<(), CreateError> {
    let refused = |what: &str, value: usize, least: usize, most: usize| {
        CreateError::new(format!("{what} is {value}, must be {least} to {most}"))
    };
    let in_range = |what, value, least, most| {
        if (least..=most).contains(&value) {
            Ok(())
        } else {
            Err(refused(what, value, least, most))
        }
    };
    in_range(
        "memory in bytes",
        config.memory_bytes,
        MEMORY_BYTES_MIN,
        1 << 46,
    )?;
    in_range(
        "largest value in bytes",
        config.value_bytes_max,
        VALUE_BYTES_MAX_MIN,
        VALUE_BYTES_MAX,
    )?;
    in_range(
        "expected item in bytes",
        config.item_bytes_hint,
        2,
        VALUE_BYTES_MAX,
    )?;
    in_range("workers", config.workers, 1, 1 << PARTITION_BITS)
}

/// Bytes in the log of the largest item.
fn item_bytes_max(value_bytes_max: usize) -> usize {
    let shape = Shape {
        key_bytes: KEY_BYTES_MAX,
        value_bytes: value_bytes_max,
        meta: true,
        cas: true,
    };
    shape.units() as usize * 8
}

/// Bytes of an index for as many items of the expected size as fit beside it.
fn index_share(config: &Config, memory_bytes: usize) -> usize {
    // Header, half of the items with flags or an expiry, rounding up to 8: 16 bytes.
    let item_bytes = (config.item_bytes_hint + 16) / 8 * 8;
    let index_bytes = 64 * ENTRIES_PER_ITEM_PERCENT / (BUCKET_ENTRIES * 100);
    (memory_bytes as u128 * index_bytes as u128 / (item_bytes + index_bytes) as u128) as usize
}

/// Bytes of index and log of a partition of `memory_bytes`.
fn split(config: &Config, memory_bytes: usize) -> (usize, usize) {
    let header_bytes = IMAGE_HEADER_WORDS * 8;
    let index_bytes = index_share(config, memory_bytes).max(2 * header_bytes);
    let log_bytes = memory_bytes - index_bytes;
    let page = if log_bytes >= HUGE_LOG_BYTES_MIN {
        HUGE_PAGE_BYTES
    } else {
        PAGE_BYTES
    };
    // The log is cut to whole pages; the index takes the rest, if that is not a huge page more.
    let log_bytes = log_bytes / page * page;
    (
        index_bytes
            .next_multiple_of(PAGE_BYTES)
            .min(memory_bytes - log_bytes),
        log_bytes,
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Eviction;
    use proptest::prelude::*;

    fn config(memory_bytes: usize, value_bytes_max: usize, workers: usize) -> Config {
        Config {
            memory_bytes,
            item_bytes_hint: 100,
            value_bytes_max,
            workers,
            eviction: Eviction::Fifo,
            seed: 0,
        }
    }

    proptest! {
        #[test]
        fn a_layout_stays_within_its_memory(
            memory_bytes in MEMORY_BYTES_MIN..1usize << 40,
            value_shift in 10u32..30,
            hint in 2usize..100_000,
            workers in 1usize..200,
        ) {
            let mut config = config(memory_bytes, 1 << value_shift, workers);
            config.item_bytes_hint = hint;
            if let Ok(layout) = Layout::of(&config) {
                prop_assert!(layout.index_bytes + layout.log_bytes <= memory_bytes);
                prop_assert!(layout.log_bytes + layout.index_bytes > memory_bytes * 7 / 8);
                prop_assert!(layout.partitions.is_power_of_two());
                prop_assert!(layout.partitions <= 4 * workers);
                let partition = layout.partition(&config, 0);
                prop_assert!(partition.log_units >= 2 * partition.item_units_max);
                prop_assert!(partition.buckets > 0);
            }
        }
    }

    #[test]
    fn small_memories_have_few_partitions() {
        let partitions = |mib: usize, value: usize, workers| {
            Layout::of(&config(mib << 20, value, workers))
                .unwrap()
                .partitions
        };
        assert_eq!(partitions(64, 1 << 20, 1), 2);
        assert_eq!(partitions(64, 16 << 20, 4), 1);
        assert_eq!(partitions(1024, 1 << 20, 1), 4);
        assert_eq!(partitions(1024, 1 << 20, 4), 16);
    }

    #[test]
    fn memory_that_cannot_hold_its_largest_value_is_refused() {
        let error = Layout::of(&config(64 << 20, 40 << 20, 1)).unwrap_err();
        assert!(error.to_string().contains("too small"), "{error}");
        assert!(Layout::of(&config(1, 1 << 20, 1)).is_err());
        assert!(Layout::of(&config(64 << 20, 1 << 20, 0)).is_err());
    }
}
