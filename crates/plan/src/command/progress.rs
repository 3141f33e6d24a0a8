//! Progress on standard error, now and then.

use std::time::{Duration, Instant};

use micanite_workload::trace::StatusLine;

/// Time between two lines, and before the first one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Shows how far a simulation is.
#[derive(Debug)]
pub struct Progress {
    line: StatusLine,
    last: Instant,
    is_quiet: bool,
}

impl Progress {
    /// Shows nothing if `is_quiet`.
    pub fn new(is_quiet: bool) -> Self {
        Self { line: StatusLine::new(), last: Instant::now(), is_quiet }
    }

    /// Says that so many requests of something are simulated.
    pub fn at(&mut self, what: &str, requests: u64) {
        if !self.is_quiet && self.last.elapsed() >= INTERVAL {
            self.last = Instant::now();
            self.line.show(&format!("{what}: {:.1} million requests simulated", requests as f64 / 1e6));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.clear();
    }
}
