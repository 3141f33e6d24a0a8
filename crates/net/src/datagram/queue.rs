//! Queue of datagrams to send, which groups them into messages.
//!
//! A message is one datagram, or a super-packet: datagrams for one peer and of one length, of which
//! the last may be shorter. Datagrams of a super-packet need not be neighbours: datagrams for others
//! and of other lengths go to other messages meanwhile. So replies of two lengths, for example to
//! GETs and to SETs, still leave as two super-packets.

use std::net::SocketAddr;

use super::address::Name;
use crate::limits::{DATAGRAM_PAYLOAD_BYTES_MAX, SEND_DATAGRAMS_MAX, SEND_OPEN_MAX, SEND_SEGMENTS_MAX};

/// A queued datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub start: u32,
    pub bytes: u32,
    /// Next datagram of the message.
    next: u16,
}

/// Datagrams that leave together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    /// First unsent datagram, and last datagram.
    pub head: u16,
    tail: u16,
    /// Number of unsent datagrams.
    pub count: u16,
    pub peer: u16,
    /// Length of all datagrams but the last.
    pub segment_bytes: u32,
    bytes: u32,
    /// The message is sent datagram by datagram, because the kernel refused it as a whole.
    pub ungrouped: bool,
}

impl Message {
    /// Returns whether another datagram fits.
    fn takes(&self, peer: u16, bytes: u32) -> bool {
        self.peer == peer
            && self.segment_bytes > 0
            && usize::from(self.count) < SEND_SEGMENTS_MAX
            && (self.bytes + bytes) as usize <= DATAGRAM_PAYLOAD_BYTES_MAX
    }
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    address: SocketAddr,
    name: Name,
}

/// Queued datagrams. They are appended until all are sent; then the queue starts again.
#[derive(Debug)]
pub(super) struct Queue {
    /// Super-packets are enabled.
    grouped: bool,
    datagrams: Vec<Waiting>,
    pub messages: Vec<Message>,
    peers: Vec<Peer>,
    /// Messages that may still grow; the first `open_count` are used.
    open: [u16; SEND_OPEN_MAX],
    open_count: usize,
    /// Open message that the next one replaces.
    open_oldest: usize,
    /// Messages before this one no longer grow.
    closed: usize,
}

impl Queue {
    pub fn new(grouped: bool) -> Self {
        Self {
            grouped,
            datagrams: Vec::with_capacity(SEND_DATAGRAMS_MAX),
            messages: Vec::with_capacity(SEND_DATAGRAMS_MAX),
            peers: Vec::with_capacity(SEND_DATAGRAMS_MAX),
            open: [0; SEND_OPEN_MAX],
            open_count: 0,
            open_oldest: 0,
            closed: 0,
        }
    }

    pub fn is_full(&self) -> bool {
        self.datagrams.len() == SEND_DATAGRAMS_MAX
    }

    pub fn clear(&mut self) {
        self.datagrams.clear();
        self.messages.clear();
        self.peers.clear();
        self.close_open();
        self.closed = 0;
    }

    /// Appends a datagram that begins at `start`.
    pub fn push(&mut self, address: SocketAddr, start: u32, bytes: u32) {
        let peer = self.peer_number(address);
        let number = self.datagrams.len() as u16;
        self.datagrams.push(Waiting { start, bytes, next: number });
        if self.grouped {
            let open = &self.open[..self.open_count];
            let fitting = open.iter().map(|&open| usize::from(open)).find(|&open| {
                self.messages[open].segment_bytes == bytes && self.messages[open].takes(peer, bytes)
            });
            if let Some(message) = fitting {
                return self.append(message, number);
            }
            self.open_next();
        }
        self.messages.push(Message {
            head: number,
            tail: number,
            count: 1,
            peer,
            segment_bytes: bytes,
            bytes,
            ungrouped: false,
        });
    }

    /// Stops all growth, before sending.
    pub fn close(&mut self) {
        self.close_open();
        if self.grouped {
            for right in self.closed + 1..self.messages.len() {
                self.join(right - 1, right);
            }
        }
        self.closed = self.messages.len();
    }

    /// Appends a single datagram to the message beside it as its shorter last one.
    fn join(&mut self, left: usize, right: usize) {
        let left_is_long = self.messages[left].segment_bytes >= self.messages[right].segment_bytes;
        let (long, short) = if left_is_long { (left, right) } else { (right, left) };
        let (into, from) = (self.messages[long], self.messages[short]);
        let uniform = into.bytes == u32::from(into.count) * into.segment_bytes;
        let is_single = from.count == 1 && from.bytes > 0;
        if is_single && into.count > 0 && uniform && into.takes(from.peer, from.bytes) {
            self.append(long, from.head);
            self.messages[short].count = 0;
        }
    }

    fn append(&mut self, message: usize, number: u16) {
        let bytes = self.datagrams[usize::from(number)].bytes;
        let message = &mut self.messages[message];
        self.datagrams[usize::from(message.tail)].next = number;
        message.tail = number;
        message.count += 1;
        message.bytes += bytes;
    }

