//! Parses the arguments of a memif device: `net_memif0,role=server,socket=/run/micanite.memif`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A memif as described by its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memif<'a> {
    /// The end that listens for the other one.
    pub is_server: bool,
    /// The other end writes directly to the buffers of this one.
    pub is_zero_copy: bool,
    /// Slots of each of its rings.
    pub ring_slots: u32,
    /// Path of its socket, if that is a file.
    pub socket: Option<&'a str>,
}

impl<'a> Memif<'a> {
    /// Parses a device; `None` if it is no memif.
    pub(super) fn of(device: &'a str) -> Option<Self> {
        let mut words = device.split(',');
        if !words.next()?.starts_with("net_memif") {
            return None;
        }
        let argument = |name: &str| {
            let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
            words.clone().find_map(value)
        };
        let log2 = argument("rsize").and_then(|log2| log2.parse().ok());
        Some(Self {
            is_server: matches!(argument("role"), Some("server" | "master")),
            is_zero_copy: argument("zero-copy") == Some("yes"),
            // The driver refuses larger rings.
            ring_slots: 1 << log2.unwrap_or(10u32).min(14),
            socket: match argument("socket-abstract") {
                Some("no") => argument("socket"),
                _ => None,
            },
        })
    }

    /// Removes the socket of a killed server, because the driver does not replace it.
    pub(super) fn remove_stale_socket(&self) {
        let Some(path) = self.socket.filter(|_| self.is_server).map(Path::new) else {
            return;
        };
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        // A listening memif refuses a stream connection with another error, because its socket is a
        // packet socket.
        let refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(path).is_err_and(refused) {
            // If it cannot be removed, the driver reports the problem.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn arguments_are_parsed() {
        let memif = Memif::of("net_memif0,role=server,rsize=12,socket=/s,socket-abstract=no");
        let expected = Memif { is_server: true, is_zero_copy: false, ring_slots: 4096, socket: Some("/s") };
        assert_eq!(memif, Some(expected));
        let client = Memif::of("net_memif1,socket=/s,zero-copy=yes,rsize=99").unwrap();
        assert!(!client.is_server && client.is_zero_copy);
        assert_eq!((client.ring_slots, client.socket), (1 << 14, None));
        assert_eq!(Memif::of("net_ring0,role=server"), None);
    }

    #[test]
    fn only_abandoned_sockets_are_removed() {
        let path = std::env::temp_dir().join(format!("micanite-memif-{}", std::process::id()));
        let device = format!("net_memif0,role=server,socket={},socket-abstract=no", path.display());
        let memif = Memif::of(&device).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        memif.remove_stale_socket();
        assert!(path.exists());
        drop(listener);
        let client = Memif { is_server: false, ..memif };
        client.remove_stale_socket();
        assert!(path.exists());
        memif.remove_stale_socket();
        assert!(!path.exists());
        fs::write(&path, "a file").unwrap();
        memif.remove_stale_socket();
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }
}
