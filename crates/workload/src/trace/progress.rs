//! How far something is, on the standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::trace::open::Opened;

/// Between two lines: on a terminal, where each replaces the one before, and elsewhere.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const FILE_INTERVAL: Duration = Duration::from_secs(10);

/// Whoever counts requests looks at the clock after so many.
pub(crate) const REQUESTS_PER_LOOK: u64 = 1 << 16;

/// Says how far something is, now and then. On a terminal nothing of it stays.
#[derive(Debug)]
pub(crate) struct Progress {
    /// When something was said last, and whether anything was.
    last: Mutex<(Instant, bool)>,
    /// Between two lines; nothing is said without.
    interval: Option<Duration>,
    is_terminal: bool,
}

impl Progress {
    pub fn new(is_quiet: bool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let interval = match is_terminal {
            true => TERMINAL_INTERVAL,
            false => FILE_INTERVAL,
        };
        Self {
            last: Mutex::new((Instant::now(), false)),
            interval: (!is_quiet).then_some(interval),
            is_terminal,
        }
    }

    /// Says it, if it is time for it.
    pub fn say(&self, what: impl FnOnce() -> String) {
        let (Some(interval), Ok(mut last)) = (self.interval, self.last.try_lock()) else {
            return;
        };
        if last.0.elapsed() < interval {
            return;
        }
        *last = (Instant::now(), true);
        let mut to = io::stderr().lock();
        // Nobody depends on it.
        let _ = match self.is_terminal {
            true => write!(to, "\r\x1b[K{}", what()).and_then(|()| to.flush()),
            false => writeln!(to, "{}", what()),
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let has_said = self.last.get_mut().map_or(true, |last| last.1);
        if self.is_terminal && has_said {
            let _ = write!(io::stderr(), "\r\x1b[K");
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

    /// So many requests have been read.
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
