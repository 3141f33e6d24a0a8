//! Standard error. A thread of its own writes to it, so nobody else waits for its reader: a pipe, a terminal,
//! a file on a dead mount. Before a process has gone to the background (`-d`) it has no such thread, and
//! waits.
//!
//! ```text
//!  line --> bytes that wait (bounded; what has no room is lost and counted) --> thread --> write
//! ```

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::START;
use crate::limits::{LOG_END_TIME, LOG_WAITING_BYTES_MAX};

/// The longest line, except in the report of the start: what a pipe takes as a whole (PIPE_BUF).
pub(super) const LINE_BYTES_MAX: usize = 4096;

static QUEUE: Queue = Queue { state: Mutex::new(State::new()), changed: Condvar::new() };

/// Makes the writer of each line.
pub(super) struct Output;

/// Writes one line.
pub(super) struct Line {
    bytes_max: usize,
}

/// Lines on their way to the thread.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The thread runs. Before that, whoever logs writes.
    has_thread: bool,
    waiting: Vec<u8>,
    /// The thread writes what it has taken.
    is_writing: bool,
    /// Lines that had no room.
    lost: u64,
}

impl State {
    const fn new() -> Self {
        Self { has_thread: false, waiting: Vec::new(), is_writing: false, lost: 0 }
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && !self.is_writing
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives lines to the thread. Returns false if there is none.
    fn push(&self, lines: &[u8]) -> bool {
        let mut state = self.lock();
        if state.has_thread {
            if state.waiting.len() + lines.len() > LOG_WAITING_BYTES_MAX {
                state.lost += 1;
            } else {
                state.waiting.extend_from_slice(lines);
                self.changed.notify_all();
            }
        }
        state.has_thread
    }

    /// Writes lines as they come, for ever.
    fn run(&self, write: impl Fn(&[u8])) {
        let mut lines = Vec::new();
        loop {
            let mut state = self.lock();
            state.is_writing = false;
            self.changed.notify_all();
            while state.waiting.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state.is_writing = true;
            std::mem::swap(&mut lines, &mut state.waiting);
            drop(state);
            // Each line by itself: others may write to the same pipe.
            lines.split_inclusive(|byte| *byte == b'\n').for_each(&write);
            lines.clear();
        }
    }

    /// Waits until all is written, for a bounded time.
    fn finish(&self) {
        let end = Instant::now() + LOG_END_TIME;
        let mut state = self.lock();
        while state.has_thread && !state.is_done() {
            let left = end.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl MakeWriter<'_> for Output {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { bytes_max: LINE_BYTES_MAX }
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> Line {
        let is_start = event.target() == START;
        Line { bytes_max: if is_start { usize::MAX } else { LINE_BYTES_MAX } }
    }
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shortened = match line.get(..self.bytes_max.saturating_sub(1)) {
            Some(beginning) if line.len() > self.bytes_max => Some([beginning, b"\n"].concat()),
            _ => None,
        };
        let lines = shortened.as_deref().unwrap_or(line);
        if !QUEUE.push(lines) {
            write(lines);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to standard error, however long it takes. What cannot be written is lost.
fn write(mut bytes: &[u8]) {
    let stderr = io::stderr();
    while !bytes.is_empty() {
        match nix::unistd::write(&stderr, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) => match io::Error::from(error).kind() {
                ErrorKind::Interrupted => {}
                ErrorKind::WouldBlock => {
                    let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
                    if poll(&mut polled, PollTimeout::NONE).is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}

/// Starts the thread, if it does not run. A process that becomes another one by a fork does so before.
///
/// # Errors
/// The kernel has no more threads.
pub fn begin_thread() -> io::Result<()> {
    let mut state = QUEUE.lock();
    if !state.has_thread {
        Builder::new().name("log".into()).spawn(|| {
            // Signals are for the main thread. Blocking all of them cannot fail.
            let _ = SigSet::all().thread_block();
            QUEUE.run(write);
        })?;
        state.has_thread = true;
    }
    Ok(())
}

/// Waits for the lines that were logged, for a bounded time: the process ends, or becomes another program.
pub fn finish() {
    QUEUE.finish();
}

/// Logs the message of a panic without waiting for a reader. Returns false if nothing can do that.
pub fn report_panic(text: &str) -> bool {
    let is_taken = QUEUE.push(format!("{text}\n").as_bytes());
    QUEUE.finish();
    is_taken
}

/// Returns how many lines were lost since the last time, once standard error takes lines again.
pub(super) fn lost() -> Option<u64> {
    let mut state = QUEUE.lock();
    let is_over = state.lost > 0 && state.is_done();
    is_over.then(|| std::mem::take(&mut state.lost))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// The reader of standard error stops reading, and goes on later.
    #[test]
    fn nobody_waits_for_a_reader_that_stands_still() {
        static LINES: Queue = Queue { state: Mutex::new(State::new()), changed: Condvar::new() };
        let line = [b'x'; 999].iter().chain(b"\n").copied().collect::<Vec<_>>();
        assert!(!LINES.push(&line), "without a thread whoever logs writes");
        LINES.lock().has_thread = true;
        let (written, lines) = channel();
        let (go_on, may_go_on) = channel::<()>();
        std::thread::spawn(move || {
            LINES.run(|line| {
                // Both end with the test.
                let _ = may_go_on.recv();
                let _ = written.send(line.len());
            });
        });
        // The thread may hold as many lines as wait.
        let pushed = 3 * LOG_WAITING_BYTES_MAX / line.len() + 10;
        (0..pushed).for_each(|_| assert!(LINES.push(&line)));
        let began = Instant::now();
        LINES.finish();
        assert!(began.elapsed() >= LOG_END_TIME && LINES.lock().waiting.len() <= LOG_WAITING_BYTES_MAX);
        let lost = LINES.lock().lost as usize;
        assert!(lost >= LOG_WAITING_BYTES_MAX / line.len(), "{lost}");
        drop(go_on);
        while !LINES.lock().is_done() {
            LINES.finish();
        }
        let lengths: Vec<_> = lines.try_iter().collect();
        assert_eq!(lengths, vec![line.len(); pushed - lost]);
    }
}
