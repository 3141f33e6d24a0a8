//! Time since the start of a run.

use std::time::{Duration, Instant};

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A request is late that is sent later than this after it was due.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// A run's clock; copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Begins to count after `delay`, so that threads have time to start.
    pub fn starting_in(delay: Duration) -> Self {
        Self(Instant::now() + delay)
    }

    /// Sleeps until the start.
    pub fn wait_for_start(self) {
        while let Some(left) = self.0.checked_duration_since(Instant::now())
            && !left.is_zero()
        {
            std::thread::sleep(left);
        }
    }

    /// Nanoseconds since the start; 0 before.
    #[inline]
    pub fn now_ns(self) -> u64 {
        nanoseconds(Instant::now().saturating_duration_since(self.0))
    }
}

/// A duration as a number; the longest are cut.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
