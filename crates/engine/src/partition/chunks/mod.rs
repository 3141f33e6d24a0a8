//! Copies of a partition's items in the cache area, which clients read one-sided.
//!
//! | file | holds |
//! |---|---|
//! | `mod.rs` | the table of a partition, its statistics, the clock of leases |
//! | `life.rs` | death of chunks: changes, removals, flushes; upkeep |
//! | `load.rs` | loads, for gets, for stores and for what clients have read |
//! | `back.rs` | write-back: values that only a chunk has |

mod back;
mod life;
mod load;

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use micanite_memory::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use micanite_chunks::{Area, Chunk, Config, CopyBack, Counters, Host, Policy, Table, Usage};

use crate::writer::Writer;

/// Way of the stores of fabric clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkWrite {
    /// Into the data memory, then into a chunk.
    Through,
    /// Into the chunk only, where the item has one.
    Back,
}

/// Settings of a cache area ([`crate::Cache::attach_area`]).
#[derive(Clone, Copy, Debug)]
pub struct ChunkConfig {
    pub policy: Policy,
    /// Longest read that a client accepts.
    pub lease_ns: u64,
    pub write: ChunkWrite,
}

/// Statistics of all chunk tables, as the last upkeep left them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkStats {
    pub counters: Counters,
    pub usage: Usage,
    /// Items that were loaded because clients had asked for them often.
    pub prefetched: u64,
    /// Loads that ended without a chunk: the item is too long, no chunk was free, or it has state of meta
    /// commands.
    pub loads_refused: u64,
}

impl ChunkStats {
    pub(crate) fn add(&mut self, other: &Self) {
        let (to, from) = (&mut self.counters, &other.counters);
        to.published += from.published;
        to.too_long += from.too_long;
        to.no_space += from.no_space;
        to.given_back += from.given_back;
        to.killed += from.killed;
        to.evicted += from.evicted;
        to.crowded_out += from.crowded_out;
        to.copied_back += from.copied_back;
        to.dropped += from.dropped;
        to.pages_emptied += from.pages_emptied;
        to.voids += from.voids;
        let (to, from) = (&mut self.usage, &other.usage);
        to.living += from.living;
        to.living_bytes += from.living_bytes;
        to.dying += from.dying;
        to.dirty += from.dirty;
        to.free_pages += from.free_pages;
        self.prefetched += other.prefetched;
        self.loads_refused += other.loads_refused;
    }
}

/// Chunk table of a partition.
pub(crate) struct Chunks {
    area: Area,
    /// Only a [`Writer`] of the partition borrows it, and never twice.
    held: RefCell<Held>,
    published: Mutex<ChunkStats>,
    /// Chunks that alone have the newest value.
    dirty: AtomicU64,
    /// True while stores of fabric clients may leave their value in a chunk.
    is_back: AtomicBool,
    /// Snapshots and others that need all values in the data memory for a while.
    suspensions: AtomicU32,
}

/// Part of [`Chunks`] that only the writer uses.
struct Held {
    table: Table,
    prefetched: u64,
    loads_refused: u64,
}

// SAFETY: all but `held` may be shared. `Chunks::with` alone borrows `held`, with a `Writer` of the
// partition. A partition has one writer at a time, a writer is used by one thread at a time (it is not
// `Sync`), and the lock, or the change of a route, orders one writer's uses before those of the next.
#[expect(unsafe_code, reason = "the right to write the partition guards the table")]
unsafe impl Sync for Chunks {}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Chunks").field("area", &self.area).finish_non_exhaustive()
    }
}

impl Chunks {
    /// Makes the table of a partition. Returns `None` if the area does not fit.
    pub fn new(area: &Area, partition: usize, config: &ChunkConfig) -> Option<Self> {
        let of_table = Config { policy: config.policy, lease_ns: config.lease_ns };
        let table = Table::new(area, partition, of_table)?;
        Some(Self {
            area: area.clone(),
            held: RefCell::new(Held { table, prefetched: 0, loads_refused: 0 }),
            published: Mutex::new(ChunkStats::default()),
            dirty: AtomicU64::new(0),
            is_back: AtomicBool::new(config.write == ChunkWrite::Back),
            suspensions: AtomicU32::new(0),
        })
    }

    /// Returns the area, for tests.
    #[cfg(all(any(test, feature = "fuzz"), not(loom)))]
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Runs `run` with the table. The writer, of this partition, proves the right.
    ///
    /// # Panics
    /// Within another call.
    fn with<R>(&self, writer: &Writer<'_>, run: impl FnOnce(&mut Held, &mut OfWriter<'_, '_>) -> R) -> R {
        let mut held = self.held.borrow_mut();
        let result = run(&mut held, &mut OfWriter(writer));
        let dirty = held.table.dirty();
        if dirty != self.dirty.load(Ordering::Relaxed) {
            self.dirty.store(dirty, Ordering::Release);
        }
        result
    }

    /// Returns whether a store may leave its value in a chunk. Only for a writer.
    fn is_back(&self) -> bool {
        self.is_back.load(Ordering::Acquire) && self.suspensions.load(Ordering::Acquire) == 0
    }

    /// Ends the writing of values into chunks only. The writers of the moment may not know it yet.
    pub fn end_write_back(&self) {
        self.is_back.store(false, Ordering::Release);
    }

    /// Like [`Self::end_write_back`], until [`Self::resume_write_back`] has been called as often.
    pub fn suspend_write_back(&self) {
        self.suspensions.fetch_add(1, Ordering::AcqRel);
    }

    pub fn resume_write_back(&self) {
        self.suspensions.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the chunks that alone have the newest value.
    pub fn dirty(&self) -> u64 {
        self.dirty.load(Ordering::Acquire)
    }

    /// Returns the statistics that the last upkeep left.
    pub fn stats(&self) -> ChunkStats {
        *self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_stats(&self, stats: ChunkStats) {
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }
}

/// Clock and data memory of a partition, for its table.
struct OfWriter<'a, 'w>(&'a Writer<'w>);

impl Host for OfWriter<'_, '_> {
    fn now_ns(&mut self) -> u64 {
        boot_ns()
    }

    fn copy_back(&mut self, area: &Area, chunk: &Chunk) -> CopyBack {
        self.0.copy_back(area, chunk)
    }
}

/// Returns the nanoseconds since the machine was booted. They go on while it sleeps.
fn boot_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    // Linux has this clock. Without it no lease would end.
    now.map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
