//! Replies are written one datagram at a time, straight into the memory that the port sends.

use std::net::SocketAddr;

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

/// Takes datagrams. One is open at a time, and there is one for each that is answered.
pub trait Outbox {
    /// Opens the answer to a datagram, after sending what there is if there is no room.
    fn open(&mut self, to: Source);
    /// The bytes of the open datagram: room for the longest one.
    fn slot(&mut self) -> &mut [u8];
    /// The open datagram is complete, with this length.
    fn commit(&mut self, bytes: usize);
}
