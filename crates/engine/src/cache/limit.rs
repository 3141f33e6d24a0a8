//! The limit of the memory of a cache, which may change while requests run.

use std::fmt;
use std::sync::{PoisonError, TryLockError};

use micanite_memory::HUGE_PAGE_BYTES;
use micanite_memory::sync::Ordering;

use crate::cache::Cache;
use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::cache::layout::Layout;
use crate::image::Source;
use crate::limits::{INDEX_MARGIN_BYTES, RETURN_BYTES_MIN};
use crate::partition::{Partition, Semantics};

/// Reason for keeping the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// The limit can be this many bytes at least: an index has lines for its items, a store keeps its items,
    /// and the largest value needs room.
    TooSmall {
        /// The least limit.
        least_bytes: usize,
    },
    /// The limit can be this many bytes at most ([`crate::Config::memory_bytes_max`]).
    TooLarge {
        /// The greatest limit.
        most_bytes: usize,
    },
    /// The memory is of a kind that does not go back: maps of the kernel, or sealed memory that other
    /// processes read.
    Fixed,
    /// The file system of the image has this many bytes free, which are too few.
    NoSpace {
        /// Bytes that are free.
        free_bytes: u64,
    },
}

impl fmt::Display for LimitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { least_bytes } => write!(formatter, "at least {least_bytes} bytes are needed"),
            Self::TooLarge { most_bytes } => write!(formatter, "at most {most_bytes} bytes are possible"),
            Self::Fixed => formatter.write_str("this kind of memory keeps its size"),
            Self::NoSpace { free_bytes } => {
                write!(formatter, "the file system of the image has {free_bytes} bytes free")
            }
        }
    }
}

impl std::error::Error for LimitError {}

/// Bytes of a gap that may be present: huge pages that reach into it from both sides, and pieces that are too
/// small to be given back.
const GAP_BYTES_PRESENT_MAX: usize = 2 * HUGE_PAGE_BYTES + RETURN_BYTES_MIN as usize;

impl Config {
    /// Returns the most bytes that new partitions take beside the limit ([`Layout::growth_bytes`]).
    ///
    /// # Errors
    /// The memory needs too many partitions.
    pub fn growth_bytes(&self) -> Result<usize, CreateError> {
        Ok(growth_bytes(self, Layout::count(self)?))
    }
}

impl Layout {
    /// Returns the most bytes that the partitions take beside the limit, because it is below
    /// [`Config::memory_bytes_max`]: each has up to two gaps without pages, which end within pages. An image
    /// keeps its partitions, so there may be more of them than the configuration asks for.
    pub fn growth_bytes(&self, config: &Config) -> usize {
        growth_bytes(config, self.partitions)
    }
}

fn growth_bytes(config: &Config, partitions: usize) -> usize {
    let gaps = if config.semantics == Semantics::Store { 1 } else { 2 };
    let most = gaps * GAP_BYTES_PRESENT_MAX + INDEX_MARGIN_BYTES as usize;
    let unused_bytes = config.memory_bytes_max().saturating_sub(config.memory_bytes);
    (partitions * most).min(unused_bytes)
}

/// Returns the least limit of each partition, in bytes, in which what all of them hold has room.
pub(crate) fn least_of_one(partitions: &[Partition]) -> usize {
    let words = partitions.iter().map(Partition::limit_words_min).max().unwrap_or(0);
    Layout::whole_pages_for(words as usize * 8)
}

impl Cache {
    /// Returns the limit of the memory, in bytes. That of an image which needs more than
    /// [`Config::memory_bytes`] is at first what it needs.
    pub fn memory_limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed) as usize
    }

    /// Returns the most bytes that the partitions take beside the limit ([`Layout::growth_bytes`]).
    pub fn growth_bytes(&self) -> usize {
        self.layout().growth_bytes(self.config())
    }

    /// Returns whether the memory has the size of the limit.
    pub fn follows_memory_limit(&self) -> bool {
        self.partitions.iter().all(Partition::follows_limit)
    }

    /// Returns whether upkeep has more to do for the limit, so that it should come soon.
    #[inline]
    pub fn is_following_limit(&self) -> bool {
        self.follows_limit.load(Ordering::Relaxed)
    }

    /// Notes that upkeep has nothing more to do for the limit, if that is so.
    pub(crate) fn end_following_limit(&self) {
        if !self.is_following_limit() {
            return;
        }
        let _limiting = match self.limiting.try_lock() {
            Ok(limiting) => limiting,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return, // a new limit is being set
        };
        if self.partitions.iter().all(Partition::is_settled) {
            self.follows_limit.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the greatest limit that [`Self::set_memory_limit`] takes.
    pub fn memory_bytes_max(&self) -> usize {
        self.config().memory_bytes_max()
    }

    /// Returns the bytes that the partitions use now: workers follow the limit within
    /// [`crate::Worker::maintain`].
    pub fn memory_used_bytes(&self) -> usize {
        self.partitions.iter().map(|partition| partition.used_words() as usize * 8).sum()
    }

    /// Changes the limit of the memory. The workers follow it in their upkeep, bit by bit: a cache evicts its
    /// oldest items, a store moves its items together, and the memory goes back to the system.
    ///
    /// # Errors
    /// The limit is out of bounds, or the memory cannot change. Nothing has changed then.
    pub fn set_memory_limit(&self, bytes: usize) -> Result<(), LimitError> {
        let config = self.config();
        if config.maps.is_some() || config.readers && config.image.is_none() || config.simulated.is_some() {
            return Err(LimitError::Fixed);
        }
        let count = self.partitions.len();
        let most_bytes = self.memory_bytes_max();
        if bytes > most_bytes {
            return Err(LimitError::TooLarge { most_bytes });
        }
        // A limit that is no multiple of the pages of a partition is rounded as at the start.
        let of_one = Layout::whole_pages(bytes / count).min(self.layout().partition_bytes);
        let least_of_one = least_of_one(&self.partitions);
        if of_one < least_of_one {
            return Err(LimitError::TooSmall { least_bytes: least_of_one * count });
        }
        self.check_free_space(of_one * count)?;
        let _limiting = self.limiting.lock().unwrap_or_else(PoisonError::into_inner);
        for partition in &self.partitions {
            partition.set_limit((of_one / 8) as u64);
        }
        self.limit_bytes.store(bytes as u64, Ordering::Relaxed);
        self.follows_limit.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that the file system of an image has space for more.
    fn check_free_space(&self, bytes: usize) -> Result<(), LimitError> {
        let more_bytes = bytes.saturating_sub(self.memory_used_bytes()) as u64;
        let Some(directory) = self.config().image.as_ref().filter(|_| more_bytes > 0) else {
            return Ok(());
        };
        let free = Source::directory(directory).ok().and_then(|source| source.bytes_free());
        match free {
            Some(free_bytes) if free_bytes < more_bytes => Err(LimitError::NoSpace { free_bytes }),
            _ => Ok(()),
        }
    }
}
