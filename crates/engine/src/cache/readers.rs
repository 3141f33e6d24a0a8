//! Memory that other processes read: its making, and their descriptors.

use std::io;
use std::os::fd::OwnedFd;

use crate::cache::Cache;
use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::image::Source;
use crate::partition::{Partition, PartitionLayout};
use crate::region::{Field, Region};

/// Refuses what cannot have readers.
pub(crate) fn check(config: &Config) -> Result<(), CreateError> {
    if config.readers && (config.maps.is_some() || config.simulated.is_some()) {
        let reason = "other processes read memory of their own kind, or files, but no maps of the kernel";
        return Err(CreateError::new(reason.into()));
    }
    Ok(())
}

/// Makes empty partitions in sealed memory, and opens it for readers.
pub(super) fn partitions(
    config: &Config,
    layouts: impl Iterator<Item = PartitionLayout>,
) -> io::Result<Vec<(Partition, OwnedFd)>> {
    let make = |layout: PartitionLayout| {
        let bytes = layout.region_words as usize * 8;
        let (region, descriptor) = config.on_nodes_of(layout.number, || Region::readable(bytes))?;
        let partition = Partition::of(region, layout);
        partition.set(Field::Eviction, config.eviction.number());
        partition.format();
        Ok((partition, descriptor))
    };
    layouts.map(make).collect()
}

/// Opens the files of an image for readers, if there may be some.
pub(super) fn of_image(
    config: &Config,
    source: &Source<'_>,
    partitions: usize,
) -> Result<Box<[OwnedFd]>, CreateError> {
    if !config.readers {
        return Ok(Box::default());
    }
    let readers: io::Result<_> = (0..partitions).map(|number| source.reader(number)).collect();
    readers.map_err(|error| CreateError::new(format!("cannot open {source} for readers: {error}")))
}

impl Cache {
    /// Returns descriptors with which other processes can map the partitions, in order, for loads alone
    /// ([`crate::ImageReader`]). Empty if [`Config::readers`] is not set.
    pub fn readers(&self) -> &[OwnedFd] {
        &self.readers
    }

    /// Returns whether somebody outside of this process may be reading, who cannot be kept out for a moment.
    pub(crate) fn has_outside_readers(&self) -> bool {
        self.config.maps.is_some() || self.config.readers
    }
}
