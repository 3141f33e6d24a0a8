//! What a cache is made of: the caller's wishes. [`crate::Layout`] derives the sizes.

use std::path::PathBuf;

use crate::access::Access;
use crate::eviction::Eviction;

/// What happens when memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// Items are evicted (MICA's cache mode: circular logs).
    #[default]
    Cache,
    /// What was acknowledged stays until it is deleted or expires; new items are refused
    /// (MICA's store mode: segregated fits).
    Store,
}

impl Semantics {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Store => "store",
        }
    }
}

impl std::str::FromStr for Semantics {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Cache, Self::Store]
            .into_iter()
            .find(|semantics| semantics.name() == name)
            .ok_or_else(|| format!("unknown semantics '{name}': cache or store"))
    }
}

/// What the caller wants. [`crate::Cache::new`] derives the rest and refuses what cannot be.
#[derive(Clone, Debug)]
pub struct Config {
    /// Items, headers and index together stay within this many bytes.
    pub memory_bytes: usize,
    /// The expected average of key and value bytes of an item, if it is known: the index then
    /// has its size from the start. It grows by itself otherwise.
    pub item_bytes_hint: Option<usize>,
    /// The longest value taken.
    pub value_bytes_max: usize,
    /// How many threads will call [`crate::Worker::execute`].
    pub workers: usize,
    /// Who may read and write a partition at first. With one worker it owns every partition.
    pub access: Access,
    /// Cache or store.
    pub semantics: Semantics,
    /// How items of a cache are chosen for eviction.
    pub eviction: Eviction,
    /// Seed of the key hash.
    pub seed: u64,
    /// A directory for the partitions, in files, so that a later process can go on with them;
    /// `None`: memory that ends with the process.
    pub image: Option<PathBuf>,
    /// Ends the namespace at the start of a key: [`crate::Worker::invalidate_namespace`].
    pub namespace_delimiter: Option<u8>,
}

impl Default for Config {
    /// A cache of 64 MiB, values up to 1 MiB, one worker, and a seed of zero, which is fine where
    /// clients are trusted.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            item_bytes_hint: None,
            value_bytes_max: 1 << 20,
            workers: 1,
            access: Access::Crcw,
            semantics: Semantics::Cache,
            eviction: Eviction::default(),
            seed: 0,
            image: None,
            namespace_delimiter: None,
        }
    }
}
