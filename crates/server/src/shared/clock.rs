//! The server's clock: read once per round of a worker, without a system call.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::time::{ClockId, clock_gettime};

/// Seconds for expiries (unix time as it was at start, going on evenly whatever is done to the
/// system's date) and milliseconds for intervals.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Unix time, in milliseconds, of the monotonic clock's zero.
    offset_ms: u64,
}

impl Clock {
    /// A clock that agrees with the system's now.
    pub fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        let unix_ms = unix.map_or(0, |time| time.as_millis() as u64);
        Self { offset_ms: unix_ms.saturating_sub(monotonic_ms()) }
    }

    /// Unix time, in milliseconds, of the coarse monotonic clock's zero.
    pub fn offset_ms(&self) -> u64 {
        self.offset_ms
    }

    /// Unix time in milliseconds.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.offset_ms + monotonic_ms()
    }
}

/// Unix time by the system's clock, for what happens seldom.
pub fn unix_now_s() -> u32 {
    seconds(Clock::start().now_ms())
}

/// Milliseconds of the coarse monotonic clock; its steps are 1 to 10 ms.
#[inline]
fn monotonic_ms() -> u64 {
    // It cannot fail: every Linux that has epoll has this clock.
    clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE)
        .map_or(0, |time| time.tv_sec() as u64 * 1000 + time.tv_nsec() as u64 / 1_000_000)
}

/// Microseconds of the monotonic clock, for what needs an order.
pub(crate) fn monotonic_us() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000 + time.tv_nsec() as u64 / 1000)
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// CPU time of this thread, in nanoseconds.
pub(crate) fn cpu_time_ns() -> u64 {
    // It cannot fail for the calling thread.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Whole seconds of a time in milliseconds.
#[inline]
pub fn seconds(now_ms: u64) -> u32 {
    (now_ms / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_system_and_goes_on() {
        let clock = Clock::start();
        let unix_s = || {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH);
            unix.unwrap().as_secs()
        };
        let (before, first, after) = (unix_s(), clock.now_ms(), unix_s());
        assert!((before - 1..=after + 1).contains(&u64::from(seconds(first))));
        while clock.now_ms() == first {}
        assert!(clock.now_ms() > first);
    }
}
