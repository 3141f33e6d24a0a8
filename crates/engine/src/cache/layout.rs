//! Division of the memory of a cache into partitions, in which index and items share the memory.

use crate::cache::config::{Config, Simulated};
use crate::cache::error::CreateError;
use crate::heap::Heap;
use crate::index::hash::Secret;
use crate::limits::{
    BUCKET_ENTRIES, BUCKET_WORDS, IMAGE_HEADER_WORDS, INDEX_LOAD_SIXTEENTHS, KEY_BYTES_MAX,
    MAIN_PER_SPARE_CACHE, MEMORY_BYTES_MIN, OFFSET_BITS, PARTITION_BYTES_MAX, PARTITION_BYTES_MIN,
    PARTITION_ITEMS_MIN, RESERVE_SHARE, VALUE_BYTES_MAX, VALUE_BYTES_MAX_MIN,
};
use crate::log::item::Shape;
use crate::partition::PartitionLayout;
use crate::partition::Semantics;
use micanite_memory::{HUGE_PAGE_BYTES, PAGE_BYTES};
use micanite_wire::hash::PARTITION_BITS;

/// A partition of this size or more is a multiple of a huge page.
const HUGE_PARTITION_BYTES_MIN: usize = 32 << 20;
/// Without a hint the index begins with one bucket for this much memory, and grows from there.
const BYTES_PER_BUCKET: usize = 6100;
/// Least memory of a simulated cache.
const SIMULATED_BYTES_MIN: usize = 1 << 10;
/// Lines for the index of the smallest simulated cache.
const SIMULATED_LINES_MIN: usize = 64;
/// Least part of a partition that the index leaves to items, in percent.
const DATA_PERCENT_MIN: usize = 50;

/// Sizes derived from a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Partitions, a power of two.
    pub partitions: usize,
    /// Bytes of a partition, index and header included.
    pub partition_bytes: usize,
    /// Longest value that is accepted.
    pub value_bytes_max: usize,
}

impl Layout {
    /// Returns the most bytes that recovery after a kill takes beside the memory: a bit for each
    /// word of one partition, and a byte for each of its spare buckets.
    pub fn recovery_bytes(&self) -> usize {
        let lines = self.partition_bytes / (BUCKET_WORDS * 8);
        self.partition_bytes / 64 + lines / (MAIN_PER_SPARE_CACHE as usize + 1)
    }

    /// Divides the memory.
    ///
    /// # Errors
    /// Sizes out of range, and memory too small for several of the largest items.
    pub fn of(config: &Config) -> Result<Self, CreateError> {
        check(config)?;
        if let Some(simulated) = config.simulated {
            return Self::simulated(config, simulated);
        }
        Self::of_count(config, Self::count(config)?)
    }

    /// Divides the memory into so many partitions, if it can be, and as [`Self::of`] otherwise: each key
    /// then stays in its partition.
    pub(crate) fn keeping(config: &Config, partitions: usize) -> Result<Self, CreateError> {
        check(config)?;
        let can_be = config.memory_bytes_max().div_ceil(config.partition_bytes_max) <= partitions;
        match can_be.then(|| Self::of_count(config, partitions)) {
            Some(Ok(layout)) => Ok(layout),
            _ => Self::of(config),
        }
    }

    fn of_count(config: &Config, partitions: usize) -> Result<Self, CreateError> {
        let partition_bytes = Self::whole_pages(config.memory_bytes_max() / partitions);
        let layout = Self { partitions, partition_bytes, value_bytes_max: config.value_bytes_max };
        let partition = layout.partition(config, Secret::KNOWN, 0);
        if !partition.within(partition.limit_words).has_room() {
            let (memory, advice) = if config.memory_bytes_max() > config.partition_bytes_max {
                let bytes = config.partition_bytes_max;
                (format!("partitions of at most {bytes} bytes"), "")
            } else {
                let bytes = config.memory_bytes;
                (format!("{bytes} bytes of memory"), "more memory, or ")
            };
            return Err(CreateError::new(format!(
                "{memory} are too small for values of {} bytes: {advice}a smaller largest value",
                config.value_bytes_max
            )));
        }
        Ok(layout)
    }

    /// Returns the number of partitions.
    pub(super) fn count(config: &Config) -> Result<usize, CreateError> {
        let item_bytes = item_bytes_max(config.value_bytes_max);
        let least = PARTITION_BYTES_MIN.max(PARTITION_ITEMS_MIN * item_bytes);
        let wanted = (4 * config.workers).min(config.memory_bytes / least).max(1);
        let least = config.memory_bytes_max().div_ceil(config.partition_bytes_max);
        let partitions = (1 << wanted.ilog2()).max(least.next_power_of_two());
        if partitions > 1 << PARTITION_BITS {
            return Err(CreateError::new(format!(
                "{} bytes of memory are too many: {} partitions of {} bytes at most",
                config.memory_bytes_max(),
                1 << PARTITION_BITS,
                config.partition_bytes_max
            )));
        }
        Ok(partitions)
    }

    /// Makes one partition, whose header is not part of the memory.
    fn simulated(config: &Config, simulated: Simulated) -> Result<Self, CreateError> {
        let is_other = config.image.is_some() || config.maps.is_some();
        if is_other || config.semantics == Semantics::Store {
            let reason = "only a cache without an image can stand for another one";
            return Err(CreateError::new(reason.into()));
        }
        let line_bytes = BUCKET_WORDS * 8;
        let data_bytes = config.memory_bytes / line_bytes * line_bytes;
        let index_bytes = match simulated {
            Simulated::Memory => 0,
            // An item has at least two units.
            Simulated::Items => data_bytes / 2 * 3 + SIMULATED_LINES_MIN * line_bytes,
        };
        let layout = Self {
            partitions: 1,
            partition_bytes: IMAGE_HEADER_WORDS * 8 + data_bytes + index_bytes,
            value_bytes_max: config.value_bytes_max,
        };
        if layout.partition_bytes > PARTITION_BYTES_MAX {
            let reason = format!("{} bytes are too many to simulate", config.memory_bytes);
            return Err(CreateError::new(reason));
        }
        Ok(layout)
    }

