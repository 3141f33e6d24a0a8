//! Readers on the same host (`--local`, docs/local.md): they map the partitions and read for themselves.
//!
//! ```text
//! thread `local`: hello --login--> descriptors: header, notes, stream for requests, partitions
//!                 takes the notes of all readers: counts, hashes for the owners of partitions
//! workers:        serve the streams like any other connection
//! ```

mod reader;
mod service;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use micanite_engine::Cache;
use micanite_local::header::{About, Header};
use micanite_local::notes::{NOTES_BYTES, Taken};

use crate::configuration::Settings;
use crate::telemetry::table::Totals;
use crate::telemetry::table::group::Row;
pub(crate) use service::LocalThread;

/// State of the readers that workers and reports touch.
#[derive(Debug)]
pub struct LocalShared {
    /// The page that all readers map.
    pub(crate) header: Header,
    /// Its descriptor for readers.
    header_descriptor: OwnedFd,
    counters: LocalCounters,
    is_busy: AtomicBool,
}

/// Counters of the thread that serves the readers. It alone writes them.
#[derive(Debug, Default)]
pub(crate) struct LocalCounters {
    clients: AtomicU64,
    attached: AtomicU64,
    refused: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    notes: AtomicU64,
    nonsense: AtomicU64,
}

/// The numbers of `stats local`, behind `local_`.
pub(crate) const COUNTS: [Row<LocalCounters>; 7] = [
    ("clients", "Readers that are attached now.", |of| of.clients.load(Ordering::Relaxed)),
    ("attached", "Readers that have attached.", |of| of.attached.load(Ordering::Relaxed)),
    ("refused", "Readers that were refused.", |of| of.refused.load(Ordering::Relaxed)),
    ("hits", "Keys that readers have found.", |of| of.hits.load(Ordering::Relaxed)),
    ("misses", "Keys that readers have not found.", |of| of.misses.load(Ordering::Relaxed)),
    ("notes", "Requests that readers have noted for the eviction policy.", |of| {
        of.notes.load(Ordering::Relaxed)
    }),
    ("nonsense", "Looks at notes of a reader that made no sense.", |of| of.nonsense.load(Ordering::Relaxed)),
];

impl LocalShared {
    /// Makes the page of the readers.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new(settings: &Settings, cache: &Cache, run: u64, now_s: u32) -> io::Result<Self> {
        let about = About {
            run,
            value_bytes_max: cache.value_bytes_max(),
            namespace_delimiter: Some(settings.namespace_delimiter),
        };
        let (header, header_descriptor) = Header::create(&about, now_s)?;
        Ok(Self {
            header,
            header_descriptor,
            counters: LocalCounters::default(),
            is_busy: AtomicBool::new(false),
        })
    }

    /// Returns the memory that so many readers take at most.
    pub fn bytes(clients_max: usize) -> usize {
        NOTES_BYTES * (clients_max + 1)
    }

    /// Returns whether owners should look after their partitions often, because readers note many requests.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Relaxed)
    }

    /// Adds what readers have done to what the workers have.
    pub fn add_to(&self, totals: &mut Totals) {
        let (hits, misses) = (self.of(&self.counters.hits), self.of(&self.counters.misses));
        totals.cmd_get += hits + misses;
        totals.get_hits += hits;
        totals.get_misses += misses;
    }

    /// Calls with the name of each count, and the count. The first one may fall.
    pub fn each(&self, mut visit: impl FnMut(&'static str, u64)) {
        COUNTS.iter().for_each(|(name, _, count)| visit(name, count(&self.counters)));
    }

    fn of(&self, counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

impl LocalCounters {
    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    fn take(&self, taken: &Taken) {
        Self::add(&self.hits, taken.hits);
        Self::add(&self.misses, taken.misses);
        Self::add(&self.notes, taken.notes);
        Self::add(&self.nonsense, u64::from(taken.is_nonsense));
    }
}
