//! The cache area of one-sided reads, of all partitions.

use micanite_chunks::Area;

use crate::cache::Cache;
use crate::partition::chunks::{ChunkConfig, ChunkStats, Chunks};

/// A cache area that cannot be attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The area is for another number of partitions.
    Partitions {
        /// Number of partitions of the cache.
        partitions: usize,
    },
    /// The lease is zero, or a partition has more chunks than 32 bits count.
    Sizes,
    /// There is one already.
    Attached,
}

impl std::fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Partitions { partitions } => {
                write!(formatter, "the cache area is not for {partitions} partitions")
            }
            Self::Sizes => write!(formatter, "the cache area is too large, or the lease is zero"),
            Self::Attached => write!(formatter, "there is a cache area already"),
        }
    }
}

impl std::error::Error for AttachError {}

impl Cache {
    /// Attaches a new cache area, into which items are loaded from now on. Call it before workers run, and
    /// once.
    ///
    /// # Errors
    /// The area does not fit.
    pub fn attach_area(&self, area: &Area, config: ChunkConfig) -> Result<(), AttachError> {
        let partitions = self.partitions.len();
        if area.geometry().partitions() != partitions {
            return Err(AttachError::Partitions { partitions });
        }
        let chunks = |number| Chunks::new(area, number, &config).map(Box::new);
        let all: Option<Vec<_>> = (0..partitions).map(chunks).collect();
        for (partition, chunks) in self.partitions.iter().zip(all.ok_or(AttachError::Sizes)?) {
            partition.chunks.set(chunks).map_err(|_| AttachError::Attached)?;
            // The process before may have left one.
            if self.flush_due_s() != 0 {
                partition.writer(0).set_flush_due(Some(self.flush_due_s()));
            }
        }
        Ok(())
    }

    /// Returns whether there is a cache area.
    pub(crate) fn has_area(&self) -> bool {
        self.partitions.last().is_some_and(|partition| partition.chunks.get().is_some())
    }

    /// Returns the statistics of the cache area, as the last upkeep of each partition left them.
    pub fn chunk_stats(&self) -> ChunkStats {
        let mut total = ChunkStats::default();
        for chunks in self.all_chunks() {
            total.add(&chunks.stats());
        }
        total
    }

    /// Ends the writing of values into chunks only: stores go through from now on, and the upkeep of the
    /// workers copies back what is left. Waits for nobody, so that workers may call it: a store of this
    /// moment may still stay in its chunk. Once each worker has ended its batch, [`Self::dirty_chunks`] only
    /// falls.
    pub fn end_write_back(&self) {
        self.all_chunks().for_each(Chunks::end_write_back);
    }

    /// Runs `run` while all values are in the data memory. For any thread that is not a worker.
    pub(crate) fn without_write_back<R>(&self, now_s: u32, run: impl FnOnce() -> R) -> R {
        if !self.has_area() {
            return run();
        }
        self.all_chunks().for_each(Chunks::suspend_write_back);
        for partition in 0..self.partitions.len() {
            // A writer of before, who may not know of the end yet, ends before the first call.
            while self.with_writer(partition, now_s, || {}, |writer| writer.clean_chunks()) {}
        }
        let result = run();
        self.all_chunks().for_each(Chunks::resume_write_back);
        result
    }

    pub(crate) fn all_chunks(&self) -> impl Iterator<Item = &Chunks> {
        self.partitions.iter().filter_map(|partition| partition.chunks.get().map(|chunks| &**chunks))
    }

    /// Returns the chunks that alone have the newest value.
    pub fn dirty_chunks(&self) -> u64 {
        self.all_chunks().map(Chunks::dirty).sum()
    }
}
