//! Opens the control socket.

use std::io;
use std::path::{Path, PathBuf};

use micanite_control::paths;
use micanite_net::Listener;

use crate::configuration::ControlSocket;
use crate::shared::Server;

/// Only the user that serves.
const SOCKET_MODE: u32 = 0o600;
const BACKLOG: u32 = 16;

/// The open socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) listener: Listener,
    pub(super) path: PathBuf,
}

/// Reason why there is no control socket.
#[derive(Debug)]
pub(crate) enum NoSocket {
    /// The settings want none.
    Unwanted,
    /// It cannot be at its default place. The server does without it.
    Without(String),
    /// It cannot be where it was asked for, or another server would be taken for this one.
    Refused(String),
}

impl Socket {
    /// Opens the socket where the settings, the port or the Unix socket say. A socket that a
    /// server has left behind is replaced.
    pub fn open(server: &Server) -> Result<Self, NoSocket> {
        let settings = &server.settings;
        match (&settings.control_socket, &settings.unix_socket) {
            (ControlSocket::None, _) => Err(NoSocket::Unwanted),
            (ControlSocket::At(path), _) => Self::at(path),
            (ControlSocket::Derived, _) if server.tcp_port() != 0 => {
                let prepared = |path: &Path| paths::prepare_directory(path);
                Self::first_of(paths::of_port(server.tcp_port()), prepared)
            }
            (ControlSocket::Derived, Some(socket)) => {
                Self::first_of(vec![paths::of_unix_socket(socket)], |_| Ok(()))
            }
            (ControlSocket::Derived, None) => Err(NoSocket::Unwanted),
        }
    }

    /// Opens the socket at a path that was asked for.
    pub fn at(path: &Path) -> Result<Self, NoSocket> {
        Self::listen(path).map_err(|error| NoSocket::Refused(reason(path, &error)))
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the socket from its place.
    pub fn remove_file(&self) {
        self.listener.remove_file();
    }

    fn first_of(
        candidates: Vec<PathBuf>,
        prepare: impl Fn(&Path) -> io::Result<()>,
    ) -> Result<Self, NoSocket> {
        let mut reasons = Vec::new();
        for path in candidates {
            match prepare(&path).and_then(|()| Self::listen(&path)) {
                Ok(socket) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(NoSocket::Refused(reason(&path, &error)));
                }
                Err(error) => reasons.push(reason(&path, &error)),
            }
        }
        Err(NoSocket::Without(reasons.join("; ")))
    }

    fn listen(path: &Path) -> io::Result<Self> {
        let listener = Listener::unix(path, SOCKET_MODE, BACKLOG)?;
        let path = path.to_path_buf();
        Ok(Self { listener, path })
    }
}

fn reason(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{path}: another server listens there, or it is no socket")
        }
        _ => format!("{path}: {error}"),
    }
}
