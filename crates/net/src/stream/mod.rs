//! Streams that never block, over TCP, a Unix socket or TLS; listeners, and sockets inherited from the
//! previous program.

mod descriptors;
mod inherited;
mod listener;
mod transport;

use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{MsgFlags, Shutdown, SockaddrStorage, getpeername, recv, send, shutdown};

pub use descriptors::{receive_with_descriptors, send_with_descriptors};
pub use inherited::{Inherited, keep_none_open, keep_open};
pub use listener::{Listener, is_shortage, set_socket_mode};
pub use transport::Transport;

/// Interface of a connection to its stream. Tests script one; the worker uses a [`Stream`].
pub trait ByteStream {
    /// Reads some bytes; 0 = the peer sends no more.
    ///
    /// # Errors
    /// `WouldBlock` if no bytes are available, anything else if the stream is broken.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends some of the bytes.
    ///
    /// # Errors
    /// `WouldBlock` if the peer does not read, anything else if the stream is broken.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Tells the peer that no more output follows. Its input can still be received. A further call does
    /// nothing.
    ///
    /// # Errors
    /// `WouldBlock` if held output has to leave first, anything else if the stream is broken.
    fn end_output(&mut self) -> io::Result<()>;

    /// Receives bytes that nobody wants, into scratch memory; 0 = the peer sends no more.
    ///
    /// # Errors
    /// As [`Self::recv`].
    fn discard(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        self.recv(scratch)
    }

    /// Returns whether input, or the end of input, waits inside of the stream, where no poller sees
    /// it.
    #[inline]
    fn holds_input(&self) -> bool {
        false
    }

    /// Returns whether bytes that `send` accepted have not left yet.
    #[inline]
    fn holds_output(&self) -> bool {
        false
    }

    /// Sends held output.
    ///
    /// # Errors
    /// `WouldBlock` if the peer does not read, anything else if the stream is broken.
    #[inline]
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Socket of one connection.
#[derive(Debug)]
pub struct Stream {
    socket: OwnedFd,
}

impl Stream {
    /// Takes over a TCP connection, and disables the delay of small segments.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { socket: stream.into() })
    }

    /// Takes over a connection over a Unix socket.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { socket: stream.into() })
    }
}

impl Stream {
    /// Returns the address of the peer; `None` for a Unix socket.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        let address: SockaddrStorage = getpeername(self.socket.as_raw_fd()).ok()?;
        match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(address), _) => Some(address.ip().into()),
            (_, Some(address)) => Some(address.ip().into()),
            _ => None,
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl ByteStream for Stream {
    #[inline]
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        retry(|| recv(self.socket.as_raw_fd(), into, MsgFlags::MSG_DONTWAIT))
    }

    #[inline]
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Sending to a closed peer returns an error instead of raising a signal.
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        retry(|| send(self.socket.as_raw_fd(), bytes, flags))
    }

    fn end_output(&mut self) -> io::Result<()> {
        Ok(shutdown(self.socket.as_raw_fd(), Shutdown::Write)?)
    }
}

#[inline]
fn retry(mut call: impl FnMut() -> nix::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(nix::errno::Errno::EINTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_and_sending_never_block() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut near, mut far) = (Stream::unix(near).unwrap(), Stream::unix(far).unwrap());
        let mut buffer = [0; 16];
        let empty = near.recv(&mut buffer).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);

        assert_eq!(far.send(b"hello").unwrap(), 5);
        assert_eq!(near.recv(&mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..5], b"hello");

        let full = loop {
            if let Err(error) = far.send(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn closed_peers_end_reads_and_fail_writes() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut near = Stream::unix(near).unwrap();
        drop(far);
        assert_eq!(near.recv(&mut [0; 16]).unwrap(), 0);
        let error = near.send(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
