//! Other servers that ours stands beside: those that are installed, and those at addresses.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::harness::peers::Named;
use crate::harness::system::target;

/// Another server.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Peer {
    pub name: String,
    /// Version, or address.
    pub version: Option<String>,
    /// Script that fetches it.
    pub install: String,
}

const UNPACKED: [(&str, &str, &str); 3] = [
    ("memcached (Debian)", "peers/bin/memcached", "scripts/peer-memcached"),
    ("memcached (current)", "peers/bin/memcached-current", "scripts/peer-memcached-current"),
    ("Redis (Debian)", "peers/bin/redis-server", "scripts/peer-redis"),
];

/// Lists the peers that the measurements know, and the named ones.
pub(crate) fn all(named: &[Named]) -> Vec<Peer> {
    let unpacked = UNPACKED.iter().map(|(name, path, script)| Peer {
        name: (*name).to_owned(),
        version: version(&target(path)),
        install: (*script).to_owned(),
    });
    let named = named.iter().map(|named| Peer {
        name: named.name.clone(),
        version: Some(format!("at {}", named.address)),
        install: String::new(),
    });
    unpacked.chain(named).collect()
}

/// The first line that a program says of its version.
fn version(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.split(" sha=").next().unwrap_or(line).to_owned())
}

impl Named {
    /// Checks that somebody listens, as far as a stream can tell: otherwise every section that stands beside
    /// it would fail.
    ///
    /// # Errors
    /// When nobody answers: a sentence.
    pub fn reach(&self) -> Result<(), String> {
        let (scheme, rest) = self.address.split_once("://").unwrap_or_default();
        let (port, rest) = match scheme {
            "memcached" => (11211, rest),
            "redis" => (6379, rest),
            _ => return Ok(()),
        };
        let place = match rest.rsplit_once(':') {
            Some((_, digits)) if digits.parse::<u16>().is_ok() => rest.to_owned(),
            _ => format!("{rest}:{port}"),
        };
        let failed = |error: std::io::Error| {
            let (name, address) = (&self.name, &self.address);
            format!("--peer {name}: nobody answers at {address} ({error}); start it, or leave it out")
        };
        for address in place.to_socket_addrs().map_err(failed)? {
            if TcpStream::connect_timeout(&address, REACH_TIME_MAX).is_ok() {
                return Ok(());
            }
        }
        Err(failed(std::io::ErrorKind::ConnectionRefused.into()))
    }
}

/// A peer is waited for so long.
const REACH_TIME_MAX: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_at_addresses_have_names() {
        let named: Named = "pelikan=memcached://10.0.0.1:12321".parse().unwrap();
        assert_eq!(named.name, "pelikan");
        let peers = all(&[named]);
        let last = peers.last().unwrap();
        assert_eq!(last.version.as_deref(), Some("at memcached://10.0.0.1:12321"));
    }

    #[test]
    fn a_peer_that_is_not_there_is_named() {
        let named =
            |scheme: &str, address| -> Named { format!("other={scheme}://{address}").parse().unwrap() };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(named("memcached", address).reach(), Ok(()));
        // The port of a connection's other end: nobody else can have it, and nobody listens there.
        let connection = std::net::TcpStream::connect(address).unwrap();
        let silent = connection.local_addr().unwrap();
        let why = named("memcached", silent).reach().unwrap_err();
        assert!(why.starts_with("--peer other: nobody answers"), "{why}");
        let datagrams = named("memcached+udp", silent);
        assert_eq!(datagrams.reach(), Ok(()), "datagrams do not tell");
    }

    #[test]
    fn missing_programs_have_no_version() {
        assert_eq!(version(Path::new("there/is/no/such/server")), None);
    }
}
