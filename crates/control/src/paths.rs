//! Where the control socket is, when nobody says it: in a directory that nobody else can write.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// Where the socket of a server on a port may be, the best place first.
pub fn of_port(port: u16) -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|directory| directory.is_absolute());
    let runtime = runtime.map(|directory| directory.join("micanite"));
    let temporary = PathBuf::from(format!("/tmp/micanite-{}", Uid::effective()));
    let directories = runtime.into_iter().chain([temporary]);
    directories
        .map(|directory| directory.join(format!("{port}.ctl")))
        .collect()
}

/// Where the socket of a server on a Unix socket is.
pub fn of_unix_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ctl");
    path.into()
}

/// Makes the directory of a derived path if it is not there, and checks that it is this user's
/// alone.
pub fn prepare_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check_directory(path),
    }
}

/// Whether the directory of a derived path belongs to this user, and is closed to others.
pub fn check_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let refused = |what| {
        let text = format!("{} {what}", directory.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    let there = directory.symlink_metadata()?;
    if !there.is_dir() {
        return refused("is no directory");
    }
    if there.uid() != Uid::effective().as_raw() {
        return refused("belongs to somebody else");
    }
    if there.mode() & 0o077 != 0 {
        return refused("is open to others (its mode should be 700)");
    }
    Ok(())
}
