//! Sockets: connecting, logging in, and what kind they are.

mod login;
mod tls;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use login::{log_in, refusal};
use tls::TlsStream;

use crate::address::{Address, CONNECT_TIMEOUT, Endpoint, Protocol};
use crate::target::reply::escaped;

/// Time for each step of a handshake or a login.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that it may take to say its version; that is for the report only.
const VERSION_TIMEOUT: Duration = Duration::from_millis(300);
/// Bytes of datagrams that the kernel is asked to keep, each way.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

/// A connected socket that does not block.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
    Unix(UnixStream),
    Udp(UdpSocket),
}

impl Socket {
    /// Receives what there is.
    ///
    /// # Errors
    /// When nothing is there, or the connection is broken.
    #[inline]
    pub fn receive(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            Self::Tls(stream) => stream.receive(to),
            Self::Unix(stream) => stream.read(to),
            Self::Udp(socket) => socket.recv(to),
        }
    }

    /// Sends as much as there is room for.
    ///
    /// # Errors
    /// When there is no room, or the connection is broken.
    #[inline]
    pub fn send(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(from),
            Self::Tls(stream) => stream.send(from),
            Self::Unix(stream) => stream.write(from),
            Self::Udp(socket) => socket.send(from),
        }
    }

    /// Sends what was taken and is held back; returns whether something is left.
    ///
    /// # Errors
    /// When the connection is broken.
    #[inline]
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Tls(stream) => stream.flush(),
            Self::Tcp(_) | Self::Unix(_) | Self::Udp(_) => Ok(false),
        }
    }

    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Self::Tls(tls) => tls.stream.set_read_timeout(Some(timeout)),
            Self::Unix(stream) => stream.set_read_timeout(Some(timeout)),
            Self::Udp(socket) => socket.set_read_timeout(Some(timeout)),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Tls(tls) => tls.stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
            Self::Udp(socket) => socket.set_nonblocking(true),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(tls) => tls.stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

/// Connects to a server, and logs in if the address says so.
///
/// # Errors
/// Says what went wrong, and what to do.
pub fn open(address: &Address, endpoint: &Endpoint) -> Result<Socket, String> {
    let socket = enter(address, connect(address, endpoint)?)?;
    not_blocking(socket).map_err(|error| failure(address, &error))
}

/// Connects to the TCP port of the same number as the UDP port that `address` names.
///
/// # Errors
/// Says what went wrong, and what to do.
pub(crate) fn open_stream(address: &Address, endpoint: &Endpoint) -> Result<Socket, String> {
    connect_by(endpoint, Protocol::Memcached)
        .and_then(not_blocking)
        .map_err(|error| format!("over TCP, for --tcp-writes: {}", failure(address, &error)))
}

fn not_blocking(socket: Socket) -> io::Result<Socket> {
    socket.set_nonblocking()?;
    Ok(socket)
}

/// Connects, and completes the handshake where the address is one of TLS.
fn connect(address: &Address, endpoint: &Endpoint) -> Result<Socket, String> {
    let socket = connect_by(endpoint, address.protocol()).map_err(|error| failure(address, &error))?;
    match (socket, address.tls()) {
        (Socket::Tcp(stream), Some(client)) => {
            let tls = TlsStream::open(stream, client, LOGIN_TIMEOUT)
                .map_err(|reason| format!("{address}: {reason}"))?;
            Ok(Socket::Tls(Box::new(tls)))
        }
        (socket, _) => Ok(socket),
    }
}

/// Logs in, if the address has a login.
fn enter(address: &Address, mut socket: Socket) -> Result<Socket, String> {
    if let Some(login) = address.login() {
        let deadline = Instant::now() + LOGIN_TIMEOUT;
        log_in(&mut socket, login, deadline).map_err(|reason| format!("{address}: {reason}"))?;
    }
    Ok(socket)
}

fn connect_by(endpoint: &Endpoint, protocol: Protocol) -> io::Result<Socket> {
    match (endpoint, protocol) {
        (Endpoint::Unix(path), _) => Ok(Socket::Unix(UnixStream::connect(path)?)),
        (Endpoint::Inet(server), Protocol::MemcachedUdp) => Ok(Socket::Udp(connect_udp(*server)?)),
        (Endpoint::Fabric(_) | Endpoint::Local(_), _) => Err(io::Error::other("it is no socket")),
        (Endpoint::Inet(server), _) => {
            let stream = TcpStream::connect_timeout(server, CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
        }
    }
}

fn connect_udp(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    // As much as the system allows.
    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBuf, &DATAGRAM_BUFFER_BYTES);
    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBuf, &DATAGRAM_BUFFER_BYTES);
    Ok(socket)
}

fn failure(address: &Address, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            format!("{address}: nobody listens there; {}", address.how_to_start())
        }
        ErrorKind::TimedOut => format!("{address}: no answer within {CONNECT_TIMEOUT:?}"),
        _ if error.raw_os_error() == Some(nix::libc::EMFILE) => {
            format!("{address}: too many open files; raise the limit (ulimit -n)")
        }
        _ => format!("{address}: {error}"),
    }
}

/// Asks a server for its version, over a connection of its own. A server that says nothing may still
/// be loaded.
///
/// # Errors
/// When nobody listens there, or the server has to be addressed otherwise.
pub fn server_version(address: &Address, endpoint: &Endpoint) -> Result<Option<String>, String> {
    let question: &[u8] = match address.protocol() {
        Protocol::Memcached => b"version\r\n",
        Protocol::MemcachedUdp => b"\0\x01\0\0\0\x01\0\0version\r\n",
        // A native server's directory, or its reply to a greeting, proves that it is there.
        Protocol::Native | Protocol::Fabric | Protocol::Local => return Ok(None),
        Protocol::Redis => b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n",
    };
    let mut socket = enter(address, connect(address, endpoint)?)?;
    let mut reply = [0; 4096];
    let asked = socket
        .set_timeout(VERSION_TIMEOUT)
        .and_then(|()| socket.send(question))
        .and_then(|_| socket.receive(&mut reply));
    match asked {
        Ok(received) => {
            let reply = &reply[..received];
            refusal(reply, address.login().is_some()).map_err(|reason| format!("{address}: {reason}"))?;
            Ok(version_in(reply))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Err(failure(address, &error)),
        // A server that wants a certificate says so after the handshake.
        Err(error) => match (address.tls(), tls::of_tls(&error)) {
            (Some(client), Some(of_tls)) => Err(format!("{address}: {}", client.explain(of_tls))),
            _ => Ok(None),
        },
    }
}

fn version_in(reply: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(reply);
    let after = |word: &str| {
        let (_, rest) = text.split_once(word)?;
        let version = rest.split_ascii_whitespace().next()?;
        Some(escaped(version.as_bytes()))
    };
    after("VERSION ").or_else(|| after("redis_version:").map(|version| format!("redis {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_replies() {
        let version = |reply: &str| version_in(reply.as_bytes());
        assert_eq!(version("VERSION 1.6.18\r\n").as_deref(), Some("1.6.18"));
        assert_eq!(version("VERSION 1\x1b]0;x\x07\r\n").as_deref(), Some("1\\x1b]0;x\\x07"));
        assert_eq!(version("\0\x01\0\0VERSION 1.6\r\n").as_deref(), Some("1.6"));
        let info = "$99\r\n# Server\r\nredis_version:7.0.15\r\nredis_git:0\r\n";
        assert_eq!(version(info).as_deref(), Some("redis 7.0.15"));
        assert_eq!(version("ERROR\r\n"), None);
    }
}
