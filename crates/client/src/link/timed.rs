//! Reads and writes that end at a time, however many signals interrupt them.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time by which a byte that has come or gone puts the end off: 1 MB/s. Long values need it on slow links.
const BYTE_TIME: Duration = Duration::from_micros(1);

/// A socket that does not block, whose reads and writes wait until a time.
#[derive(Debug)]
pub(crate) struct Timed<S> {
    socket: S,
    end: Instant,
}

impl<S: AsFd> Timed<S> {
    pub fn new(socket: S, end: Instant) -> Self {
        Self { socket, end }
    }

    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    pub fn end_at(&mut self, end: Instant) {
        self.end = end;
    }

    /// Tries until the socket neither blocks nor is interrupted, or the time is over.
    pub fn retry<T>(
        &mut self,
        events: PollFlags,
        mut call: impl FnMut(&mut S) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match call(&mut self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(events)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn wait(&self, events: PollFlags) -> io::Result<()> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left_ms = left.as_nanos().div_ceil(1_000_000).min(60_000) as u16;
            match poll(&mut [PollFd::new(self.socket.as_fd(), events)], PollTimeout::from(left_ms)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn moved(&mut self, bytes: usize) -> usize {
        self.end += BYTE_TIME * bytes as u32;
        bytes
    }
}

impl<S: AsFd + Read> Read for Timed<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.retry(PollFlags::POLLIN, |socket| socket.read(into))?;
        Ok(self.moved(read))
    }
}

impl<S: AsFd + Write> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.retry(PollFlags::POLLOUT, |socket| socket.write(bytes))?;
        Ok(self.moved(written))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// A peer that is silent, or takes nothing, is waited for until the end alone.
    #[test]
    fn reads_and_writes_end_at_their_time() {
        let (near, _far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let began = Instant::now();
        let mut timed = Timed::new(&near, began + Duration::from_millis(20));
        let over = |result: io::Result<usize>| result.unwrap_err().kind() == io::ErrorKind::TimedOut;
        assert!(over(timed.read(&mut [0; 8])));
        assert!(began.elapsed() >= Duration::from_millis(20));
        let all = timed.write_all(&vec![0; 16 << 20]);
        assert_eq!(all.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
