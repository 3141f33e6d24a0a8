//! Datagrams that wait for their time. Those of the same time leave in the order of their arrival.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

/// The most that wait at a time; what comes then is lost, as in a real network.
pub(super) const WAITING_MAX: usize = 16 * 1024;

/// Destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Leaves the socket of a client for a port of the server.
    ToServer { client: usize, port: u16 },
    /// Leaves a port of the relay for a client.
    ToClient { port: u16, client: SocketAddr },
}

#[derive(Debug)]
pub(super) struct Waiting {
    pub way: Way,
    pub datagram: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<(Instant, u64), Waiting>,
    arrivals: u64,
}

impl Queue {
    /// Takes a datagram until its time; returns whether there was room.
    pub fn push(&mut self, time: Instant, way: Way, datagram: &[u8]) -> bool {
        if self.waiting.len() >= WAITING_MAX {
            return false;
        }
        let datagram = datagram.to_vec();
        self.arrivals += 1;
        self.waiting.insert((time, self.arrivals), Waiting { way, datagram });
        true
    }

    /// Returns when the next one leaves.
    pub fn next_time(&self) -> Option<Instant> {
        self.waiting.keys().next().map(|(time, _)| *time)
    }

    /// The next one whose time has come.
    pub fn pop(&mut self, now: Instant) -> Option<Waiting> {
        let entry = self.waiting.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn datagrams_leave_by_their_time_then_by_their_arrival() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let way = Way::ToServer { client: 0, port: 1 };
        let at = |ms| start + Duration::from_millis(ms);
        for (ms, byte) in [(4, 1), (1, 2), (4, 3), (1, 4)] {
            assert!(queue.push(at(ms), way, &[byte]));
        }
        assert_eq!(queue.next_time(), Some(at(1)));
        assert!(queue.pop(start).is_none());
        let mut left = Vec::new();
        while let Some(one) = queue.pop(at(1)) {
            left.push(one.datagram[0]);
        }
        assert_eq!(left, [2, 4]);
        while let Some(one) = queue.pop(at(4)) {
            left.push(one.datagram[0]);
        }
        assert_eq!(left, [2, 4, 1, 3]);
        assert_eq!(queue.next_time(), None);
    }

    #[test]
    fn queue_is_bounded() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let way = Way::ToServer { client: 0, port: 1 };
        let taken = (0..WAITING_MAX + 5).filter(|_| queue.push(start, way, &[]));
        assert_eq!(taken.count(), WAITING_MAX);
    }
}
