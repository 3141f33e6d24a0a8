//! Opens partitions that another process writes.

use std::fs::File;
use std::os::fd::OwnedFd;

use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::cache::layout::Layout;
use crate::image::header::{Unusable, layout_of, with_own};
use crate::image::source::header_of_file;
use crate::index::hash::Secret;
use crate::partition::eviction::Eviction;
use crate::partition::samples::Samples;
use crate::partition::{Partition, Semantics};
use crate::region::{Field, Region};

/// Partitions of another process, and the configuration that they show.
pub(crate) struct OutsideImage {
    pub partitions: Box<[Partition]>,
    pub layout: Layout,
    pub config: Config,
}

/// Maps partitions for loads, in order. `value_bytes_max` and `namespace_delimiter` are those of their
/// writer.
pub(crate) fn open(
    descriptors: Vec<OwnedFd>,
    value_bytes_max: usize,
    namespace_delimiter: Option<u8>,
) -> Result<OutsideImage, CreateError> {
    let files: Vec<File> = descriptors.into_iter().map(File::from).collect();
    let cannot = |error: std::io::Error| CreateError::new(format!("cannot read the partitions: {error}"));
    let first = files.first().ok_or_else(|| CreateError::new("there are no partitions".into()))?;
    let header = header_of_file(first).map_err(cannot)?;
    let word = |field: Field| header[field as usize];
    let bytes = (word(Field::RegionWords) as usize).saturating_mul(8);
    let config = Config {
        memory_bytes: bytes.saturating_mul(files.len()),
        value_bytes_max,
        namespace_delimiter,
        // One that may only read, and one for which it would have to ask.
        workers: 2,
        semantics: if word(Field::Shape) >> 63 == 1 { Semantics::Store } else { Semantics::Cache },
        eviction: Eviction::ALL.get(word(Field::Eviction) as usize).copied().unwrap_or_default(),
        seed: word(Field::Seed),
        ..Config::default()
    };
    let unusable = |unusable| match unusable {
        Unusable::Other(what) => CreateError::new(what),
        Unusable::Damaged(what) => CreateError::new(format!("the partitions are unknown by {what}")),
    };
    let layout = layout_of(&config, &header).map_err(unusable)?;
    if layout.partitions != files.len() {
        let text = format!("there are {} of {} partitions", files.len(), layout.partitions);
        return Err(CreateError::new(text));
    }
    let map = |(number, file): (usize, &File)| {
        let of = layout.partition(&config, Secret::KNOWN, number);
        let of = with_own(of, &header).map_err(|what| unusable(Unusable::Damaged(what)))?;
        let region = Region::foreign(file, layout.partition_bytes).map_err(cannot)?;
        let mut partition = Partition::of(region, of);
        // Requests are noted elsewhere.
        partition.samples = Samples::new(0);
        partition.set_foreign();
        Ok(partition)
    };
    let partitions: Result<_, CreateError> = files.iter().enumerate().map(map).collect();
    Ok(OutsideImage { partitions: partitions?, layout, config })
}
