//! Datagrams that arrived at one thread's queue and belong to another. It stays empty if the
//! network directs each port to its queue.

use micanite_net::Waker;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of waiting bytes per thread. Further datagrams are lost, and sent again.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Forwarded datagrams.
#[derive(Debug, Default)]
pub(super) struct Forwarded {
    bytes: Vec<u8>,
    /// Sender and length of each datagram.
    heads: Vec<(SocketAddr, usize)>,
}

impl Forwarded {
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

    /// Passes on all datagrams, and clears them.
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

/// Datagrams that wait for their thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    has_some: AtomicBool,
    sleeps: AtomicBool,
    waker: Waker,
    forwarded: Mutex<Forwarded>,
}

impl Mailbox {
    /// Creates a mailbox, and an empty buffer to exchange for its contents.
    pub fn new() -> io::Result<(Self, Forwarded)> {
        let mailbox = Self {
            has_some: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            waker: Waker::new()?,
            forwarded: Mutex::new(Forwarded::new()),
        };
        Ok((mailbox, Forwarded::new()))
    }

    /// Adds a datagram; returns whether there was room.
    pub fn put(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        let mut forwarded = self.forwarded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_put = forwarded.push(from, bytes);
        drop(forwarded);
        // Either the sleeper sees the datagram before it sleeps, or this thread sees that it
        // sleeps.
        self.has_some.store(true, Ordering::SeqCst);
        if self.sleeps.load(Ordering::SeqCst) {
            self.waker.wake();
        }
        is_put
    }

    /// Exchanges the contents for an empty buffer, if there are any.
    #[inline]
    pub fn take(&self, empty: &mut Forwarded) {
        if self.has_some.load(Ordering::Relaxed) {
            self.has_some.store(false, Ordering::SeqCst);
            let mut forwarded = self.forwarded.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut *forwarded, empty);
        }
    }

    /// Calls `wait`, unless there is a datagram. A new datagram wakes it.
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
    fn full_mailboxes_refuse_and_keep_order() {
        let (mailbox, mut forwarded) = Mailbox::new().unwrap();
        let from: SocketAddr = "10.0.0.1:7".parse().unwrap();
        let datagram = [7; 1000];
        let mut put = 0;
        while mailbox.put(from, &datagram[..1000 - put % 5]) {
            put += 1;
        }
        assert!(put >= WAITING_BYTES_MAX / 1000);
        mailbox.take(&mut forwarded);
        let mut read = 0;
        let count = forwarded.read(|bytes, sender| {
            assert_eq!((bytes.len(), sender), (1000 - read % 5, from));
            read += 1;
        });
        assert_eq!((count, read), (put, put));
        mailbox.take(&mut forwarded);
        assert_eq!(forwarded.read(|_, _| {}), 0);
        assert!(mailbox.put(from, b"again"));
    }

    #[test]
    fn sleepers_are_woken_by_new_datagrams() {
        let (mailbox, mut forwarded) = Mailbox::new().unwrap();
        let mut poller = micanite_net::Poller::new().unwrap();
        poller.add(&mailbox.waker, 1, micanite_net::Interest::Read).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| mailbox.put("10.0.0.1:7".parse().unwrap(), b"letter"));
            mailbox.sleep(|_| assert_eq!(poller.wait(60_000).unwrap(), 1));
            // It may have arrived before the sleep.
            while forwarded.read(|bytes, _| assert_eq!(bytes, b"letter")) == 0 {
                mailbox.take(&mut forwarded);
            }
        });
    }
}
