//! The state of a compaction, beside the heap's cursor.

use micanite_memory::sync::AtomicU64;
use micanite_memory::sync::Ordering::Relaxed;

use crate::limits::SCATTERED_SHARE;

/// Progress of the compaction of a partition, beside the heap's cursor. Only the writer uses it.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// Work that calls for the index or a sparse store have done beyond their limit, in units:
    /// later calls do less.
    pub(crate) debt_units: AtomicU64,
    /// One if the next pass begins at the first block.
    pub(crate) whole: AtomicU64,
    /// Calls to come that do nothing.
    pub(crate) pause: AtomicU64,
    /// Units that were free when the last pass from the first block began.
    pub(crate) free_at_begin: AtomicU64,
    /// Units that were free when the last pass began that made no space.
    pub(crate) failed_free: AtomicU64,
    /// Units of the item that it made no space for.
    pub(crate) failed_units: AtomicU64,
    /// Units that were free after the last pass from the first block.
    pub(crate) settled_free: AtomicU64,
    /// Units among those that were not at the end: the pass could not change that.
    pub(crate) settled_scattered: AtomicU64,
    /// One if the last insertion that compacted was refused: upkeep continues for it.
    pub(crate) refused: AtomicU64,
    /// Bucket at which the search for the next beginning starts.
    pub(crate) bucket: AtomicU64,
    /// Units of all items that were moved.
    pub(crate) moved_units: AtomicU64,
    /// Allocated blocks that were visited.
    pub(crate) visits: AtomicU64,
}

impl Compaction {
    pub fn moved_units(&self) -> u64 {
        self.moved_units.load(Relaxed)
    }

    #[cfg(all(test, not(any(loom, miri))))]
    pub fn visits(&self) -> u64 {
        self.visits.load(Relaxed)
    }

    /// Returns whether this call ends at once.
    pub(crate) fn holds_back(&self, aim: Aim, free: u64) -> bool {
        let pause = self.pause.load(Relaxed);
        if pause == 0 {
            return false;
        }
        if let Aim::Block(units) = aim
            && (units < self.failed_units.load(Relaxed) || free > self.failed_free.load(Relaxed))
        {
            return false;
        }
        self.pause.store(pause - 1, Relaxed);
        true
    }

    /// Returns whether a pass from the first block has left the free space as it is, but for a
    /// small part.
    pub(crate) fn is_settled(&self, free: u64, scattered: u64) -> bool {
        let least = free / SCATTERED_SHARE as u64;
        free <= self.settled_free.load(Relaxed) + least
            && scattered <= self.settled_scattered.load(Relaxed) + least
    }
}

/// Goal of a call.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    /// This many units are free at the end of the space.
    End(u64),
    /// A free block of this many units exists.
    Block(u64),
    /// The pass ends.
    Pass,
}

impl Aim {
    pub(crate) const fn is_met(self, gap: Gap) -> bool {
        match self {
            Self::End(units) => gap.last && gap.units >= units,
            Self::Block(units) => gap.units >= units,
            Self::Pass => gap.last,
        }
    }
}

/// The free block that a pass has reached.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    pub(crate) units: u64,
    /// True if it is the last block.
    pub(crate) last: bool,
}
