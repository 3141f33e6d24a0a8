//! A cache: its partitions, and the handles of the workers that may use them.

use std::sync::Arc;

use micanite_memory::Pages;
use micanite_memory::sync::{AtomicBool, AtomicU32, Ordering};
use micanite_wire::hash::KeyHash;

use crate::config::Config;
use crate::error::CreateError;
use crate::layout::Layout;
use crate::limits::BATCH_REQUESTS_MAX;
use crate::partition::Partition;
use crate::pipeline::{Access, Exclusive, Shared};
use crate::request::{ReplySink, Request};
use crate::stats::Stats;

/// An in-memory cache, to be shared in an [`Arc`]. Requests go through [`Worker`]s.
#[derive(Debug)]
pub struct Cache {
    partitions: Box<[Partition]>,
    partition_bits: u32,
    seed: u64,
    layout: Layout,
    /// Worker handles not handed out yet.
    handles_free: Box<[AtomicBool]>,
    /// The second of a flush to come, 0 = none.
    flush_due_s: AtomicU32,
    prefetch: AtomicBool,
}

impl Cache {
    /// Maps the memory of an empty cache.
    ///
    /// # Errors
    /// Sizes that cannot be, and what the kernel says to the mappings.
    pub fn new(config: &Config) -> Result<Self, CreateError> {
        let layout = Layout::of(config)?;
        let partition = |number| Partition::new(layout.partition(config, number));
        let partitions: Result<_, _> = (0..layout.partitions).map(partition).collect();
        let partitions = partitions.map_err(|error| {
            CreateError::new(format!("cannot map {} bytes: {error}", config.memory_bytes))
        })?;
        Ok(Self::of(partitions, layout, config))
    }

    fn of(partitions: Box<[Partition]>, layout: Layout, config: &Config) -> Self {
        Self {
            partition_bits: partitions.len().ilog2(),
            partitions,
            seed: config.seed,
            layout,
            handles_free: (0..config.workers).map(|_| AtomicBool::new(true)).collect(),
            flush_due_s: AtomicU32::new(0),
            prefetch: AtomicBool::new(true),
        }
    }

    /// A cache of partitions of any size and offset width, for tests of the edges.
    #[cfg(test)]
    pub(crate) fn with_partitions(
        layout: crate::partition::PartitionLayout,
        config: &Config,
    ) -> Arc<Self> {
        let of = |number| {
            Partition::new(crate::partition::PartitionLayout { number, ..layout }).unwrap()
        };
        let sizes = Layout {
            partitions: 1 << layout.partition_bits,
            index_bytes: 0,
            log_bytes: (layout.log_units as usize * 8) << layout.partition_bits,
            buckets: (layout.buckets as usize) << layout.partition_bits,
            value_bytes_max: config.value_bytes_max,
        };
        Arc::new(Self::of(
            (0..sizes.partitions).map(of).collect(),
            sizes,
            config,
        ))
    }

    /// The handle of a worker, 0 to `workers - 1`. Each is given once: `None` afterwards, and
    /// for numbers out of range.
    pub fn worker(self: &Arc<Self>, number: usize) -> Option<Worker> {
        let free = self.handles_free.get(number)?;
        free.swap(false, Ordering::AcqRel).then(|| Worker {
            cache: Arc::clone(self),
            number,
            exclusive: self.handles_free.len() == 1,
        })
    }

