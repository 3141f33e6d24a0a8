//! What has come to the queue of one thread and is for another one. Where the network puts each
//! port on its queue nothing does.

use micanite_net::Waker;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that wait for a thread, at most; what comes beyond is lost and sent again.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Datagrams that were passed on.
#[derive(Debug, Default)]
pub(super) struct Letters {
    bytes: Vec<u8>,
    /// Who sent each, and its length.
    heads: Vec<(SocketAddr, usize)>,
}

impl Letters {
    fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(WAITING_BYTES_MAX),
            heads: Vec::with_capacity(WAITING_BYTES_MAX / 64),
        }
    }

    fn push(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let has_room = self.heads.len() < self.heads.capacity()
            && bytes.len() <= self.bytes.capacity() - self.bytes.len();
        if has_room {
            self.heads.push((from, bytes.len()));
            self.bytes.extend_from_slice(bytes);
        }
        has_room
    }

    /// Shows all, and has none afterwards.
    pub fn read(&mut self, mut take: impl FnMut(&[u8], SocketAddr)) -> usize {
        let mut rest = self.bytes.as_slice();
        for (from, len) in &self.heads {
            let (bytes, others) = rest.split_at(*len);
            take(bytes, *from);
            rest = others;
        }
        let count = self.heads.len();
        self.bytes.clear();
        self.heads.clear();
        count
    }
}

/// Where datagrams wait for the thread that they are for.
#[derive(Debug)]
pub(super) struct Mailbox {
    has_some: AtomicBool,
    sleeps: AtomicBool,
    waker: Waker,
    letters: Mutex<Letters>,
}

impl Mailbox {
    /// Two of them: an empty one to be exchanged for the one that has something.
    pub fn new() -> io::Result<(Self, Letters)> {
        let mailbox = Self {
            has_some: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker: Waker::new()?,
            letters: Mutex::new(Letters::new()),
        };
        Ok((mailbox, Letters::new()))
    }

    /// Puts a datagram in; returns whether there was room.
    pub fn put(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let is_put = letters.push(from, bytes);
        drop(letters);
        // Either the sleeper sees the letter before it sleeps, or this sees that it sleeps.
        self.has_some.store(true, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.waker.wake();
        }
        is_put
    }

    /// Exchanges what has come for an empty one, if anything has.
    #[inline]
    pub fn take(&self, empty: &mut Letters) {
        if self.has_some.load(Ordering::Relaxed) {
            self.has_some.store(false, Ordering::SeqCst);
            let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *letters, empty);
        }
    }

    /// Sleeps by the closure, unless something has come; whoever puts something in wakes it.
    pub fn sleep<'w>(&'w self, wait: impl FnOnce(&'w Waker)) {
        self.sleeps.store(true, Ordering::SeqCst);
        if !self.has_some.load(Ordering::SeqCst) {
            wait(&self.waker);
        }
        self.sleeps.store(false, Ordering::SeqCst);
        self.waker.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_the_rest_is_read_in_order() {
        let (mailbox, mut letters) = Mailbox::new().unwrap();
        let from: SocketAddr = "10.0.0.1:7".parse().unwrap();
        let datagram = [7; 1000];
        let mut put = 0;
        while mailbox.put(from, &datagram[..1000 - put % 5]) {
            put += 1;
        }
        assert!(put >= WAITING_BYTES_MAX / 1000);
        mailbox.take(&mut letters);
        let mut read = 0;
        let count = letters.read(|bytes, sender| {
            assert_eq!((bytes.len(), sender), (1000 - read % 5, from));
            read += 1;
        });
        assert_eq!((count, read), (put, put));
        mailbox.take(&mut letters);
        assert_eq!(letters.read(|_, _| {}), 0);
        assert!(mailbox.put(from, b"again"));
    }

    #[test]
    fn a_sleeper_is_woken_by_what_comes() {
        let (mailbox, mut letters) = Mailbox::new().unwrap();
        let mut poller = micanite_net::Poller::new().unwrap();
        poller
            .add(&mailbox.waker, 1, micanite_net::Interest::Read)
            .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| mailbox.put("10.0.0.1:7".parse().unwrap(), b"letter"));
            mailbox.sleep(|_| assert_eq!(poller.wait(60_000).unwrap(), 1));
            // It may have come before the sleep.
            while letters.read(|bytes, _| assert_eq!(bytes, b"letter")) == 0 {
                mailbox.take(&mut letters);
            }
        });
    }
}
