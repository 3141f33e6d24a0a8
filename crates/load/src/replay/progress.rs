//! The seconds of a replay while it runs.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::tally::Live;

/// One second of a replay.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Second {
    /// Its end, in seconds from the start.
    pub at_s: f64,
    /// Requests answered in it.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Reads among them that found something.
    pub hits: u64,
    /// The longest time from when a request was due to when it was sent.
    pub lag_ms_max: f64,
}

impl Second {
    fn hit_percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.reads.max(1) as f64
    }
}

/// Watches until `end` is closed; shows a line per second on standard error if it is wanted.
pub(super) fn watch(
    live: &Live,
    start: Instant,
    end: &Receiver<()>,
    is_shown: bool,
) -> Vec<Second> {
    let is_terminal = std::io::stderr().is_terminal();
    let mut seconds = Vec::new();
    let mut before = [0; 3];
    let mut is_over = false;
    while !is_over {
        let next = start + Duration::from_secs(seconds.len() as u64 + 1);
        let left = next.saturating_duration_since(Instant::now());
        is_over = end.recv_timeout(left) != Err(RecvTimeoutError::Timeout);
        let counts = [&live.answered, &live.reads, &live.hits];
        let now = counts.map(|count| count.load(Ordering::Relaxed));
        let second = Second {
            at_s: start.elapsed().as_secs_f64(),
            requests: now[0] - before[0],
            reads: now[1] - before[1],
            hits: now[2] - before[2],
            lag_ms_max: live.lag_ns_max.swap(0, Ordering::Relaxed) as f64 / 1e6,
        };
        before = now;
        seconds.push(second);
        if is_shown && !is_over {
            show(&second, is_terminal);
        }
    }
    if is_shown && is_terminal && seconds.len() > 1 {
        eprintln!();
    }
    seconds
}

fn show(second: &Second, is_terminal: bool) {
    let mut line = format!(
        "{:>5.0} s  {:>9} requests  hits {:>6.2} %",
        second.at_s,
        second.requests,
        second.hit_percent()
    );
    if second.lag_ms_max > 0.0 {
        line += &format!("  up to {:.1} ms late", second.lag_ms_max);
    }
    // Where nobody can read it, nothing is lost.
    let mut to = std::io::stderr().lock();
    let _ = match is_terminal {
        true => write!(to, "\r{line}\x1b[K").and_then(|()| to.flush()),
        false => writeln!(to, "{line}"),
    };
}