    /// The hash of a key, under this cache's seed.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.seed)
    }

    /// The sizes of this cache.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The longest value taken.
    #[inline]
    pub fn value_bytes_max(&self) -> usize {
        self.layout.value_bytes_max
    }

    /// The least of the pages that were got for index and log, of all partitions.
    pub fn pages(&self) -> (Pages, Pages) {
        let of = |pages: fn(&Partition) -> Pages| {
            self.partitions
                .iter()
                .map(pages)
                .max()
                .unwrap_or(Pages::Small)
        };
        (
            of(|partition| partition.index.pages()),
            of(|partition| partition.log.pages()),
        )
    }

    /// Counters and levels over all partitions. They are read while they change.
    pub fn stats(&self) -> Stats {
        let mut total = Stats::default();
        for partition in &self.partitions {
            partition.add_stats(&mut total);
        }
        total
    }

    /// Puts huge pages under one partition's log as far as it has been used, or (`all`) under
    /// all of index and log, touching them. For a background thread: it may take milliseconds
    /// per 2 MiB, and workers go on meanwhile.
    pub fn collapse_pages(&self, all: bool) {
        for partition in &self.partitions {
            let layout = &partition.layout;
            let log_bytes = layout.log_units as usize * 8;
            if all {
                partition.index.collapse(0, partition.index.words() * 8);
                partition.log.collapse(0, log_bytes);
            } else {
                partition.collapse_used_log();
            }
        }
    }

    /// Whether batches prefetch: for benchmarks.
    pub fn set_prefetch(&self, on: bool) {
        self.prefetch.store(on, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn partition(&self, hash: KeyHash) -> &Partition {
        &self.partitions[hash.partition(self.partition_bits)]
    }

    /// Flushes every partition.
    fn flush_now<A: Access>(&self) {
        for partition in &self.partitions {
            A::writer(partition).flush();
        }
    }
}

/// The right to execute requests, as one of the workers that the cache was made for. One per
/// thread; with one worker alone it owns every partition.
#[derive(Debug)]
pub struct Worker {
    cache: Arc<Cache>,
    number: usize,
    exclusive: bool,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.cache.handles_free[self.number].store(true, Ordering::Release);
    }
}

impl Worker {
    /// The cache.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Starts loading the bucket of a key: a hint, worth giving as soon as the hash is known.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.cache.partition(hash).bucket(hash).prefetch();
    }

    /// Executes requests in their order. Returns how many: fewer than given only when
    /// [`ReplySink::reserve`] had no room for the next one, which then has had no effect.
    ///
    /// `now_s` is on the same clock as the expiries.
    ///
    /// # Panics
    /// With more than [`BATCH_REQUESTS_MAX`] requests.
    #[inline]
    pub fn execute<S: ReplySink>(
        &mut self,
        batch: &[Request<'_>],
        now_s: u32,
        sink: &mut S,
    ) -> usize {
        assert!(batch.len() <= BATCH_REQUESTS_MAX);
        self.flush_if_due(now_s);
        let prefetch = self.cache.prefetch.load(Ordering::Relaxed);
        if self.exclusive {
            self.cache.run::<Exclusive, S>(batch, now_s, sink, prefetch)
        } else {
            self.cache.run::<Shared, S>(batch, now_s, sink, prefetch)
        }
    }

    /// Bounded housekeeping for this worker's share of the partitions: removes some of what has
    /// expired. To be called every 10 to 100 milliseconds.
    pub fn maintain(&mut self, now_s: u32) {
        self.flush_if_due(now_s);
        let share = self.cache.handles_free.len();
        for partition in self
            .cache
            .partitions
            .iter()
            .skip(self.number)
            .step_by(share)
        {
            if self.exclusive {
                Exclusive::writer(partition).sweep(now_s);
            } else {
                Shared::writer(partition).sweep(now_s);
            }
        }
    }

    /// Makes everything stored until the second `at_s` unreachable, now if that has come
    /// (`at_s <= now_s`). A later call replaces one that is still to come.
    pub fn flush_all(&mut self, at_s: u32, now_s: u32) {
        self.cache.flush_due_s.store(at_s.max(1), Ordering::Relaxed);
        self.flush_if_due(now_s);
    }

    #[inline]
    fn flush_if_due(&mut self, now_s: u32) {
        let due_s = self.cache.flush_due_s.load(Ordering::Relaxed);
        if due_s != 0 && due_s <= now_s {
            self.flush(due_s);
        }
    }

    #[cold]
    fn flush(&mut self, due_s: u32) {
        let due = &self.cache.flush_due_s;
        if due
            .compare_exchange(due_s, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
        {
            return; // another worker has just done it
        }
        if self.exclusive {
            self.cache.flush_now::<Exclusive>();
        } else {
            self.cache.flush_now::<Shared>();
        }
    }
}
