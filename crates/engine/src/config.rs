//! What a cache is made of: the caller's wishes. [`crate::Layout`] derives the sizes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::access::Access;
use crate::eviction::Eviction;
use crate::limits::PARTITION_BYTES_MAX;

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

/// Memory of the kernel that somebody else reads, too, such as BPF arrays.
#[derive(Clone, Debug)]
pub struct Maps {
    /// One for each partition, in order, of [`crate::Layout::partition_bytes`] each: what `mmap`
    /// maps at offset zero. No other process may write to them.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// Whether they may hold an image of before, to be opened as one in files would be.
    pub kept: bool,
}

/// What the memory of a cache stands for that is made to find out what another one would keep. It
/// has one partition, whose header comes on top of the memory, and may be of any size from 1 KiB
/// on; items that do not fit are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// Items and index, as they share the memory of any cache.
    Memory,
    /// Items alone: the index lies besides, and is as large as it likes.
    Items,
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
    /// Memory for the partitions that is there already. Not together with `image`.
    pub maps: Option<Maps>,
    /// The most bytes of one partition: there are as many as that takes.
    pub partition_bytes_max: usize,
    /// Ends the namespace at the start of a key: [`crate::Worker::invalidate_namespace`].
    pub namespace_delimiter: Option<u8>,
    /// For simulations; not with images, nor with a store.
    pub simulated: Option<Simulated>,
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
            maps: None,
            partition_bytes_max: PARTITION_BYTES_MAX,
            namespace_delimiter: None,
            simulated: None,
        }
    }
}
