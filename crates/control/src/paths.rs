//! The default path of the control socket, in a directory that no other user can write.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// Paths that the socket of a server on a port may have, the best one first.
pub fn of_port(port: u16) -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|directory| directory.is_absolute());
    let runtime = runtime.map(|directory| directory.join("micanite"));
    let temporary = PathBuf::from(format!("/tmp/micanite-{}", Uid::effective()));
    let directories = runtime.into_iter().chain([temporary]);
    directories.map(|directory| directory.join(format!("{port}.ctl"))).collect()
}

/// The path of the socket of a server on a Unix socket.
pub fn of_unix_socket(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".ctl");
    path.into()
}

/// Makes the directory of a derived path if there is none, and checks it.
///
/// # Errors
/// It cannot be made, or [`check_directory`] fails.
pub fn prepare_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check_directory(path),
    }
}

/// Checks that the directory of a derived path belongs to this user and is closed to others.
///
/// # Errors
/// It is not, or it cannot be looked at.
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
