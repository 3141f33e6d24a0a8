//! Replies are written one datagram at a time, straight into the memory that the port sends.

use std::net::SocketAddr;

use micanite_engine::ChunkEntry;

/// Sender of a datagram, and the number by which its outbox knows the datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The sender's address.
    pub peer: SocketAddr,
    /// Number of the datagram in the burst.
    pub number: u32,
}

impl From<SocketAddr> for Source {
    /// For outboxes to which the address says all.
    fn from(peer: SocketAddr) -> Self {
        Self { peer, number: 0 }
    }
}

/// Part of the time of a round, in the order of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Headers of frames: checked, and made.
    Headers,
    /// Requests are read.
    Requests,
    /// Batches are executed, values copied.
    Engine,
    /// Replies are written.
    Replies,
    /// Anything else, also a look for datagrams that found none.
    Other,
}

/// Observes which part of a round is at work: benchmarks do, servers do not.
pub trait Watch {
    /// A part begins, and with it the one before ends.
    fn begin(&mut self, part: Part);
}

impl Watch for () {
    #[inline]
    fn begin(&mut self, _: Part) {}
}

/// Takes datagrams. One is open at a time, and there is one for each that is answered.
pub trait Outbox {
    /// Sources are clients of a fabric: they are known, may ask for entries of chunks, and are told the
    /// second instead of a cookie.
    const IS_FABRIC: bool = false;

    /// Opens the answer to a datagram, after sending what there is if there is no room.
    fn open(&mut self, to: Source);
    /// The bytes of the open datagram: room for the longest one.
    fn slot(&mut self) -> &mut [u8];
    /// The open datagram is complete, with this length.
    fn commit(&mut self, bytes: usize);

    /// A part of the round begins ([`Watch`]).
    #[inline]
    fn begin(&mut self, _: Part) {}

    /// The server's second at its latest, for clients of a fabric.
    #[inline]
    fn second(&self) -> u64 {
        0
    }

    /// The longest answer to a source, of which `most` is the port's.
    #[inline]
    fn limit(&self, _: Source, most: usize) -> usize {
        most
    }

    /// Takes the entry of the chunk that a source's store has left, by the hash of its key.
    #[inline]
    fn note_entry(&mut self, _of: Source, _hash: u64, _entry: ChunkEntry) {}
}
