//! The other end of a connection, for lines and tables.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use micanite_net::Stream;
use nix::sys::socket::{SockaddrStorage, getpeername};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// Over a Unix socket.
    Local,
}

impl Peer {
    /// Asks the kernel for the peer of a stream.
    pub fn of(stream: &Stream) -> Self {
        let peer = getpeername::<SockaddrStorage>(stream.as_fd().as_raw_fd()).ok();
        peer.as_ref().and_then(address).map_or(Self::Local, Self::Tcp)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Local => formatter.write_str("unix"),
        }
    }
}

/// Returns an address of the kernel's, if it is one of IP.
pub fn address(of: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = of.as_sockaddr_in().map(|address| SocketAddr::V4((*address).into()));
    v4.or_else(|| of.as_sockaddr_in6().map(|address| SocketAddr::V6((*address).into())))
}
