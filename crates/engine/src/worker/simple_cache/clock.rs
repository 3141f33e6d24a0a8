//! The time of a [`super::SimpleCache`].

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::log::item::Expiry;

/// Seconds since 1970, that do not go back: an image's expiries are on this clock, too.
pub(super) struct Clock {
    started: Instant,
    started_after: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The first two seconds mean "never" and "has passed".
        Self { started: Instant::now(), started_after: since_1970.max(Duration::from_secs(2)) }
    }

    pub fn now(&self) -> Duration {
        self.started_after + self.started.elapsed()
    }

    /// Returns the first whole second that is not before the end of a lifetime that begins now.
    pub fn expiry(&self, lifetime: Duration) -> Expiry {
        let end = self.now().saturating_add(lifetime);
        let end_s = end.as_secs().saturating_add(u64::from(end.subsec_nanos() > 0));
        Expiry(u32::try_from(end_s).unwrap_or(u32::MAX))
    }
}

/// Returns the whole seconds of a time of the clock.
pub(super) fn second(now: Duration) -> u32 {
    now.as_secs() as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Proves that no item ends before its time, that it ends within a second, and that no lifetime is
    /// taken for "never".
    #[test]
    fn an_expiry_is_the_next_whole_second() {
        let clock = Clock { started: Instant::now(), started_after: Duration::from_millis(10_400) };
        for lifetime_ms in [0, 1, 599, 601, 90_000] {
            let lifetime = Duration::from_millis(lifetime_ms);
            let before = clock.now() + lifetime;
            let Expiry(end_s) = clock.expiry(lifetime);
            let after = clock.now() + lifetime;
            let end = Duration::from_secs(end_s.into());
            assert!(before <= end && end < after + Duration::from_secs(1), "{lifetime_ms}");
        }
        assert_eq!(clock.expiry(Duration::MAX), Expiry(u32::MAX));
        let Expiry(least_s) = Clock { started_after: Duration::from_secs(2), ..clock }.expiry(Duration::ZERO);
        assert!(Expiry(least_s) > Expiry::PAST);
    }
}
