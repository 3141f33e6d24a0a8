//! The budget of a batch: bytes that it may still move within the memory.
//!
//! The server sees how many bytes a connection receives and sends, but not the copies within the
//! engine: an append copies the old value, a touch may move its item, eviction moves requested
//! items. This module counts them, for the thread that copies. A request always makes the copies
//! that it needs, and the batch ends after it. Copies that only the eviction policy wants are made
//! while the budget allows them. So a turn moves at most its budget, and one item more.

use std::cell::Cell;

/// The budget while nothing is counted.
pub(crate) const UNLIMITED: isize = isize::MAX;

thread_local! {
    /// Negative after a copy that was larger than the budget.
    static LEFT_BYTES: Cell<isize> = const { Cell::new(UNLIMITED) };
}

/// Subtracts moved bytes from the budget.
#[inline]
pub(crate) fn spend(bytes: usize) {
    LEFT_BYTES.with(|left| left.set(left.get().saturating_sub_unsigned(bytes)));
}

/// Returns whether the budget allows an optional copy.
#[inline]
pub(crate) fn allows(bytes: usize) -> bool {
    LEFT_BYTES.with(|left| left.get() >= bytes as isize)
}

/// Returns whether the budget is spent.
#[inline]
pub(crate) fn is_spent() -> bool {
    LEFT_BYTES.with(|left| left.get() <= 0)
}

/// Sets the budget, and returns the previous one.
#[inline]
pub(crate) fn replace(left_bytes: isize) -> isize {
    LEFT_BYTES.with(|left| left.replace(left_bytes))
}
