//! The other end of a connection, for lines and tables.

use std::net::SocketAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// Over a Unix socket.
    Local,
}
