//! Checks of the header of an image before the image is mapped: it must fit the configuration.

use micanite_wire::hash::PARTITION_BITS;

use crate::cache::config::Config;
use crate::cache::layout::Layout;
use crate::image::source::HeaderWords;
use crate::index::hash::Secret;
use crate::limits::{BUCKET_WORDS, OFFSET_BITS, PARTITION_BYTES_MAX, SPLIT_BITS};
use crate::partition::eviction::Eviction;
use crate::partition::{PartitionLayout, Semantics};
use crate::region::Field;
use crate::region::fields::{LAYOUT_VERSION, LAYOUT_VERSION_WIDE, MAGIC};

/// Reason for not using an image.
#[derive(Debug)]
pub(super) enum Unusable {
    /// The image does not fit the configuration; a description.
    Other(String),
    /// No image can have this value; a description.
    Damaged(&'static str),
}

/// Returns whether an image has another size than the configuration wants.
pub(super) fn has_other_size(config: &Config, layout: &Layout) -> bool {
    Layout::whole_pages(config.memory_bytes_max() / layout.partitions) != layout.partition_bytes
}

/// Describes the size of an image that cannot have another one.
pub(super) fn other_size(config: &Config, layout: &Layout) -> String {
    let now_mib = (layout.partitions * layout.partition_bytes) >> 20;
    let wanted_mib = config.memory_bytes_max() >> 20;
    format!("the image has {now_mib} MiB of memory, not {wanted_mib} (-m)")
}

/// Returns the layout of an image, if it fits the configuration, whatever its size is.
pub(super) fn layout_of(config: &Config, header: &HeaderWords) -> Result<Layout, Unusable> {
    let word = |field: Field| header[field as usize];
    if word(Field::Magic) != MAGIC {
        return Err(Unusable::Damaged("its first word, which every image has"));
    }
    if ![LAYOUT_VERSION, LAYOUT_VERSION_WIDE].contains(&word(Field::LayoutVersion)) {
        return Err(Unusable::Other(format!(
            "the image has layout version {}, this program has {LAYOUT_VERSION}: remove it, or use \
             the program that made it",
            word(Field::LayoutVersion)
        )));
    }
    let semantics = if word(Field::Shape) >> 63 == 1 { Semantics::Store } else { Semantics::Cache };
    if semantics != config.semantics {
        return Err(Unusable::Other(format!(
            "the image is a {}, not a {} (--semantics)",
            semantics.name(),
            config.semantics.name()
        )));
    }
    let bits = word(Field::PartitionNumber) >> 32;
    let words = word(Field::RegionWords);
    if bits > u64::from(PARTITION_BITS) || words > (PARTITION_BYTES_MAX / 8) as u64 {
        return Err(Unusable::Damaged("its number of partitions, or their size"));
    }
    let layout = Layout {
        partitions: 1 << bits,
        partition_bytes: words as usize * 8,
        value_bytes_max: config.value_bytes_max,
    };
    let of = layout.partition(config, Secret::KNOWN, 0);
    with_own(of, header).map_err(Unusable::Damaged)?;
    if of.item_units_max != word(Field::ItemUnitsMax) {
        return Err(Unusable::Other(format!(
            "the largest item of the image has about {} bytes, not {} (-I)",
            word(Field::ItemUnitsMax) * 8,
            of.item_units_max * 8
        )));
    }
    let eviction = Eviction::ALL.get(word(Field::Eviction) as usize);
    if config.semantics == Semantics::Cache && eviction != Some(&config.eviction) {
        return Err(Unusable::Other(format!(
            "the image evicts by {}, not by {} (--eviction)",
            eviction.map_or("an unknown policy", |policy| policy.name()),
            config.eviction.name()
        )));
    }
    Ok(layout)
}

/// Returns the layout of a partition with the values that an image keeps: its seed, its secret, its initial
/// number of buckets, and the width of the offsets in its entries.
pub(super) fn with_own(of: PartitionLayout, header: &HeaderWords) -> Result<PartitionLayout, &'static str> {
    let word = |field: Field| header[field as usize];
    // The index leaves half of a partition to items, except for a rest.
    let index_words_max = of.region_words.saturating_sub(of.data_first() as u64) / 4 * 3;
    let buckets = word(Field::BucketsFirst);
    let is_possible = |lines: u64| lines <= index_words_max / BUCKET_WORDS as u64;
    // The number itself comes first: lines are computed exactly for numbers that are possible.
    if buckets < 2 || !is_possible(buckets) || !is_possible(of.index_lines(buckets)) {
        return Err("its number of buckets at first");
    }
    Ok(PartitionLayout {
        seed: word(Field::Seed),
        secret: Secret::of_words([word(Field::SecretLow), word(Field::SecretHigh)]),
        buckets,
        offset_bits: match word(Field::LayoutVersion) {
            LAYOUT_VERSION_WIDE => OFFSET_BITS + SPLIT_BITS,
            _ => of.offset_bits,
        },
        ..of
    })
}
