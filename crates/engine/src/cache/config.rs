//! Configuration of a cache. [`crate::Layout`] derives the sizes.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use crate::access::Access;
use crate::cache::nodes::WorkerNodes;
use crate::image::Resizing;
use crate::limits::PARTITION_BYTES_MAX;
use crate::partition::Semantics;
use crate::partition::eviction::Eviction;

/// Memory of the kernel that has other readers, such as BPF arrays.
#[derive(Clone, Debug)]
pub struct Maps {
    /// One map for each partition, in order, of [`crate::Layout::partition_bytes`] each: `mmap`
    /// maps it at offset zero. No other process may write to them.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// True if they may hold an earlier image, which is then opened like one in files.
    pub kept: bool,
}

/// Meaning of the memory of a simulation, which finds out which items a cache would keep. A
/// simulated cache has one partition, whose header is added to the memory. It may have any size
/// from 1 KiB on; items that do not fit are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// Items and index, which share the memory as in any cache.
    Memory,
    /// Items alone: the index is extra, and has no limit.
    Items,
}

/// Configuration by the caller. [`crate::Cache::new`] derives the rest and refuses impossible
/// values.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit for items, headers and index together, in bytes.
    pub memory_bytes: usize,
    /// Most memory that [`crate::Cache::set_memory_limit`] allows: address space that is reserved, and not
    /// used before. `None`: `memory_bytes`.
    pub memory_bytes_max: Option<usize>,
    /// Expected average of key and value bytes of an item, if known: the index then has its size
    /// from the start. Otherwise it grows.
    pub item_bytes_hint: Option<usize>,
    /// Longest value that is accepted.
    pub value_bytes_max: usize,
    /// Number of threads that will call [`crate::Worker::execute`].
    pub workers: usize,
    /// Initial access mode. A single worker owns every partition.
    pub access: Access,
    /// Cache or store.
    pub semantics: Semantics,
    /// Eviction policy of a cache.
    pub eviction: Eviction,
    /// Seed of the key hash.
    pub seed: u64,
    /// Directory for the partitions, in files, so that a later process can continue with them.
    /// `None`: memory that ends with the process.
    pub image: Option<PathBuf>,
    /// Existing memory for the partitions. Excludes `image`.
    pub maps: Option<Maps>,
    /// Lets other processes read the partitions ([`crate::Cache::readers`]). Memory without an image is then
    /// shared and sealed, and touched at the start. Excludes `maps`.
    pub readers: bool,
    /// Limit for the bytes of one partition: it determines the number of partitions.
    pub partition_bytes_max: usize,
    /// Delimiter that ends the namespace at the start of a key:
    /// [`crate::Worker::invalidate_namespace`].
    pub namespace_delimiter: Option<u8>,
    /// NUMA nodes of the workers, if partitions are to be in the memory of their owners' nodes.
    pub nodes: Option<Arc<WorkerNodes>>,
    /// Is told how far an image of another size has been copied at the start.
    pub on_resize: Option<fn(&Resizing)>,
    /// For simulations; excludes images and stores.
    pub simulated: Option<Simulated>,
}

impl Default for Config {
    /// Returns a cache of 64 MiB, values up to 1 MiB, one worker, and a seed of zero, which is fine
    /// where clients are trusted.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memory_bytes_max: None,
            item_bytes_hint: None,
            value_bytes_max: 1 << 20,
            workers: 1,
            access: Access::Crcw,
            semantics: Semantics::Cache,
            eviction: Eviction::default(),
            seed: 0,
            image: None,
            maps: None,
            readers: false,
            partition_bytes_max: PARTITION_BYTES_MAX,
            namespace_delimiter: None,
            nodes: None,
            on_resize: None,
            simulated: None,
        }
    }
}

impl Config {
    /// Returns the most memory that the cache may be allowed to use.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max.unwrap_or(self.memory_bytes)
    }
}
