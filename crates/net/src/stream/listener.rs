//! Listening sockets: TCP over IPv4 and IPv6, Unix sockets.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, listen, setsockopt, socket,
    sockopt,
};
use nix::sys::stat::{Mode, umask};

use crate::Stream;

/// A listening socket. It never blocks.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// With its file, which is removed when the server ends.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on an address. Port 0 selects a free one.
    ///
    /// # Errors
    /// Returns the kernel's error, for example `AddrInUse`.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let descriptor = socket(family, SockType::Stream, flags, None)?;
        setsockopt(&descriptor, sockopt::ReuseAddr, &true)?;
        setsockopt(&descriptor, sockopt::KeepAlive, &true)?;
        if address.is_ipv6() {
            // Allows to listen on 0.0.0.0 and :: at the same port.
            setsockopt(&descriptor, sockopt::Ipv6V6Only, &true)?;
        }
        match address {
            SocketAddr::V4(address) => bind(descriptor.as_raw_fd(), &SockaddrIn::from(address))?,
            SocketAddr::V6(address) => bind(descriptor.as_raw_fd(), &SockaddrIn6::from(address))?,
        }
        start(&descriptor, backlog)?;
        Ok(Self { socket: Socket::Tcp(descriptor.into()) })
    }

    /// Listens on a Unix socket with the given permission bits. Replaces an abandoned socket.
    ///
    /// # Errors
    /// Returns the kernel's error; `AddrInUse` if another process listens there or the file is no
    /// socket.
    pub fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Self> {
        if let Ok(there) = path.symlink_metadata() {
            if !there.file_type().is_socket() || UnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        // The socket must never be accessible to more users than its mode allows, not even briefly.
        let umask_before = umask(Mode::from_bits_truncate(!mode & 0o777));
        let bound = UnixListener::bind(path);
        umask(umask_before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        set_socket_mode(path, mode)?;
        start(&listener, backlog)?;
        Ok(Self { socket: Socket::Unix(listener, path.to_path_buf()) })
    }

    /// Takes over a listening TCP socket.
    pub(crate) fn of_tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { socket: Socket::Tcp(listener) })
    }

    /// Takes over a listening Unix socket.
    pub(crate) fn of_unix(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().unwrap_or(Path::new("")).into();
        Ok(Self { socket: Socket::Unix(listener, path) })
    }

    /// Accepts the next connection; `None` if none is waiting.
    ///
    /// # Errors
    /// Returns the kernel's error, for example too many open files.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Tcp(listener) => listener.accept().and_then(|(stream, _)| Stream::tcp(stream)),
            Socket::Unix(listener, _) => listener.accept().and_then(|(stream, _)| Stream::unix(stream)),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the address with the assigned port; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(..) => None,
        }
    }

    /// Returns the file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(_, path) => Some(path),
        }
    }

    /// Removes the file of a Unix socket.
    pub fn remove_file(&self) {
        if let Socket::Unix(_, path) = &self.socket {
            // A missing file is fine, and a file that may no longer be removed stays.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Starts listening, or changes the backlog.
fn start(descriptor: &impl AsFd, backlog: u32) -> io::Result<()> {
    let most = i32::from(Backlog::MAXCONN);
    let backlog = i32::try_from(backlog).unwrap_or(most).clamp(1, most);
    Ok(listen(descriptor, Backlog::new(backlog)?)?)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// Sets the permission bits of the socket at a path. Does not follow a link that others may have put
/// in its place.
///
/// # Errors
/// Returns the kernel's error; `InvalidInput` if there is no socket.
pub fn set_socket_mode(path: &Path, mode: u32) -> io::Result<()> {
    let flags = (OFlag::O_PATH | OFlag::O_NOFOLLOW).bits();
    let place = File::options().read(true).custom_flags(flags).open(path)?;
    let about = place.metadata()?;
    if !about.file_type().is_socket() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mode = mode & 0o777;
    if about.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    let place = format!("/proc/self/fd/{}", place.as_raw_fd());
    std::fs::set_permissions(place, PermissionsExt::from_mode(mode))
}

/// Returns whether accepting failed because a resource has run out, and not because of the peer. The listener
/// stays readable then: who accepts pauses, instead of taking a whole core.
pub fn is_shortage(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let shortages = [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM];
    let number = error.raw_os_error();
    shortages.iter().any(|errno| number == Some(*errno as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ByteStream;
    use std::io::Write;
    use std::net::TcpStream;

    fn accept(listener: &Listener) -> Stream {
        loop {
            if let Some(stream) = listener.accept().unwrap() {
                return stream;
            }
        }
    }

    fn receive(stream: &mut Stream) -> Vec<u8> {
        let mut buffer = [0; 64];
        loop {
            match stream.recv(&mut buffer) {
                Ok(count) => return buffer[..count].to_vec(),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
    }

    #[test]
    fn accepts_tcp_on_a_free_port() {
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap(), 16).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let address = listener.address().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(b"hello").unwrap();
        assert_eq!(receive(&mut accept(&listener)), b"hello");

        let taken = Listener::tcp(address, 16).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn accepts_on_a_unix_socket_and_replaces_an_abandoned_one() {
        let name = format!("micanite-net-test-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for _ in 0..2 {
            let listener = Listener::unix(&path, 0o600, 16).unwrap();
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(b"hello").unwrap();
            assert_eq!(receive(&mut accept(&listener)), b"hello");
            let taken = Listener::unix(&path, 0o600, 16).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
            // The file stays, like after a crash. The next round replaces it.
        }
        std::fs::write(&path, "x").unwrap_err();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file").unwrap();
        let refused = Listener::unix(&path, 0o600, 16).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_file(&path).unwrap();
    }

    /// A server started by root would change the mode of the link's target.
    #[test]
    fn socket_modes_are_not_set_through_links() {
        let name = format!("micanite-net-mode-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let link = path.with_extension("link");
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        let _listener = Listener::unix(&path, 0o600, 16).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        set_socket_mode(&link, 0o666).unwrap_err();
        assert_eq!(mode(), 0o600);
        set_socket_mode(&path, 0o666).unwrap();
        assert_eq!(mode(), 0o666);
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
