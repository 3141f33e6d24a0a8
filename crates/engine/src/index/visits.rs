//! What lookups cost, counted for tests and nowhere else: buckets visited, and keys compared.

#[cfg(test)]
std::thread_local! {
    static COUNTS: std::cell::Cell<(usize, usize)> = const { std::cell::Cell::new((0, 0)) };
}

/// A lookup looks at a bucket.
#[inline(always)]
pub(crate) fn count_bucket() {
    #[cfg(test)]
    COUNTS.with(|counts| counts.set((counts.get().0 + 1, counts.get().1)));
}

/// A lookup compares the key of an item.
#[inline(always)]
pub(crate) fn count_key() {
    #[cfg(test)]
    COUNTS.with(|counts| counts.set((counts.get().0, counts.get().1 + 1)));
}

/// Buckets and keys that lookups of this thread have looked at since the last call.
#[cfg(all(test, not(any(loom, miri))))]
pub(crate) fn take() -> (usize, usize) {
    COUNTS.with(|counts| counts.replace((0, 0)))
}
