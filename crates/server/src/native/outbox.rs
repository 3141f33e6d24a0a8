//! Where replies are written: a datagram at a time, straight into what the port will send.

use std::net::SocketAddr;

/// Takes datagrams. One is open at a time.
pub trait Outbox {
    /// Opens a datagram to an address, after sending what there is if there is no room.
    fn open(&mut self, peer: SocketAddr);
    /// The bytes of the open datagram: room for the longest one.
    fn slot(&mut self) -> &mut [u8];
    /// The open datagram is complete, with this length.
    fn commit(&mut self, bytes: usize);
}
