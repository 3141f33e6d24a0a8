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
    has_waited: bool,
    /// Time since the last [`Self::end_at`] at which the peer has made bytes move: what goes into a buffer at
    /// once tells nothing of it.
    active_at: Option<Instant>,
}

impl<S: AsFd> Timed<S> {
    pub fn new(socket: S, end: Instant) -> Self {
        Self { socket, end, has_waited: false, active_at: None }
    }

    pub fn get_ref(&self) -> &S {
        &self.socket
    }

    pub fn end_at(&mut self, end: Instant) {
        (self.end, self.has_waited, self.active_at) = (end, false, None);
    }

    /// Returns whether the peer has made no byte move for some time.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        self.active_at.is_none_or(|at| at.elapsed() >= time)
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

    fn wait(&mut self, events: PollFlags) -> io::Result<()> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left_ms = left.as_nanos().div_ceil(1_000_000).min(60_000) as u16;
            match poll(&mut [PollFd::new(self.socket.as_fd(), events)], PollTimeout::from(left_ms)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => {
                    self.has_waited = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn moved(&mut self, bytes: usize) -> usize {
        self.end += BYTE_TIME * bytes as u32;
        if std::mem::take(&mut self.has_waited) && bytes > 0 {
            self.active_at = Some(Instant::now());
        }
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

    /// A peer that takes bytes slowly is not silent, though it has not taken all until the end.
    #[test]
    fn a_slow_peer_is_not_silent() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let deadline = Duration::from_secs(1);
        let is_silent_after_a_write = |near: &UnixStream| {
            let mut timed = Timed::new(near, Instant::now() + deadline);
            let all = timed.write_all(&vec![0; 64 << 20]);
            assert_eq!(all.unwrap_err().kind(), io::ErrorKind::TimedOut);
            timed.is_silent_for(deadline)
        };
        assert!(is_silent_after_a_write(&near), "the buffer alone has taken bytes");
        let reads = std::thread::spawn(move || {
            let mut bytes = [0; 32 << 10];
            while far.read(&mut bytes).is_ok_and(|read| read > 0) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        assert!(!is_silent_after_a_write(&near));
        drop(near);
        reads.join().unwrap();
    }
}
