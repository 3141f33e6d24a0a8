//! The seconds of a replay while it runs.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use micanite_workload::trace::StatusLine;
use serde::Serialize;

use super::tally::Live;
use crate::run::clock::{Clock, SECOND_NS};

#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Second {
    /// End of the second, in seconds from the start.
    pub at_s: f64,
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Reads among them that found something.
    pub hits: u64,
    /// The longest time from when a request was due to when it was sent.
    pub lag_ms_max: f64,
}

impl Second {
    fn line(&self) -> String {
        let hit_percent = 100.0 * self.hits as f64 / self.reads.max(1) as f64;
        let mut line =
            format!("{:>5.0} s  {:>9} requests  hits {hit_percent:>6.2} %", self.at_s, self.requests);
        if self.lag_ms_max > 0.0 {
            line += &format!("  up to {:.1} ms late", self.lag_ms_max);
        }
        line
    }
}

/// Watches until `end` is closed; shows a line per second on standard error if it is wanted.
pub(super) fn watch(live: &Live, clock: Clock, end: &Receiver<()>, is_shown: bool) -> Vec<Second> {
    let mut progress = StatusLine::new();
    let mut seconds = Vec::new();
    let mut before = [0; 3];
    let mut is_over = false;
    while !is_over {
        let next_ns = (seconds.len() as u64 + 1) * SECOND_NS;
        let left = Duration::from_nanos(next_ns.saturating_sub(clock.now_ns()));
        is_over = end.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
        let counts = [&live.answered, &live.reads, &live.hits];
        let now = counts.map(|count| count.load(Ordering::Relaxed));
        let second = Second {
            at_s: clock.now_ns() as f64 / 1e9,
            requests: now[0] - before[0],
            reads: now[1] - before[1],
            hits: now[2] - before[2],
            lag_ms_max: live.lag_ns_max.swap(0, Ordering::Relaxed) as f64 / 1e6,
        };
        before = now;
        seconds.push(second);
        if is_shown && !is_over {
            progress.show(&second.line());
        }
    }
    progress.keep();
    seconds
}