    /// Makes the next pushed message an open one.
    fn open_next(&mut self) {
        let next = self.messages.len() as u16;
        if self.open_count < SEND_OPEN_MAX {
            self.open[self.open_count] = next;
            self.open_count += 1;
        } else {
            self.open[self.open_oldest] = next;
            self.open_oldest = (self.open_oldest + 1) % SEND_OPEN_MAX;
        }
    }

    fn close_open(&mut self) {
        self.open_count = 0;
        self.open_oldest = 0;
    }

    fn peer_number(&mut self, address: SocketAddr) -> u16 {
        let recent = self.peers.iter().enumerate().rev().take(SEND_OPEN_MAX);
        let mut known = recent.filter(|(_, peer)| peer.address == address);
        if let Some((number, _)) = known.next() {
            return number as u16;
        }
        let name = Name::from(address);
        self.peers.push(Peer { address, name });
        (self.peers.len() - 1) as u16
    }

    pub fn name(&self, peer: u16) -> &Name {
        &self.peers[usize::from(peer)].name
    }

    /// Iterates over the unsent datagrams of a message.
    pub fn datagrams(&self, message: &Message) -> impl Iterator<Item = Waiting> {
        let mut next = message.head;
        (0..message.count).map(move |_| {
            let datagram = self.datagrams[usize::from(next)];
            next = datagram.next;
            datagram
        })
    }

    /// Removes datagrams from the head of a message.
    pub fn advance(&mut self, message: usize, datagrams: u16) {
        let message = &mut self.messages[message];
        message.count -= datagrams;
        for _ in 0..datagrams {
            message.head = self.datagrams[usize::from(message.head)].next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes datagrams of `(peer, length)`; returns the lengths of every message.
    fn grouped(grouped: bool, datagrams: &[(u16, u32)]) -> Vec<(u16, Vec<u32>)> {
        let mut queue = Queue::new(grouped);
        let mut start = 0;
        for &(port, bytes) in datagrams {
            queue.push(SocketAddr::from(([127, 0, 0, 1], port)), start, bytes);
            start += bytes.next_multiple_of(8);
        }
        queue.close();
        let messages = queue.messages.iter().filter(|message| message.count > 0);
        messages
            .map(|message| {
                let address = queue.name(message.peer).address(16).unwrap();
                let lengths = queue.datagrams(message).map(|datagram| datagram.bytes);
                (address.port(), lengths.collect())
            })
            .collect()
    }

    #[test]
    fn one_length_is_one_message_and_a_shorter_one_may_end_it() {
        assert_eq!(grouped(true, &[(1, 40), (1, 40), (1, 40), (1, 16)]), [(1, vec![40, 40, 40, 16])]);
        assert_eq!(grouped(true, &[(1, 16), (1, 40), (1, 40)]), [(1, vec![40, 40, 16])]);
        assert_eq!(grouped(true, &[(1, 40), (1, 16), (1, 8)]), [(1, vec![40, 16]), (1, vec![8])]);
    }

    #[test]
    fn lengths_and_peers_that_alternate_stay_grouped() {
        assert_eq!(
            grouped(true, &[(1, 40), (1, 16), (1, 40), (1, 16)]),
            [(1, vec![40, 40]), (1, vec![16, 16])]
        );
        assert_eq!(
            grouped(true, &[(1, 40), (2, 40), (1, 40), (2, 40)]),
            [(1, vec![40, 40]), (2, vec![40, 40])]
        );
        assert_eq!(grouped(true, &[(1, 40), (2, 16)]), [(1, vec![40]), (2, vec![16])]);
    }

    #[test]
    fn order_is_kept_without_super_packets() {
        let datagrams = [(1, 40), (2, 16), (1, 40), (1, 8)];
        let expected = datagrams.map(|(port, bytes)| (port, vec![bytes]));
        assert_eq!(grouped(false, &datagrams), expected);
    }

    #[test]
    fn empty_datagrams_are_never_grouped() {
        assert_eq!(grouped(true, &[(1, 8), (1, 0), (1, 0)]), [(1, vec![8]), (1, vec![0]), (1, vec![0])]);
    }

    #[test]
    fn neither_count_nor_bytes_pass_the_limits() {
        let counts = |lengths: &[(u16, u32)]| -> Vec<usize> {
            let messages = grouped(true, lengths);
            messages.iter().map(|(_, lengths)| lengths.len()).collect()
        };
        assert_eq!(counts(&[(1, 8); 130]), [64, 64, 2]);
        assert_eq!(counts(&[(1, 1472); 100]), [44, 44, 12]);
        assert_eq!(counts(&[(1, 40_000), (1, 40_000), (1, 25_507)]), [1, 2]);
        let full: Vec<_> = [(1, 8)].repeat(64).into_iter().chain([(1, 4)]).collect();
        assert_eq!(counts(&full), [64, 1]);
    }

    #[test]
    fn too_many_open_lengths_make_more_messages() {
        let lengths: Vec<_> = (0..40).map(|number| (1, 100 + number % 10)).collect();
        let messages = grouped(true, &lengths);
        let mut seen: Vec<_> = messages.into_iter().flat_map(|message| message.1).collect();
        seen.sort_unstable();
        let mut expected: Vec<_> = lengths.iter().map(|&(_, bytes)| bytes).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
    }
}
