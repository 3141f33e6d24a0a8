//! Binaries of other servers, and servers at addresses.

use std::path::PathBuf;

use clap::Args;

use crate::Result;
use crate::harness::system;
use crate::results::measurement::Measurement;

/// Binaries of ours and of memcached.
#[derive(Args, Debug)]
pub(crate) struct Binaries {
    /// Micanite's binary: the server, and the client of whole servers
    #[arg(long, default_value_os_t = system::target("release/micanite"))]
    pub server: PathBuf,
    /// memcached's binary, several times for several (default: what scripts/peer-memcached unpacked, else
    /// the search path's)
    #[arg(long)]
    pub memcached: Vec<PathBuf>,
}

/// Places of what `scripts/peer-memcached` and `scripts/peer-memcached-current` unpack.
const UNPACKED: [&str; 2] = ["peers/bin/memcached", "peers/bin/memcached-current"];

/// The binaries of memcached where the rest is worth measuring without any; notes once that there is none.
pub(crate) fn memcacheds_or_none(asked_for: &[PathBuf], report: &mut Measurement) -> Result<Vec<PathBuf>> {
    match memcacheds(asked_for) {
        Err(_) if asked_for.is_empty() => {
            report.note_once("not beside memcached: scripts/peer-memcached unpacks it");
            Ok(Vec::new())
        }
        found => found,
    }
}

/// The binaries of memcached to stand beside: those asked for, else those that were unpacked,
/// else the one of the search path.
pub(crate) fn memcacheds(asked_for: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if let Some(missing) = asked_for.iter().find(|binary| !binary.exists()) {
        return Err(format!("there is no {}", missing.display()).into());
    }
    if !asked_for.is_empty() {
        return Ok(asked_for.to_vec());
    }
    let mut found: Vec<_> = UNPACKED.map(system::target).into();
    found.retain(|binary| binary.exists());
    if found.is_empty() {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mut binaries = std::env::split_paths(&folders).map(|folder| folder.join("memcached"));
        found.extend(binaries.find(|binary| binary.is_file()));
    }
    if found.is_empty() {
        return Err("no memcached to stand beside: scripts/peer-memcached unpacks it".into());
    }
    Ok(found)
}

/// A server at an address: `NAME=ADDRESS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub name: String,
    pub address: String,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((name, address)) if !name.is_empty() && address.contains("://") => {
                Ok(Self { name: name.to_owned(), address: address.to_owned() })
            }
            _ => Err("not NAME=ADDRESS, say dragonfly=memcached://127.0.0.1:11311".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_at_addresses_have_names() {
        let named: Named = "pelikan=memcached://10.0.0.1:12321".parse().unwrap();
        assert_eq!((named.name.as_str(), named.address.as_str()), ("pelikan", "memcached://10.0.0.1:12321"));
        for wrong in ["", "name", "=memcached://h", "name=", "name=10.0.0.1:11211"] {
            assert!(wrong.parse::<Named>().is_err(), "{wrong}");
        }
    }
}
