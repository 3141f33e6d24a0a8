//! Sockets that wait for connections: TCP over IPv4 and IPv6, Unix sockets.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, SockaddrIn6, bind, listen, setsockopt,
    socket, sockopt,
};
use nix::sys::stat::{Mode, umask};

use crate::Stream;

/// A listening socket; it never blocks.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// With its file, which goes when the server ends.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on an address; port 0 takes a free one.
    ///
    /// # Errors
    /// What the kernel says, `AddrInUse` for example.
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
            // So that 0.0.0.0 and :: can be listened on side by side.
            setsockopt(&descriptor, sockopt::Ipv6V6Only, &true)?;
        }
        match address {
            SocketAddr::V4(address) => bind(descriptor.as_raw_fd(), &SockaddrIn::from(address))?,
            SocketAddr::V6(address) => bind(descriptor.as_raw_fd(), &SockaddrIn6::from(address))?,
        }
        start(&descriptor, backlog)?;
        Ok(Self {
            socket: Socket::Tcp(descriptor.into()),
        })
    }

    /// Listens on a Unix socket with the given permission bits. A socket that nobody listens on
    /// any more is replaced.
    ///
    /// # Errors
    /// What the kernel says; `AddrInUse` when somebody listens there or it is not a socket.
    pub fn unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Self> {
        if let Ok(there) = path.symlink_metadata() {
            if !there.file_type().is_socket() || UnixStream::connect(path).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        // The socket must never be more open than it will be, not for a moment.
        let umask_before = umask(Mode::from_bits_truncate(!mode & 0o777));
        let bound = UnixListener::bind(path);
        umask(umask_before);
        let listener = bound?;
        listener.set_nonblocking(true)?;
        set_socket_mode(path, mode)?;
        start(&listener, backlog)?;
        Ok(Self {
            socket: Socket::Unix(listener, path.to_path_buf()),
        })
    }

    /// A TCP socket that listens already.
    pub(crate) fn of_tcp(listener: TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            socket: Socket::Tcp(listener),
        })
    }

    /// A Unix socket that listens already.
    pub(crate) fn of_unix(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let path = address.as_pathname().unwrap_or(Path::new("")).into();
        Ok(Self {
            socket: Socket::Unix(listener, path),
        })
    }

    /// The next connection, or `None` when none is waiting.
    ///
    /// # Errors
    /// What the kernel says: too many open files, for example.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        let accepted = match &self.socket {
            Socket::Tcp(listener) => listener
                .accept()
                .and_then(|(stream, _)| Stream::tcp(stream)),
            Socket::Unix(listener, _) => listener
                .accept()
                .and_then(|(stream, _)| Stream::unix(stream)),
        };
        match accepted {
            Ok(stream) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The address with the port that was got; `None` for a Unix socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().ok(),
            Socket::Unix(..) => None,
        }
    }

    /// The file of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(_, path) => Some(path),
        }
    }

    /// Removes the file of a Unix socket.
    pub fn remove_file(&self) {
        if let Socket::Unix(_, path) = &self.socket {
            // Gone already, or not ours to remove any more: nothing to be done.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Begins (or goes on, with another backlog) to listen.
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

/// Gives the socket of a path its permission bits. A link that others have put in its place is not
/// followed.
///
/// # Errors
/// What the kernel says; `InvalidInput` when there is no socket.
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
            // The file stays, as after a crash: the next round replaces it.
        }
        std::fs::write(&path, "x").unwrap_err();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file").unwrap();
        let refused = Listener::unix(&path, 0o600, 16).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_file(&path).unwrap();
    }

    /// A server of root would change the mode of the file that a link leads to.
    #[test]
    fn the_mode_of_a_socket_is_not_set_through_a_link() {
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
