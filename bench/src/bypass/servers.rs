//! The servers: each is pinned to the same core, at the end of a way of its own, stopped
//! while it is not its turn, for those that poll would take the core from the others.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use micanite_net::bypass::{Bypass, BypassQueue};

use super::stage::{self, Stage};
use crate::Result;
use crate::generator::directory;
use crate::generator::frames::{Frames, Way};
use crate::generator::load::{Generator, Load};
use crate::generator::packets::{Packets, Protocol, Shape, Terms};
use crate::harness::filler;
use crate::harness::namespace::{self, SERVER_INTERFACE, SERVER_PORT, TCP_PORT};
use crate::harness::process::Process;
use crate::harness::servers::version_at;

/// A server has so long to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// Datagrams of one piece of the filling: fewer than there are numbers.
const FILLING: u64 = 1 << 15;

/// Path of frames to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// A cable within the machine; an AF_XDP port at our end.
    Veth,
    /// Shared memory; DPDK at both ends.
    Memif,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Program<'a> {
    /// Micanite with a port of the medium's kind.
    Bypass(&'a Path),
    /// Micanite with a UDP socket of the kernel's.
    Kernel(&'a Path),
    /// The bare echo, or the server's loop with this many items.
    Stage { stage: Stage, items: u64 },
    /// memcached over UDP.
    Memcached(&'a Path),
}

/// A running server, and the client of it.
pub(super) struct Server {
    pub name: String,
    /// True if it sends back what it gets.
    pub echoes: bool,
    /// True if it has a directory.
    executes: bool,
    protocol: Protocol,
    way: Way,
    pub process: Process,
    /// Before the port that it uses.
    pub load: Box<dyn Load>,
    _port: Bypass,
}

impl Server {
    /// Starts the server with this number, and waits until it answers.
    pub fn start(number: u8, medium: Medium, program: Program<'_>, cpu: usize) -> Result<Self> {
        let way = namespace::way(number);
        let command = command(&way, medium, program)?;
        let (name, protocol) = match program {
            Program::Bypass(_) | Program::Kernel(_) => ("micanite", Protocol::Native),
            Program::Stage { .. } => ("echo", Protocol::Native),
            Program::Memcached(_) => ("memcached", Protocol::Memcached),
        };
        let mut process = match medium {
            Medium::Veth => namespace::start_inside((number, name), cpu, &command, false)?,
            Medium::Memif => {
                let asks = matches!(program, Program::Stage { .. });
                let mut process = Process::start(name, &command, cpu, asks)?;
                process.wait_until(PATIENCE, || has_socket(&way))?;
                process
            }
        };
        let (port, mut load) = open(&way, medium, number)?;
        let executes = !matches!(program, Program::Stage { stage: Stage::Echo, .. });
        let mut name = name.to_owned();
        if protocol == Protocol::Memcached {
            let tcp = (way.server.1.ip(), TCP_PORT).into();
            let version = process.wait_until(PATIENCE, || version_at(tcp))?;
            name = format!("{name} {version}");
        } else {
            let patience = Duration::from_millis(100);
            process.wait_until(PATIENCE, || terms(&mut *load, executes, patience))?;
        }
        Ok(Self { name, echoes: !executes, executes, protocol, way, process, load, _port: port })
    }

    fn tcp(&self) -> SocketAddr {
        (self.way.server.1.ip(), TCP_PORT).into()
    }

    /// Learns the values that every request carries.
    fn terms(&mut self) -> Result<Terms> {
        match self.protocol {
            Protocol::Memcached => Ok(Terms::default()),
            Protocol::Native => terms(&mut *self.load, self.executes, PATIENCE),
        }
    }

    /// Stores the items 0 to `items - 1`.
    pub fn fill(&mut self, items: u64) -> Result<()> {
        if self.echoes {
            return Ok(());
        }
        if self.protocol == Protocol::Memcached {
            return filler::fill(&self.name, self.tcp(), items);
        }
        let terms = self.terms()?;
        let one = Packets::storing(0..1, terms).batch() as u64;
        let (step, mut stored) = (FILLING * one, 0);
        for first in (0..items).step_by(step as usize) {
            let packets = Packets::storing(first..(first + step).min(items), terms);
            stored += self
                .load
                .deliver(&mut packets.framed(&self.way))
                .map_err(|error| format!("filling {}: {error}", self.name))?;
        }
        match stored == items {
            true => Ok(()),
            false => Err(format!("{stored} of {items} items were stored").into()),
        }
    }

    /// Makes the datagrams of a load for this server.
    pub fn prepare(&mut self, shape: &Shape, items: u64, count: usize, seed: u64) -> Result<Packets> {
        let shape = Shape { protocol: self.protocol, ..*shape };
        let terms = self.terms()?;
        let packets = Packets::new(&shape, items, terms, count, seed);
        Ok(packets.framed(&self.way))
    }
}

/// Learns the terms of a server; waits for an answer of one without a directory.
fn terms(load: &mut dyn Load, executes: bool, patience: Duration) -> Result<Terms> {
    if executes {
        return load.terms(patience);
    }
    load.ask(&directory::request(0, 0), patience, &mut |_| true)?;
    Ok(Terms::default())
}

fn command(way: &Way, medium: Medium, program: Program<'_>) -> Result<Vec<OsString>> {
    let port = match medium {
        Medium::Veth => format!("xdp:{SERVER_INTERFACE}"),
        Medium::Memif => memif(way, true),
    };
    let (own, native, tcp) = (way.server.1.ip(), SERVER_PORT.to_string(), TCP_PORT.to_string());
    let ip = namespace::with_prefix(own);
    let own = own.to_string();
    let count;
    let serve = ["serve", "-t", "1", "-m", "2048", "--control-socket", "none"];
    let bypass = ["--bypass", &port, "--bypass-ip", &ip, "--native", &native];
    let (binary, arguments): (OsString, Vec<&str>) = match program {
        Program::Bypass(binary) => {
            let at = ["-l", "127.0.0.1", "-p", &tcp];
            (binary.into(), [&serve[..], &at, &bypass].concat())
        }
        Program::Kernel(binary) => {
            let at = ["-l", &own, "-p", &tcp];
            let kernel = ["--native", &native, "--native-gro", "off"];
            (binary.into(), [&serve[..], &at, &kernel].concat())
        }
        Program::Stage { stage, items } => {
            count = items.to_string();
            let always = ["stage", "--stage", stage.name(), "--items", &count];
            let all = [&always[..], &bypass].concat();
            (std::env::current_exe()?.into(), all)
        }
        Program::Memcached(binary) => {
            let always = ["-t", "1", "-l", &own, "-u", "root", "-m", "4096"];
            let ports = ["-p", &tcp, "-U", &native];
            (binary.into(), [&always[..], &ports].concat())
        }
    };
    let mut command = vec![binary];
    command.extend(arguments.iter().map(OsString::from));
    Ok(command)
}

/// The device of one end of the shared memory. The server makes the socket.
fn memif(way: &Way, server: bool) -> String {
    let number = way.server.0[4];
    let (role, mac) = match server {
        true => ("server", way.server.0),
        false => ("client", way.client.0),
    };
    let socket = socket(way);
    let mac = namespace::mac_text(mac);
    format!("dpdk:net_memif{number},role={role},socket={socket},mac={mac}")
}

/// Name of the socket. It is unique: the socket is no file, and belongs to the network.
fn socket(way: &Way) -> String {
    format!("micanite-bench-{}", way.server.0[4])
}

/// An error until the server has made its socket.
fn has_socket(way: &Way) -> Result<()> {
    let name = format!("@{}", socket(way));
    let sockets = std::fs::read_to_string("/proc/net/unix")?;
    let is_there = sockets.lines().any(|line| line.ends_with(&name));
    is_there.then_some(()).ok_or_else(|| "no socket of memif".into())
}

/// Our end of a way.
fn open(way: &Way, medium: Medium, number: u8) -> Result<(Bypass, Box<dyn Load>)> {
    let name = match medium {
        Medium::Veth => format!("xdp:{}", namespace::client_interface(number)),
        Medium::Memif => memif(way, false),
    };
    let (own, port) = (way.client.1.ip(), way.client.1.port());
    let (bypass, queue) = stage::open(&name.parse()?, (own, 24), port)?;
    let load: Box<dyn Load> = match queue {
        BypassQueue::Xdp(queue) => Box::new(Generator::new(Frames::new(queue, *way)?)),
        BypassQueue::Dpdk(queue) => Box::new(Generator::new(Frames::new(queue, *way)?)),
    };
    Ok((bypass, load))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// The bare echo once refused an option that had been renamed.
    #[test]
    fn the_servers_of_the_benchmark_take_their_options() {
        let way = namespace::way(3);
        let media: &[Medium] =
            if cfg!(feature = "dpdk") { &[Medium::Veth, Medium::Memif] } else { &[Medium::Veth] };
        for medium in media {
            for stage in [Stage::Echo, Stage::Server] {
                let words = command(&way, *medium, Program::Stage { stage, items: 5 }).unwrap();
                let parsed = crate::CommandLine::try_parse_from(words);
                assert!(parsed.is_ok(), "{medium:?}, {stage:?}: {:?}", parsed.err());
            }
        }
    }
}
