//! Servers and the ways to ask them: each pinned to one core, and ended with this process.

use std::path::Path;

use super::Options;
use crate::Result;
use crate::launch::Cpus;
use crate::measurement::Measurement;
use crate::network::servers::Server as Datagrams;
use crate::server::peers::{self, Peer};
use crate::streams::servers::{Flags, Kind, Server as Stream, Transport};

/// A server, by one of the protocols that it speaks.
pub(super) struct Side {
    pub name: String,
    /// For `micanite load`.
    pub url: String,
    /// Options of `micanite load` by which it is as busy as it can be.
    pub busy: &'static [&'static str],
    process: Process,
}

/// Kept as long as the server is to run.
enum Process {
    Peer(Peer),
    Datagrams(Datagrams),
    Stream(Stream),
    /// Not started by us.
    Elsewhere,
}

/// Pipelines of 32 on four connections: what all servers with streams are asked by.
const STREAMS_BUSY: &[&str] = &["--connections", "4", "--batch", "32"];
/// Datagrams of 16 requests, 256 requests in the air.
const NATIVE_BUSY: &[&str] = &["--batch", "16", "--pipeline", "256"];
/// A request in each datagram: there is no other way.
const UDP_BUSY: &[&str] = &["--pipeline", "64"];

/// Which servers take part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub native: bool,
    /// All versions of memcached that are there, not only the first.
    pub all_memcacheds: bool,
    pub memcached_udp: bool,
    pub redis: bool,
    pub elsewhere: bool,
}

impl Side {
    /// Its process, if that runs here.
    pub fn pid(&self) -> Option<u32> {
        match &self.process {
            Process::Peer(peer) => Some(peer.pid()),
            Process::Datagrams(server) => Some(server.pid()),
            Process::Stream(server) => Some(server.pid()),
            Process::Elsewhere => None,
        }
    }

    /// Ours by its own protocol.
    pub fn native(options: &Options, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let server = Datagrams::micanite(&options.server, flags, cpus)?;
        Ok(Self {
            name: "micanite native".to_owned(),
            url: format!("native://{}", server.udp),
            busy: NATIVE_BUSY,
            process: Process::Datagrams(server),
        })
    }

    /// Ours by memcached's protocol over TCP.
    pub fn tcp(options: &Options, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let peer = Peer::micanite(&options.server, flags, cpus)?;
        Ok(Self {
            name: "micanite TCP".to_owned(),
            url: format!("memcached://{}", peer.address),
            busy: STREAMS_BUSY,
            process: Process::Peer(peer),
        })
    }

    /// memcached over TCP.
    pub fn memcached(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let peer = Peer::memcached(binary, flags, cpus)?;
        Ok(Self {
            name: peer.version.clone(),
            url: format!("memcached://{}", peer.address),
            busy: STREAMS_BUSY,
            process: Process::Peer(peer),
        })
    }

    fn memcached_udp(binary: &Path, memory: &str, cpu: usize) -> Result<Self> {
        let server = Datagrams::memcached(binary, &["-m", memory], cpu)?;
        Ok(Self {
            name: format!("{} UDP", server.name),
            url: format!("memcached+udp://{}", server.udp),
            busy: UDP_BUSY,
            process: Process::Datagrams(server),
        })
    }

    fn redis(options: &Options, cpu: usize) -> Result<Self> {
        let flags = Flags {
            connections_max: 4096,
            memory_mib: 0,
        };
        let kind = Kind::Redis(options.redis.clone());
        let server = Stream::start(&kind, &options.server, Transport::Tcp, &flags, cpu)?;
        Ok(Self {
            name: server.name.clone(),
            url: server.url.clone(),
            busy: STREAMS_BUSY,
            process: Process::Stream(server),
        })
    }

    fn elsewhere((name, url): &(String, String)) -> Self {
        let busy = match url.split_once("://").map_or("", |(scheme, _)| scheme) {
            "native" => NATIVE_BUSY,
            "memcached+udp" => UDP_BUSY,
            _ => STREAMS_BUSY,
        };
        Self {
            name: name.clone(),
            url: url.clone(),
            busy,
            process: Process::Elsewhere,
        }
    }
}

/// Starts the servers; ours come first.
pub(super) fn start(
    options: &Options,
    wanted: Wanted,
    item_bytes: usize,
    cpu: usize,
    report: &mut Measurement,
) -> Result<Vec<Side>> {
    const MEMORY: &str = "3072";
    let item_bytes = item_bytes.to_string();
    let flags = ["-m", MEMORY, "--item-size", &item_bytes, "-c", "4096"];
    let mut sides = Vec::new();
    if wanted.native {
        sides.push(Side::native(options, &flags, cpu)?);
    }
    sides.push(Side::tcp(options, &flags, cpu)?);
    // Pipelines as long as ours before it turns to the next connection.
    let theirs = ["-m", MEMORY, "-R", "64", "-c", "4096"];
    let binaries = peers::memcacheds_or_none(&options.memcached, report)?;
    let many = if wanted.all_memcacheds {
        binaries.len()
    } else {
        1
    };
    for binary in binaries.iter().take(many) {
        sides.push(Side::memcached(binary, &theirs, cpu)?);
    }
    if let Some(binary) = binaries.first().filter(|_| wanted.memcached_udp) {
        sides.push(Side::memcached_udp(binary, MEMORY, cpu)?);
    }
    if wanted.redis && options.redis.exists() {
        sides.push(Side::redis(options, cpu)?);
    } else if wanted.redis {
        // Once, however many data sets there are.
        const NOTE: &str = "not beside Redis: scripts/peer-redis unpacks it";
        if report.notes().iter().all(|note| note != NOTE) {
            report.note(NOTE);
        }
    }
    if wanted.elsewhere {
        sides.extend(options.peer.iter().map(Side::elsewhere));
    }
    Ok(sides)
}
