//! Calls of a provider, and the watch for one that does not return.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{FABRIC_LOOK_MS_MAX, FABRIC_STANDS_MS};

/// Counts the calls of the one thread that makes them: odd while it is within one.
#[derive(Debug, Default)]
pub(super) struct Calls(AtomicU64);

impl Calls {
    /// Makes a call.
    #[inline]
    pub(super) fn within<R>(&self, call: impl FnOnce() -> R) -> R {
        let count = self.0.load(Ordering::Relaxed);
        self.0.store(count.wrapping_add(1), Ordering::Relaxed);
        let result = call();
        self.0.store(count.wrapping_add(2), Ordering::Relaxed);
        result
    }
}

/// Looks regularly whether a call stands.
#[derive(Debug, Default)]
pub(super) struct Watch {
    seen: u64,
    looked_ms: u64,
    stood_ms: u64,
}

impl Watch {
    /// Returns whether one call has lasted for [`FABRIC_STANDS_MS`]. A long time between two looks counts as
    /// [`FABRIC_LOOK_MS_MAX`], because the whole process may have been stopped.
    pub(super) fn stands(&mut self, calls: &Calls, now_ms: u64) -> bool {
        let count = calls.0.load(Ordering::Relaxed);
        let passed_ms = now_ms.saturating_sub(self.looked_ms).min(FABRIC_LOOK_MS_MAX);
        self.looked_ms = now_ms;
        if count.is_multiple_of(2) || count != self.seen {
            (self.seen, self.stood_ms) = (count, 0);
            return false;
        }
        self.stood_ms += passed_ms;
        self.stood_ms >= FABRIC_STANDS_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_lasts_stands_and_others_do_not() {
        let (calls, mut watch) = (Calls::default(), Watch::default());
        let mut now_ms = 1_000_000;
        let mut look = |calls: &Calls| {
            now_ms += 100;
            watch.stands(calls, now_ms)
        };
        assert!((0..1000).all(|_| !look(&calls)));
        calls.within(|| {
            let looks = (0..).take_while(|_| !look(&calls)).count() as u64;
            // The first look only sees the call.
            assert_eq!((looks - 1) * 100 + 100, FABRIC_STANDS_MS);
        });
        assert!(!look(&calls));
        // As many short calls as looks.
        assert!((0..1000).all(|_| calls.within(|| !look(&calls))));
    }

    #[test]
    fn a_process_that_was_stopped_does_not_count_as_a_call_that_stands() {
        let (calls, mut watch) = (Calls::default(), Watch::default());
        calls.within(|| {
            assert!(!watch.stands(&calls, 1000));
            assert!(!watch.stands(&calls, 1_000_000));
        });
    }
}
