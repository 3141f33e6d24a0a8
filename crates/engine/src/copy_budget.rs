//! Bytes that the present batch may still move within the memory.
//!
//! Whoever serves a connection sees how much comes in and goes out, but not what the engine copies beside that: an append copies the
//! value that is there, a touch may move its item, eviction moves what was requested. It is counted here, for the thread that does it.
//! Copies that a request needs are made whatever is left, and the batch ends behind them; copies that only the eviction policy
//! wishes are made as long as there is enough left. So a turn moves at most what it may, and one item more.

use std::cell::Cell;

/// Nobody counts.
pub(crate) const UNLIMITED: isize = isize::MAX;

thread_local! {
    /// Less than nothing after a copy that was larger than what was left.
    static LEFT_BYTES: Cell<isize> = const { Cell::new(UNLIMITED) };
}

/// Counts bytes that were moved.
#[inline]
pub(crate) fn spend(bytes: usize) {
    LEFT_BYTES.with(|left| left.set(left.get().saturating_sub_unsigned(bytes)));
}

/// Whether there is enough left for a copy that can be done without.
#[inline]
pub(crate) fn allows(bytes: usize) -> bool {
    LEFT_BYTES.with(|left| left.get() >= bytes as isize)
}

/// Whether nothing is left.
#[inline]
pub(crate) fn is_spent() -> bool {
    LEFT_BYTES.with(|left| left.get() <= 0)
}

/// Sets what is left, and returns what was.
#[inline]
pub(crate) fn replace(left_bytes: isize) -> isize {
    LEFT_BYTES.with(|left| left.replace(left_bytes))
}
