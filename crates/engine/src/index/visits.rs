//! Costs of lookups, counted for tests alone: buckets visited, and keys compared.

#[cfg(test)]
std::thread_local! {
    static COUNTS: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((0, 0)) };
}

/// Counts a visit of a bucket by a lookup.
#[inline(always)]
pub(crate) fn count_bucket() {
    #[cfg(test)]
    COUNTS.with(|counts| counts.set((counts.get().0 + 1, counts.get().1)));
}

/// Counts a comparison of an item's key by a lookup.
#[inline(always)]
pub(crate) fn count_key() {
    #[cfg(test)]
    COUNTS.with(|counts| counts.set((counts.get().0, counts.get().1 + 1)));
}

/// Returns the buckets visited and keys compared by lookups of this thread since the last call.
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) fn take() -> (usize, usize) {
    COUNTS.with(|counts| counts.replace((0, 0)))
}
