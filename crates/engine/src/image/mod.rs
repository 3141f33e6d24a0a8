//! Images: partitions in files, or in memory of the kernel, which a later process goes on with.
//!
//! An image holds offsets only, its own seed and its layout, so it can be mapped anywhere. While
//! a process has it open it is marked as not clean. One that was left so is checked
//! ([`recover`](super::partition)) if the machine has not been started anew since: then the
//! kernel still has every word that was written. Otherwise it is discarded (a cache) or refused
//! (a store).

mod copy;
mod recover;
mod snapshot;
mod source;

use std::fs::{self, File};

use micanite_wire::hash::KeyHash;

use crate::config::{Config, Semantics};
use crate::error::CreateError;
use crate::eviction::Eviction;
use crate::index::hash::Secret;
use crate::layout::Layout;
use crate::limits::IMAGE_HEADER_WORDS;
use crate::log::Which;
use crate::partition::fields::{LAYOUT_VERSION, MAGIC};
use crate::partition::{Field, LogField, Partition, PartitionLayout};

pub use snapshot::Snapshot;
pub(crate) use source::Source;

/// What was found where the image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// There is no image: the memory is the process's own.
    None,
    /// There was none, or an empty directory.
    Created,
    /// It was closed by the process before.
    Clean,
    /// The process before was killed; what was half written has been removed.
    Recovered,
    /// It could not be trusted, and a new one was made.
    Discarded {
        /// Why.
        reason: String,
    },
}

/// Partitions, and what was found.
pub(crate) struct Opened {
    pub partitions: Vec<Partition>,
    pub layout: Layout,
    pub seed: u64,
    pub state: ImageState,
    /// Holds the directory against other processes.
    pub lock: Option<File>,
}

/// Opens the image in a place, or makes one.
pub(crate) fn open(config: &Config, source: &Source<'_>) -> Result<Opened, CreateError> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        CreateError::new(format!("{what} {source}: {error}"))
    };
    let lock = source.lock()?;
    let header = source.header().map_err(|error| failed("in", &error))?;
    let Some(header) = header else {
        return create(config, source, ImageState::Created, lock);
    };
    let (layout, seed) = check(config, &header).map_err(|reason| failed("in", &reason))?;
    let secret = [Field::SecretLow, Field::SecretHigh].map(|field| header[field as usize]);
    let secret = Secret::of_words(secret);
    source.check_count(&layout)?;
    let buckets = header[Field::BucketsFirst as usize];
    let mut partitions = Vec::new();
    for number in 0..layout.partitions {
        let of = PartitionLayout {
            seed,
            buckets,
            ..layout.partition(config, secret, number)
        };
        let region = source.map(number, layout.partition_bytes, false);
        let region = region.map_err(|error| failed("cannot map partitions in", &error))?;
        partitions.push(Partition::of(region, of));
    }
    let clean = partitions
        .iter()
        .all(|partition| partition.get(Field::Clean) == 1);
    let same_boot = partitions
        .iter()
        .all(|partition| partition.get(Field::Boot) == boot());
    if !clean && !same_boot {
        let reason = "the machine was started anew while it was in use".to_owned();
        if config.semantics == Semantics::Store {
            let reason = format!("{reason}; remove it to begin with an empty store");
            return Err(failed("cannot trust the image in", &reason));
        }
        drop(partitions);
        return create(config, source, ImageState::Discarded { reason }, lock);
    }
    for partition in &partitions {
        if partition.header_differs(&header) || !clean && !partition.recover() {
            let reason = "a partition does not fit the others, or is damaged";
            return Err(failed("cannot use the image in", &reason));
        }
        partition.mark_open();
    }
    let state = if clean {
        ImageState::Clean
    } else {
        ImageState::Recovered
    };
    Ok(Opened {
        partitions,
        layout,
        seed,
        state,
        lock,
    })
}

/// Makes an empty image.
fn create(
    config: &Config,
    source: &Source<'_>,
    state: ImageState,
    lock: Option<File>,
) -> Result<Opened, CreateError> {
    let layout = Layout::of(config)?;
    let secret = Secret::random().map_err(CreateError::no_random_numbers)?;
    source.check_count(&layout)?;
    let mut partitions = Vec::new();
    // The first one last: it says that there is an image.
    for number in (0..layout.partitions).rev() {
        let region = source.map(number, layout.partition_bytes, true);
        let region = region.map_err(|error| {
            let bytes = config.memory_bytes;
            CreateError::new(format!("cannot make {bytes} bytes in {source}: {error}"))
        })?;
        let partition = Partition::of(region, layout.partition(config, secret, number));
        if source.holds_what_was() {
            partition.clear();
        }
        partition.format();
        let eviction = Eviction::ALL.iter().position(|of| *of == config.eviction);
        partition.set(Field::Eviction, eviction.unwrap_or(0) as u64);
        partition.mark_open();
        partitions.push(partition);
    }
    partitions.reverse();
    Ok(Opened {
        partitions,
        layout,
        seed: config.seed,
        state,
        lock,
    })
}

