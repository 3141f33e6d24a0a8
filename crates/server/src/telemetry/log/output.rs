//! Standard error: nothing waits for a reader that has stopped reading, except the report of the start.

use std::io::{self, Stderr, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::START;

/// Bytes that a pipe which is ready for writing takes at once (PIPE_BUF).
pub(super) const LINE_BYTES_MAX: usize = 4096;

static LOST: AtomicU64 = AtomicU64::new(0);

/// Makes the writer of each line.
pub(super) struct Output;

/// Writes one line.
pub(super) struct Line {
    may_wait: bool,
}

impl MakeWriter<'_> for Output {
    type Writer = Line;

    fn make_writer(&self) -> Line {
        Line { may_wait: false }
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> Line {
        Line { may_wait: event.target() == START }
    }
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut to = io::stderr().lock();
        if self.may_wait {
            return to.write(line);
        }
        if !is_ready() {
            LOST.fetch_add(1, Ordering::Relaxed);
            return Ok(line.len());
        }
        match line.get(..LINE_BYTES_MAX - 1) {
            Some(beginning) if line.len() > LINE_BYTES_MAX => {
                to.write_all(beginning)?;
                to.write_all(b"\n")?;
            }
            _ => to.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how many lines were lost since the last time, once standard error takes lines again.
pub(super) fn lost() -> Option<u64> {
    (LOST.load(Ordering::Relaxed) > 0 && is_ready()).then(|| LOST.swap(0, Ordering::Relaxed))
}

/// Returns whether a line can be written at once. A pipe is ready when it has room for a whole line.
fn is_ready() -> bool {
    let stderr: Stderr = io::stderr();
    let mut polled = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    match poll(&mut polled, PollTimeout::ZERO) {
        Ok(_) => polled[0].revents().is_some_and(|it| it.contains(PollFlags::POLLOUT)),
        Err(_) => false,
    }
}
