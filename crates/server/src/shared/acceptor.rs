//! Counters of the acceptor.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::telemetry::table::Counter;

/// Counters of the acceptor.
#[derive(Debug, Default)]
pub struct AcceptorCounters {
    accepted: Counter,
    rejected: Counter,
    pausing: AtomicBool,
    pauses: Counter,
    paused_us: Counter,
    paused_at_us: AtomicU64,
}

/// [`AcceptorCounters`] at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct AcceptorNumbers {
    /// Connections handed to workers.
    pub accepted: u64,
    /// Connections beyond the limit.
    pub rejected: u64,
    /// Connections are accepted now.
    pub accepting: bool,
    /// Pauses of accepting because files had run out.
    pub pauses: u64,
    /// Length of these pauses, apart from one that lasts still.
    pub paused_us: u64,
}

impl AcceptorCounters {
    /// Counts a connection that was handed to a worker.
    pub fn count_accepted(&self) {
        self.accepted.add(1);
    }

    /// Counts a connection that was refused.
    pub fn count_rejected(&self) {
        self.rejected.add(1);
    }

    /// Notes that accepting pauses, because files have run out, or goes on.
    pub fn set_pausing(&self, pausing: bool) {
        let before = self.pausing.swap(pausing, Ordering::Relaxed);
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_us = now_us.map_or(0, |now| now.as_micros() as u64);
        if pausing && !before {
            self.pauses.add(1);
            self.paused_at_us.store(now_us, Ordering::Relaxed);
        } else if before && !pausing {
            let since_us = self.paused_at_us.load(Ordering::Relaxed);
            self.paused_us.add(now_us.saturating_sub(since_us));
        }
    }

    /// Returns the numbers now.
    pub fn now(&self) -> AcceptorNumbers {
        AcceptorNumbers {
            accepted: self.accepted.get(),
            rejected: self.rejected.get(),
            accepting: !self.pausing.load(Ordering::Relaxed),
            pauses: self.pauses.get(),
            paused_us: self.paused_us.get(),
        }
    }
}