/// A partition of any size in its map, for tests of the edges.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn partition_in_map(maps: &crate::Maps, layout: PartitionLayout) -> Partition {
    let bytes = (layout.region_words as usize * 8).next_multiple_of(micanite_memory::PAGE_BYTES);
    let region = Source::Maps(maps).map(layout.number, bytes, false).unwrap();
    let partition = Partition::of(region, layout);
    if !maps.kept {
        partition.format();
    } else if partition.get(Field::Clean) == 0 {
        assert!(partition.recover(), "a sound image");
    }
    partition.mark_open();
    partition
}

/// The layout and the seed of an image, if they are what is asked for.
fn check(config: &Config, header: &[u64; 64]) -> Result<(Layout, u64), String> {
    let word = |field: Field| header[field as usize];
    if word(Field::Magic) != MAGIC {
        return Err("this is not an image, or it was never completed: remove it".into());
    }
    if word(Field::LayoutVersion) != LAYOUT_VERSION {
        return Err(format!(
            "the image has layout version {}, this program has {LAYOUT_VERSION}: remove it, or use \
             the program that made it",
            word(Field::LayoutVersion)
        ));
    }
    let semantics = if word(Field::Shape) >> 63 == 1 {
        Semantics::Store
    } else {
        Semantics::Cache
    };
    if semantics != config.semantics {
        return Err(format!(
            "the image is a {}, not a {} (--semantics)",
            semantics.name(),
            config.semantics.name()
        ));
    }
    let layout = Layout {
        partitions: 1 << (word(Field::PartitionNumber) >> 32 & 31),
        partition_bytes: word(Field::RegionWords) as usize * 8,
        value_bytes_max: config.value_bytes_max,
    };
    let wanted = Layout::whole_pages(config.memory_bytes / layout.partitions);
    if wanted != layout.partition_bytes {
        return Err(format!(
            "the image has {} MiB of memory, not {} (-m)",
            (layout.partitions * layout.partition_bytes) >> 20,
            config.memory_bytes >> 20
        ));
    }
    let of = layout.partition(config, Secret::KNOWN, 0);
    if of.item_units_max != word(Field::ItemUnitsMax) {
        return Err(format!(
            "the largest item of the image has about {} bytes, not {} (-I)",
            word(Field::ItemUnitsMax) * 8,
            of.item_units_max * 8
        ));
    }
    let eviction = Eviction::ALL.get(word(Field::Eviction) as usize);
    if config.semantics == Semantics::Cache && eviction != Some(&config.eviction) {
        return Err(format!(
            "the image evicts by {}, not by {} (--eviction)",
            eviction.map_or("an unknown policy", |policy| policy.name()),
            config.eviction.name()
        ));
    }
    Ok((layout, word(Field::Seed)))
}

/// A number for this boot of the machine.
fn boot() -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    KeyHash::of(&id, 0).0 | 1
}

impl Partition {
    /// Whether the words that never change are not those of the image, or of this partition.
    fn header_differs(&self, header: &[u64; 64]) -> bool {
        let same = [
            Field::Magic,
            Field::LayoutVersion,
            Field::Seed,
            Field::SecretLow,
            Field::SecretHigh,
            Field::RegionWords,
            Field::ItemUnitsMax,
            Field::Shape,
            Field::BucketsFirst,
        ];
        let number = self.layout.number as u64 | u64::from(self.layout.partition_bits) << 32;
        self.get(Field::PartitionNumber) != number
            || same
                .into_iter()
                .any(|field| self.get(field) != header[field as usize])
            || self.get(Field::DataEnd) > self.layout.region_words
            || self.region.words() < IMAGE_HEADER_WORDS
    }

    /// Notes that a process has the image open.
    fn mark_open(&self) {
        self.set(Field::Boot, boot());
        self.set(Field::Clean, 0);
        for which in [Which::Small, Which::Main] {
            let log = self.log(which);
            log.set(LogField::Opened, log.get(LogField::Tail));
        }
        if self.is_store() {
            self.heap().set_cursor(None);
        }
    }

    /// Writes everything to the file and marks it as complete.
    pub(crate) fn close(&self) -> std::io::Result<()> {
        self.region.sync()?;
        self.set(Field::Clean, 1);
        self.region.sync()
    }
}
