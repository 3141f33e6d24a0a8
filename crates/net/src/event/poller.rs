//! epoll, level triggered: an event is reported until it is handled.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::{Stream, Streams};

/// Maximum number of events per wait.
const EVENTS_MAX: usize = 256;

/// Interest in a registered descriptor. A broken connection is always reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Only a broken connection.
    Nothing,
    /// Bytes to read, or the end of the stream.
    Read,
    /// Room to send.
    Write,
}

impl Interest {
    const fn flags(self) -> EpollFlags {
        match self {
            Self::Nothing => EpollFlags::empty(),
            Self::Read => EpollFlags::EPOLLIN,
            Self::Write => EpollFlags::EPOLLOUT,
        }
    }
}

/// An event of the descriptor registered under `token`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Token of the registration.
    pub token: u64,
    /// The connection is broken or closed in both directions. It may still hold bytes to read.
    pub broken: bool,
}

/// A set of descriptors.
#[derive(Debug)]
pub struct Poller {
    epoll: Epoll,
    events: Box<[EpollEvent]>,
    ready: usize,
}

impl Poller {
    /// Creates an empty set.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            events: vec![EpollEvent::empty(); EVENTS_MAX].into(),
            ready: 0,
        })
    }

    /// Adds a descriptor. It leaves the set when it is closed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn add(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let event = EpollEvent::new(interest.flags(), token);
        Ok(self.epoll.add(descriptor, event)?)
    }

    /// Changes the interest in a descriptor.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn change(&self, descriptor: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = EpollEvent::new(interest.flags(), token);
        Ok(self.epoll.modify(descriptor, &mut event)?)
    }

    /// Removes a descriptor before it is closed.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(descriptor)?)
    }

    /// Waits for events, at most `timeout_ms`; returns their number ([`Self::event`]).
    ///
    /// # Errors
    /// Returns the kernel's error. An interruption by a signal counts as no event.
    pub fn wait(&mut self, timeout_ms: u16) -> io::Result<usize> {
        self.ready = match self.epoll.wait(&mut self.events, EpollTimeout::from(timeout_ms)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(self.ready)
    }

    /// Returns an event of the last wait.
    ///
    /// # Panics
    /// If there were fewer events.
    #[inline]
    pub fn event(&self, number: usize) -> Event {
        let event = &self.events[..self.ready][number];
        Event {
            token: event.data(),
            broken: event.events().intersects(EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR),
        }
    }
}

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.0.as_raw_fd()
    }
}

impl Streams for Poller {
    type Stream = Stream;

    #[inline]
    fn adopt(&mut self, stream: Stream) -> io::Result<Stream> {
        Ok(stream)
    }

    fn add(&mut self, stream: &Stream, token: u64, interest: Interest) -> io::Result<()> {
        Self::add(self, stream, token, interest)
    }

    #[inline]
    fn change(&mut self, stream: &Stream, token: u64, interest: Interest) -> io::Result<()> {
        Self::change(self, stream, token, interest)
    }

    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Self::add(self, descriptor, token, Interest::Read)
    }

    #[inline]
    fn wait(&mut self, timeout_ms: u16) -> io::Result<usize> {
        Self::wait(self, timeout_ms)
    }

    #[inline]
    fn event(&self, number: usize) -> Event {
        Self::event(self, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteStream, Stream};
    use std::os::unix::net::UnixStream;

    fn tokens(poller: &mut Poller) -> Vec<(u64, bool)> {
        let count = poller.wait(0).unwrap();
        (0..count).map(|number| (poller.event(number).token, poller.event(number).broken)).collect()
    }

    #[test]
    fn events_repeat_until_they_are_handled() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut far) = (Stream::unix(near).unwrap(), Stream::unix(far).unwrap());
        let mut poller = Poller::new().unwrap();
        poller.add(&near, 7, Interest::Read).unwrap();
        assert_eq!(tokens(&mut poller), []);

        far.send(b"x").unwrap();
        assert_eq!(tokens(&mut poller), [(7, false)]);
        assert_eq!(tokens(&mut poller), [(7, false)]);
        near.recv(&mut [0; 1]).unwrap();
        assert_eq!(tokens(&mut poller), []);

        poller.change(&near, 8, Interest::Write).unwrap();
        assert_eq!(tokens(&mut poller), [(8, false)]);
        poller.change(&near, 8, Interest::Nothing).unwrap();
        far.send(b"x").unwrap();
        assert_eq!(tokens(&mut poller), []);
        drop(far);
        assert_eq!(tokens(&mut poller), [(8, true)]);
        drop(near);
        assert_eq!(tokens(&mut poller), []);
    }
}
