//! Progress of a command, on the standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::trace::open::Opened;

/// Intervals between two lines: on a terminal, where each replaces the one before, and elsewhere.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Number of requests between looks at the clock.
pub(crate) const REQUESTS_PER_LOOK: u64 = 1 << 16;

/// A line on standard error that is shown again and again; on a terminal each takes the place of the
/// one before. Where nobody can read it, nothing is lost.
#[derive(Debug)]
pub struct StatusLine {
    is_terminal: bool,
    is_shown: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self::new()
    }
}

impl StatusLine {
    pub fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), is_shown: false }
    }

    pub fn show(&mut self, line: &str) {
        let mut to = io::stderr().lock();
        let _ = match self.is_terminal {
            true => write!(to, "\r{line}\x1b[K").and_then(|()| to.flush()),
            false => writeln!(to, "{line}"),
        };
        self.is_shown = true;
    }

    /// Leaves the line where it is: what follows begins another one.
    pub fn keep(&mut self) {
        self.end("\n");
    }

    /// Takes the line off a terminal.
    pub fn clear(&mut self) {
        self.end("\r\x1b[K");
    }

    fn end(&mut self, by: &str) {
        if self.is_terminal && std::mem::take(&mut self.is_shown) {
            let _ = io::stderr().write_all(by.as_bytes());
        }
    }
}

/// Says how far something is, now and then. On a terminal nothing of it stays.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Time of the last line, or of the beginning.
    last: Mutex<(Instant, StatusLine)>,
    /// Interval between two lines; none shows nothing.
    interval: Option<Duration>,
}

impl Progress {
    pub fn new(is_quiet: bool) -> Self {
        let line = StatusLine::new();
        let interval = match line.is_terminal {
            true => TERMINAL_INTERVAL,
            false => FILE_INTERVAL,
        };
        Self { last: Mutex::new((Instant::now(), line)), interval: (!is_quiet).then_some(interval) }
    }

    /// Says it, if it is time for it.
    pub fn say(&self, what: impl FnOnce() -> String) {
        if let (Some(interval), Ok(mut last)) = (self.interval, self.last.try_lock())
            && last.0.elapsed() >= interval
        {
            last.0 = Instant::now();
            last.1.show(&what());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Ok(last) = self.last.get_mut() {
            last.1.clear();
        }
    }
}

/// Says how far a trace has been read.
pub(crate) struct Reading {
    progress: Progress,
    /// 0 of what is no file: nobody knows its end.
    file_bytes: u64,
    read_bytes: Arc<AtomicU64>,
    began: Instant,
}

impl Reading {
    pub fn new(opened: &Opened, is_quiet: bool) -> Self {
        Self {
            progress: Progress::new(is_quiet),
            file_bytes: opened.file_bytes,
            read_bytes: Arc::clone(&opened.read_bytes),
            began: Instant::now(),
        }
    }

    /// Shows that so many requests have been read.
    pub fn at(&self, requests: u64) {
        self.progress.say(|| {
            let (millions, seconds) = (requests as f64 / 1e6, self.began.elapsed().as_secs_f64());
            let read_bytes = self.read_bytes.load(Ordering::Relaxed);
            let share = match self.file_bytes {
                0 => String::new(),
                all => format!("{:.0} % read, ", 100.0 * read_bytes as f64 / all as f64),
            };
            format!("{share}{millions:.1} million requests, {seconds:.0} s")
        });
    }
}
