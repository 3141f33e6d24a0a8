//! A cache: its partitions, their routes, and the handles of its workers.

pub(crate) mod chunks;
pub(crate) mod config;
pub(crate) mod error;
pub(crate) mod footprint;
pub(crate) mod layout;
pub(crate) mod limit;
pub(crate) mod nodes;
pub(crate) mod readers;
mod routes;
pub(crate) mod stats;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};

use micanite_memory::Pages;
use micanite_memory::sync::{AtomicBool, AtomicU64, Ordering};
use micanite_wire::hash::KeyHash;

use crate::access::Epochs;
use crate::access::delegate::Mailboxes;
use crate::access::lock::Queue;
use crate::cache::config::Config;
use crate::cache::error::CreateError;
use crate::cache::layout::Layout;
use crate::cache::nodes::Bound;
use crate::cache::stats::Stats;
use crate::image::{self, ImageState, Source};
use crate::index::hash::Secret;
use crate::index::tags::Level;
use crate::limits::{TURN_MOVED_BYTES_MIN, TURN_MOVED_VALUES};
use crate::partition::chunks::Chunks;
use crate::partition::item::ItemInfo;
use crate::partition::listener::EvictionListener;
use crate::partition::{Partition, PartitionLayout};

pub use limit::LimitError;
pub use routes::RouteError;

/// Wakes the worker of a number.
pub(crate) type Waker = Box<dyn Fn(usize) + Send + Sync>;

