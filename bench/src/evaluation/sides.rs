//! Servers and the ways to ask them: each pinned to one core, and ended with this process.

use std::path::Path;

use super::Options;
use crate::Result;
use crate::harness::launch::Cpus;
use crate::harness::peers;
use crate::harness::servers::{Program, Server, Transport};
use crate::results::measurement::Measurement;

/// A server, by one of the protocols that it speaks.
pub(super) struct Side {
    pub name: String,
    pub url: String,
    /// Options of `micanite load` by which it is as busy as it can be.
    pub busy: &'static [&'static str],
    /// None if the server runs elsewhere.
    pub server: Option<Server>,
}

/// Pipelines of 32 on four connections: what all servers with streams are asked by.
const STREAMS_BUSY: &[&str] = &["--connections", "4", "--batch", "32"];
/// Datagrams of 16 requests, 256 requests in flight.
const NATIVE_BUSY: &[&str] = &["--batch", "16", "--pipeline", "256"];
/// A request in each datagram: there is no other way.
const UDP_BUSY: &[&str] = &["--pipeline", "64"];
pub(super) const NO_REDIS: &str = "not beside Redis: scripts/peer-redis unpacks it";

/// Choice of the servers that take part.
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
    fn new(name: &str, url: &str, server: Option<Server>) -> Self {
        let busy = match url.split_once("://").map_or("", |(scheme, _)| scheme) {
            "native" => NATIVE_BUSY,
            "memcached+udp" => UDP_BUSY,
            _ => STREAMS_BUSY,
        };
        Self { name: name.to_owned(), url: url.to_owned(), busy, server }
    }

    /// A server over some transport, by another name than its own if there is one.
    pub fn stream(
        (program, transport): (Program<'_>, Transport),
        name: Option<&str>,
        flags: &[&str],
        cpus: impl Cpus,
    ) -> Result<Self> {
        let server = Server::start(program, transport, flags, cpus)?;
        let (own, url) = (server.name.clone(), server.url.clone());
        Ok(Self::new(name.unwrap_or(&own), &url, Some(server)))
    }

    /// The server's process, if it runs on this machine.
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// Starts our server with the native protocol.
    pub fn native(options: &Options, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let program = Program::Micanite(&options.binaries.server);
        let way = (program, Transport::Udp);
        Self::stream(way, Some("micanite native"), flags, cpus)
    }

    /// Starts our server with memcached's protocol over TCP.
    pub fn tcp(options: &Options, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let program = Program::Micanite(&options.binaries.server);
        Self::stream((program, Transport::Tcp), Some("micanite TCP"), flags, cpus)
    }

    /// memcached over TCP.
    pub fn memcached(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let way = (Program::Memcached(binary), Transport::Tcp);
        Self::stream(way, None, flags, cpus)
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
    let binaries = peers::memcacheds_or_none(&options.binaries.memcached, report)?;
    let item_bytes = item_bytes.to_string();
    let flags = ["-m", MEMORY, "--item-size", &item_bytes, "-c", "4096"];
    let mut sides = Vec::new();
    if wanted.native {
        sides.push(Side::native(options, &flags, cpu)?);
    }
    sides.push(Side::tcp(options, &flags, cpu)?);
    // Pipelines as long as ours before it turns to the next connection.
    let theirs = ["-m", MEMORY, "-R", "64", "-c", "4096"];
    let many = if wanted.all_memcacheds { binaries.len() } else { 1 };
    for binary in binaries.iter().take(many) {
        sides.push(Side::memcached(binary, &theirs, cpu)?);
    }
    if let Some(binary) = binaries.first().filter(|_| wanted.memcached_udp) {
        let way = (Program::Memcached(binary), Transport::Udp);
        let mut side = Side::stream(way, None, &["-m", MEMORY], cpu)?;
        side.name += " UDP";
        sides.push(side);
    }
    if wanted.redis && options.redis.exists() {
        let way = (Program::Redis(&options.redis), Transport::Tcp);
        sides.push(Side::stream(way, None, &["--maxclients", "4096"], cpu)?);
    } else if wanted.redis {
        report.note_once(NO_REDIS);
    }
    if wanted.elsewhere {
        let peers = options.peer.iter();
        sides.extend(peers.map(|peer| Side::new(&peer.name, &peer.address, None)));
    }
    Ok(sides)
}
