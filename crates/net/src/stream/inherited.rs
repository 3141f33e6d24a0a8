//! Sockets and other descriptors inherited from a supervisor, or from the previous program that
//! executed this one in its place.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{
    AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt, setsockopt, sockopt,
};

use crate::{Listener, Stream};

/// First descriptor after the standard streams, which are never taken for sockets.
const FIRST: RawFd = 3;

/// An inherited socket.
#[derive(Debug)]
pub enum Inherited {
    /// A listening TCP or Unix socket.
    Listener(Listener),
    /// A bound UDP socket.
    Datagrams(UdpSocket),
    /// A connected Unix socket.
    Stream(Stream),
}

impl Inherited {
    /// Takes the socket with this descriptor, and closes it for programs that this one executes. Each
    /// can be taken once.
    ///
    /// # Errors
    /// Describes the problem: the descriptor is not open, not inherited, or no socket of a known kind.
    pub fn take(number: RawFd) -> Result<Self, String> {
        let descriptor = Self::take_any(number)?;
        let kind = getsockopt(&descriptor, sockopt::SockType).map_err(|error| match error {
            Errno::ENOTSOCK => "it is not a socket".into(),
            error => error.to_string(),
        })?;
        let listens = getsockopt(&descriptor, sockopt::AcceptConn) == Ok(true);
        let known = match (kind, family(&descriptor), listens) {
            (SockType::Stream, Some(AddressFamily::Inet | AddressFamily::Inet6), true) => {
                let _ = setsockopt(&descriptor, sockopt::KeepAlive, &true);
                Listener::of_tcp(TcpListener::from(descriptor)).map(Self::Listener)
            }
            (SockType::Stream, Some(AddressFamily::Unix), true) => {
                Listener::of_unix(UnixListener::from(descriptor)).map(Self::Listener)
            }
            (SockType::Stream, Some(AddressFamily::Unix), false) => {
                Stream::unix(UnixStream::from(descriptor)).map(Self::Stream)
            }
            (SockType::Datagram, Some(AddressFamily::Inet | AddressFamily::Inet6), _) => {
                Ok(Self::Datagrams(descriptor.into()))
            }
            (SockType::Stream, Some(AddressFamily::Inet | AddressFamily::Inet6), false) => {
                return Err("it is a TCP socket that does not listen".into());
            }
            _ => return Err("it is neither TCP, nor UDP, nor a Unix stream socket".into()),
        };
        known.map_err(|error| error.to_string())
    }

    /// Takes any descriptor, like [`Inherited::take`].
    ///
    /// # Errors
    /// Describes the problem: the descriptor is not open, or not inherited.
    pub fn take_any(number: RawFd) -> Result<OwnedFd, String> {
        take(number).map_err(|error| match error {
            Errno::EBADF => "it is not open".into(),
            Errno::EEXIST => "it was not inherited, or is named twice".into(),
            error => error.to_string(),
        })
    }
}

/// Marks all descriptors but the standard streams as close-on-exec, whoever opened them: DPDK and
/// its drivers leave theirs open. Call it before [`keep_open`]. Has no effect on kernels before
/// 5.11.
pub fn keep_none_open() {
    let (first, last) = (FIRST as libc::c_uint, libc::c_uint::MAX);
    // SAFETY: it takes numbers, and only marks descriptors, which stay open here.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, libc::CLOSE_RANGE_CLOEXEC) };
}

/// Keeps a descriptor open in the program that this one executes in its place.
///
/// # Errors
/// Returns the kernel's error.
pub fn keep_open(descriptor: impl AsFd) -> io::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

fn family(descriptor: &OwnedFd) -> Option<AddressFamily> {
    use std::os::fd::AsRawFd;
    let address: SockaddrStorage = getsockname(descriptor.as_raw_fd()).ok()?;
    address.family()
}

fn take(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < FIRST {
        return Err(Errno::EBADF);
    }
    // SAFETY: it is used for two calls of fcntl, which fail when it is not open.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = FdFlag::from_bits_retain(fcntl(there, FcntlArg::F_GETFD)?);
    if flags.contains(FdFlag::FD_CLOEXEC) {
        return Err(Errno::EEXIST);
    }
    fcntl(there, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    // SAFETY: nobody else owns it: all that this program opens is closed on exec, and so is what
    // was taken here before; this one was not, so it comes from before the start.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};

    /// Turns a descriptor into one that looks inherited.
    fn inherited(descriptor: impl AsFd + IntoRawFd) -> RawFd {
        keep_open(&descriptor).unwrap();
        descriptor.into_raw_fd()
    }

    #[test]
    fn inherited_sockets_keep_their_kind() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let Ok(Inherited::Listener(listener)) = Inherited::take(inherited(tcp)) else {
            panic!("no listener");
        };
        assert_eq!(listener.address(), Some(address));
        assert!(listener.accept().unwrap().is_none());

        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let taken = Inherited::take(inherited(udp));
        assert!(matches!(taken, Ok(Inherited::Datagrams(_))), "{taken:?}");

        let (near, _far) = UnixStream::pair().unwrap();
        let taken = Inherited::take(inherited(near));
        assert!(matches!(taken, Ok(Inherited::Stream(_))), "{taken:?}");
    }

    #[test]
    fn other_descriptors_are_taken_once() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = inherited(file);
        let taken = Inherited::take_any(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        let twice = Inherited::take_any(number).unwrap_err();
        assert!(twice.contains("named twice"), "{twice}");
    }

    #[test]
    fn other_descriptors_are_refused_with_a_reason() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Inherited::take(own.as_raw_fd()).unwrap_err().contains("not inherited"));
        let file = std::fs::File::open("/dev/null").unwrap();
        let number = inherited(file);
        assert!(Inherited::take(number).unwrap_err().contains("not a socket"));
        assert!(Inherited::take(0).unwrap_err().contains("not open"));
        assert!(Inherited::take(1 << 20).unwrap_err().contains("not open"));
    }
}
