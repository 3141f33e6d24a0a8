//! Datagrams from other workers, copied out of their ring.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::ring::{self, Origin};
use crate::limits::FORWARDED_MAX;

/// A datagram, by its place in the buffer.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The headers of its frame; empty if it came through a socket.
    pub headers: Range<usize>,
    /// The datagram itself.
    pub datagram: Range<usize>,
    /// The socket or frame that it came by, and its sender.
    pub origin: Origin,
}

/// A buffer of datagrams, filled from one ring at a time.
#[derive(Debug)]
pub struct Forwarded {
    pub bytes: Box<[u8]>,
    pub entries: ArrayVec<Entry, FORWARDED_MAX>,
}

impl Forwarded {
    /// Returns the bytes of a buffer for several of the longest datagrams, headers included, or for many
    /// short ones.
    pub fn bytes(datagram_bytes: usize) -> usize {
        (64 << 10).max(2 * datagram_bytes.next_multiple_of(8))
    }

    pub fn new(datagram_bytes: usize) -> Self {
        Self { bytes: vec![0; Self::bytes(datagram_bytes)].into(), entries: ArrayVec::new() }
    }

    /// Takes the datagrams that fit, and returns their number.
    #[inline]
    pub fn fill(&mut self, ring: &mut rtrb::Consumer<u8>) -> usize {
        self.entries.clear();
        let longest = self.bytes.len() / 2;
        let mut at = 0;
        while !self.entries.is_full() && self.bytes.len() - at >= longest {
            let Some(popped) = ring::pop(ring, &mut self.bytes[at..]) else {
                break;
            };
            let datagram = at + popped.header_bytes;
            let end = datagram + popped.datagram_bytes;
            self.entries.push(Entry {
                headers: at..datagram,
                datagram: datagram..end,
                origin: popped.origin,
            });
            at = end.next_multiple_of(8);
        }
        self.entries.len()
    }
}