    /// Rounds the bytes of a partition down to whole pages, huge ones if it is large.
    pub(crate) fn whole_pages(bytes: usize) -> usize {
        bytes / Self::page_of(bytes) * Self::page_of(bytes)
    }

    /// Rounds the bytes of a partition up to whole pages.
    pub(crate) fn whole_pages_for(bytes: usize) -> usize {
        bytes.checked_next_multiple_of(Self::page_of(bytes)).unwrap_or(usize::MAX)
    }

    fn page_of(partition_bytes: usize) -> usize {
        if partition_bytes >= HUGE_PARTITION_BYTES_MIN { HUGE_PAGE_BYTES } else { PAGE_BYTES }
    }

    /// Returns the words that a partition uses at first.
    fn limit_words(&self, config: &Config) -> u64 {
        let bytes = match config.simulated {
            Some(_) => self.partition_bytes,
            None => Self::whole_pages(config.memory_bytes / self.partitions).min(self.partition_bytes),
        };
        (bytes / 8) as u64
    }

    pub(crate) fn partition(&self, config: &Config, secret: Secret, number: usize) -> PartitionLayout {
        let item_units_max = item_bytes_max(self.value_bytes_max) as u64 / 8;
        let state_words = match config.semantics {
            Semantics::Cache => 0,
            Semantics::Store => Heap::state_words(item_units_max as usize),
        };
        let data_bytes = self.partition_bytes.saturating_sub((IMAGE_HEADER_WORDS + state_words) * 8);
        let data_units_min = (data_bytes / 100 * DATA_PERCENT_MIN / 8) as u64;
        let region_words = (self.partition_bytes / 8) as u64;
        let limit_words = self.limit_words(config);
        let outlives = config.image.is_some() || config.maps.is_some();
        let reserve_units = match config.semantics {
            Semantics::Store if outlives => item_units_max.min(region_words / RESERVE_SHARE),
            _ => 0,
        };
        let (data_units_min, data_units_max) = match config.simulated {
            Some(Simulated::Items) => {
                let units = (config.memory_bytes / (BUCKET_WORDS * 8) * BUCKET_WORDS) as u64;
                (units, units)
            }
            _ => (data_units_min + reserve_units, u64::MAX),
        };
        let mut partition = PartitionLayout {
            number,
            partition_bits: self.partitions.ilog2(),
            seed: config.seed,
            secret,
            semantics: config.semantics,
            policy: config.eviction.policy(),
            region_words,
            limit_words,
            buckets: buckets(
                config,
                data_bytes.saturating_sub(self.partition_bytes - limit_words as usize * 8),
            ),
            data_units_max,
            data_units_min,
            item_units_max,
            reserve_units,
            offset_bits: OFFSET_BITS,
            namespace_delimiter: config.namespace_delimiter,
        };
        // A hint of tiny items must not take more than the index may have.
        let most = partition.buckets_beside(partition.data_units_min);
        partition.buckets = partition.buckets.min(most).max(BUCKETS_MIN);
        partition
    }
}

/// Least main buckets of an index.
const BUCKETS_MIN: u64 = 2;

/// Returns the initial number of main buckets.
fn buckets(config: &Config, data_bytes: usize) -> u64 {
    let bytes_per_bucket = config.item_bytes_hint.map_or(BYTES_PER_BUCKET, |item_bytes| {
        // Header and rounding of the items that a bucket has, and the bucket with its spare.
        let items = BUCKET_ENTRIES * INDEX_LOAD_SIXTEENTHS as usize / 16;
        (item_bytes + 16) / 8 * 8 * items + BUCKET_WORDS * 8 * 11 / 10
    });
    (data_bytes / bytes_per_bucket) as u64
}

fn check(config: &Config) -> Result<(), CreateError> {
    let refused = |what: &str, value: usize, least: usize, most: usize| {
        CreateError::new(format!("{what} is {value}, must be {least} to {most}"))
    };
    let in_range = |what, value, least, most| {
        if (least..=most).contains(&value) { Ok(()) } else { Err(refused(what, value, least, most)) }
    };
    in_range(
        "memory in bytes",
        config.memory_bytes,
        match config.simulated {
            Some(_) => SIMULATED_BYTES_MIN,
            None => MEMORY_BYTES_MIN,
        },
        1 << 46,
    )?;
    in_range("largest memory in bytes", config.memory_bytes_max(), config.memory_bytes, 1 << 46)?;
    in_range(
        "largest partition in bytes",
        config.partition_bytes_max,
        MEMORY_BYTES_MIN,
        PARTITION_BYTES_MAX,
    )?;
    in_range("largest value in bytes", config.value_bytes_max, VALUE_BYTES_MAX_MIN, VALUE_BYTES_MAX)?;
    if let Some(hint) = config.item_bytes_hint {
        in_range("expected item in bytes", hint, 2, VALUE_BYTES_MAX)?;
    }
    in_range("workers", config.workers, 1, 1 << PARTITION_BITS)
}

/// Returns the bytes that the largest item takes in the log.
fn item_bytes_max(value_bytes_max: usize) -> usize {
    let shape =
        Shape { key_bytes: KEY_BYTES_MAX, value_bytes: value_bytes_max, meta: true, state: true, cas: true };
    shape.units() as usize * 8
}

#[cfg(all(test, not(loom)))]
mod tests;