/// An in-memory cache or store, shared in an [`Arc`]. Requests go through [`crate::Worker`]s.
pub struct Cache {
    pub(crate) partitions: Box<[Partition]>,
    pub(crate) partition_bits: u32,
    config: Config,
    layout: Layout,
    /// Limit of the memory.
    limit_bytes: AtomicU64,
    /// True until the memory has the size of the limit, and what is unused has gone back.
    pub(crate) follows_limit: AtomicBool,
    image_state: ImageState,
    /// Keeps other processes from using the image.
    image_lock: Option<micanite_memory::hold::Hold>,
    /// Descriptors of the partitions for other processes, if these may read them.
    readers: Box<[OwnedFd]>,
    /// Partitions that were bound to NUMA nodes.
    bound: Bound,
    /// Worker handles that are free.
    pub(crate) handles_free: Box<[AtomicBool]>,
    /// Workers that have ended and were not started again: they do not answer.
    pub(crate) ended: Box<[AtomicBool]>,
    pub(crate) epochs: Epochs,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) waker: OnceLock<Waker>,
    pub(crate) eviction_listener: Arc<EvictionListener>,
    /// Requests that each worker executed, by partition; empty with one worker.
    pub(crate) loads: Box<[Box<[AtomicU64]>]>,
    /// Held while routes change.
    pub(crate) changing: Queue,
    /// Held while the limit of the memory is set, in all partitions.
    limiting: Mutex<()>,
    /// Number of route changes.
    generation: AtomicU64,
    /// Held while a worker flushes or schedules a flush.
    pub(crate) flushing: Queue,
    pub(crate) prefetch_on: AtomicBool,
    /// Instructions for prefetching.
    pub(crate) level: Level,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cache").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl Cache {
    /// Maps the memory of an empty cache, or opens its image, in files or in maps.
    ///
    /// # Errors
    /// Sizes out of range, a mapping that the kernel refuses, and an image that does not fit the
    /// configuration, is damaged, or is in use.
    pub fn new(config: &Config) -> Result<Self, CreateError> {
        readers::check(config)?;
        if let Some(source) = Source::of(config)? {
            let opened = image::open(config, &source)?;
            let readers = readers::of_image(config, &source, opened.layout.partitions)?;
            let config = Config { seed: opened.seed, ..config.clone() };
            let mut cache = Self::of(opened.partitions.into(), opened.layout, &config);
            cache.limit_bytes = AtomicU64::new(opened.limit_bytes as u64);
            cache.image_state = opened.state;
            cache.image_lock = opened.lock;
            cache.readers = readers;
            return Ok(cache);
        }
        let layout = Layout::of(config)?;
        let secret = match config.simulated {
            // No untrusted client sends keys to a simulation, and its results must repeat.
            Some(_) => Secret::KNOWN,
            None => Secret::random().map_err(CreateError::no_random_numbers)?,
        };
        let layouts = (0..layout.partitions).map(|number| layout.partition(config, secret, number));
        let cannot_map = |error: std::io::Error| {
            CreateError::new(format!("cannot map {} bytes: {error}", config.memory_bytes))
        };
        if config.readers {
            let made = readers::partitions(config, layouts).map_err(cannot_map)?;
            let (partitions, readers): (Vec<_>, Vec<_>) = made.into_iter().unzip();
            let mut cache = Self::of(partitions.into(), layout, config);
            cache.readers = readers.into();
            return Ok(cache);
        }
        let make = |layout: PartitionLayout| config.on_nodes_of(layout.number, || Partition::new(layout));
        let partitions: Result<_, _> = layouts.map(make).collect();
        Ok(Self::of(partitions.map_err(cannot_map)?, layout, config))
    }

    /// Completes the image, if there is one, so that the next process need not check it. Call it
    /// after the last request: later writes are lost.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn close(&self) -> std::io::Result<()> {
        if self.image_state == ImageState::None {
            return Ok(());
        }
        // A write after this is lost, but leaves no mark in an image that was closed.
        self.all_chunks().for_each(Chunks::end_write_back);
        // No item has ended at second 0, so none is dropped.
        self.without_write_back(0, || match self.dirty_chunks() {
            0 => image::close(&self.partitions),
            dirty => Err(std::io::Error::other(format!("{dirty} values are in the cache area only"))),
        })
    }

    /// Returns the state of the image when it was opened.
    pub fn image_state(&self) -> &ImageState {
        &self.image_state
    }

    /// Returns the maps that hold the partitions, in order; empty if other memory holds them.
    pub fn maps(&self) -> &[Arc<std::os::fd::OwnedFd>] {
        let maps = self.config.maps.as_ref();
        maps.map_or(&[], |maps| &maps.descriptors)
    }

    /// Returns the seed of the key hash: an image keeps its own.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn of(mut partitions: Box<[Partition]>, layout: Layout, config: &Config) -> Self {
        let workers = config.workers;
        let eviction_listener = Arc::new(EvictionListener::default());
        for (number, partition) in partitions.iter_mut().enumerate() {
            partition.eviction_listener = Arc::clone(&eviction_listener);
            partition.route.set(config.first_route(number));
        }
        // Prefetching loads these once for all keys.
        let shared = |of: &Partition| (of.layout.index(), of.layout.secret, of.moves_on_get);
        assert!(partitions.iter().all(|partition| shared(partition) == shared(&partitions[0])));
        let loads = |_| partitions.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            partition_bits: partitions.len().ilog2(),
            config: config.clone(),
            layout,
            limit_bytes: AtomicU64::new(config.memory_bytes as u64),
            follows_limit: AtomicBool::new(true),
            image_state: ImageState::None,
            image_lock: None,
            readers: Box::default(),
            bound: config.bind_all(&partitions),
            handles_free: (0..workers).map(|_| AtomicBool::new(true)).collect(),
            ended: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            epochs: Epochs::new(workers),
            mailboxes: Mailboxes::new(workers),
            waker: OnceLock::new(),
            eviction_listener,
            loads: (0..if workers > 1 { workers } else { 0 }).map(loads).collect(),
            changing: Queue::new(),
            limiting: Mutex::default(),
            flushing: Queue::new(),
            generation: AtomicU64::new(0),
            prefetch_on: AtomicBool::new(true),
            level: Level::of_this_processor(),
            partitions,
        }
    }

    /// Makes a cache of partitions of any size and offset width, for tests of the limits. Returns
    /// an error if its maps hold a bad image.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn try_with_partitions(
        layout: crate::partition::PartitionLayout,
        config: &Config,
    ) -> Result<Arc<Self>, String> {
        let layouts = (0..1 << layout.partition_bits)
            .map(|number| crate::partition::PartitionLayout { number, ..layout });
        let partitions = match &config.maps {
            Some(maps) => image::partitions_in_maps(maps, layouts)?,
            None => layouts.map(|layout| Partition::new(layout).unwrap()).collect(),
        };
        let sizes = Layout {
            partitions: 1 << layout.partition_bits,
            partition_bytes: layout.region_words as usize * 8,
            value_bytes_max: config.value_bytes_max,
        };
        let config = Config { seed: partitions[0].layout.seed, ..config.clone() };
        Ok(Arc::new(Self::of(partitions.into(), sizes, &config)))
    }

    /// Counts entries in main buckets and in spare ones, for tests.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn entries_in_main_and_spare(&self) -> (usize, usize) {
        let filled = |bucket: crate::index::bucket::Bucket<'_>| {
            bucket.entries().iter().filter(|entry| **entry != 0).count()
        };
        let (mut main, mut spare) = (0, 0);
        for partition in &self.partitions {
            for number in 0..partition.buckets() {
                let bucket = partition.main_bucket(number);
                main += filled(bucket);
                spare += partition.chain(bucket).skip(1).map(filled).sum::<usize>();
            }
        }
        (main, spare)
    }

    /// Counts the items that the index leads to, for tests.
    #[cfg(all(any(test, feature = "fuzz"), not(loom)))]
    pub(crate) fn items_in_index(&self) -> u64 {
        let in_partition = |partition: &Partition| {
            let buckets =
                (0..partition.buckets()).flat_map(|number| partition.chain(partition.main_bucket(number)));
            let entries = buckets.flat_map(|bucket| bucket.entries());
            let placed = entries.filter(|entry| {
                let place = partition.place(crate::index::entry::Entry(*entry));
                place.is_some_and(|place| {
                    !partition.is_flushed_from_store(place.position, partition.header(place.position))
                })
            });
            placed.count() as u64
        };
        self.partitions.iter().map(in_partition).sum()
    }

    /// Sets the function that wakes a sleeping worker, so that workers can delegate requests to the
    /// owners of partitions. Takes effect once. Each worker must call [`crate::Worker::execute`],
    /// [`crate::Worker::maintain`] or [`crate::Worker::serve`] soon after it was woken.
    pub fn set_waker(&self, wake: impl Fn(usize) + Send + Sync + 'static) {
        // A second waker is ignored: the first is in use already.
        let _ = self.waker.set(Box::new(wake));
    }

    /// Sets the eviction listener, once. It runs on the thread that evicts, within a request, and
    /// gets the second of that request. It must be quick, and must not use the cache.
    pub fn set_eviction_listener(&self, listener: impl Fn(&ItemInfo<'_>, u32) + Send + Sync + 'static) {
        // A second listener is ignored: the first is in use already.
        let _ = self.eviction_listener.listener.set(Box::new(listener));
    }

    /// Turns the notifications of the listener on or off.
    pub fn notify_evictions(&self, wanted: bool) {
        self.eviction_listener.wanted.store(wanted, Ordering::Relaxed);
    }

    /// Hashes a key with this cache's seed.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.config.seed)
    }

    /// Returns the partition of a key.
    #[inline]
    pub fn partition_of(&self, hash: KeyHash) -> usize {
        hash.partition(self.partition_bits)
    }

    /// Returns whether a client has asked for access times ([`crate::MetaGet::access`]): then items
    /// of [`crate::MetaStore`] record them from the beginning.
    #[inline]
    pub fn follows_accesses(&self) -> bool {
        let first = self.partitions.first();
        first.is_some_and(Partition::follows_accesses)
    }

    /// Returns the sizes of this cache.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the longest value that the cache accepts.
    #[inline]
    pub fn value_bytes_max(&self) -> usize {
        self.layout.value_bytes_max
    }

    /// Returns the bytes that a turn moves within the memory before it ends
    /// ([`crate::Worker::begin_turn`]).
    #[inline]
    pub fn turn_moved_bytes(&self) -> usize {
        TURN_MOVED_BYTES_MIN.max(TURN_MOVED_VALUES * self.layout.value_bytes_max)
    }

    /// Returns the smallest kind of pages among all partitions.
    pub fn pages(&self) -> Pages {
        let pages = self.partitions.iter().map(|partition| partition.region.pages());
        pages.max().unwrap_or(Pages::Small)
    }

    /// Returns counters and levels over all partitions. They change while they are read.
    pub fn stats(&self) -> Stats {
        let mut total = Stats::default();
        for partition in &self.partitions {
            total.add(partition);
        }
        total
    }

    /// Touches all memory that the limit allows, with huge pages where available: for benchmarks, and for
    /// users who want no page faults later.
    pub fn populate(&self) {
        for partition in &self.partitions {
            partition.populate();
        }
    }

    /// Puts huge pages under the used part of an image; memory without a file has them from the
    /// start. A background thread calls this now and then: it may take milliseconds per 2 MiB,
    /// while workers continue. One call does bounded work, so that the thread can stop soon.
    /// Returns whether work is left.
    pub fn collapse_used(&self) -> bool {
        self.image_state != ImageState::None
            && self.pages() == Pages::Transparent
            && self.partitions.iter().any(Partition::collapse_used)
    }

    /// Turns the prefetching of batches on or off, for benchmarks.
    pub fn set_prefetch(&self, on: bool) {
        self.prefetch_on.store(on, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn partition(&self, hash: KeyHash) -> &Partition {
        &self.partitions[hash.partition(self.partition_bits)]
    }
}
