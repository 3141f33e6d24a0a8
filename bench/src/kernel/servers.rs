//! The servers: each is pinned to the same core, in a network of its own at the end of a
//! cable whose ends are polled by threads of the kernel's, one on the server's core, one on ours.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use micanite_net::bypass::{Bypass, BypassOptions, BypassQueue};
use micanite_net::xdp::XdpQueue;
use micanite_wire::native::PAYLOAD_BYTES;

use super::hippos::{Place, sink};
use super::injector::Injector;
use super::load::client::Client;
use super::load::requests::Maker;
use super::napi;
use super::usage::Meter;
use crate::Result;
use crate::generator::directory;
use crate::generator::frames::Way;
use crate::generator::packets::{Protocol, Terms};
use crate::harness::filler::Filler;
use crate::harness::namespace::{self, SERVER_INTERFACE, SERVER_PORT, TCP_PORT};
use crate::harness::process::Process;
use crate::harness::servers::version_at;
use crate::results::measurement::folder;

/// A server has so long to begin: maps of several GiB take seconds each.
const PATIENCE: Duration = Duration::from_secs(60);
/// GETs come from so many ports where the protocol knows no proof of addresses.
const FLOWS: u16 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// memcached over UDP.
    Memcached,
    /// Micanite with `-U`.
    Udp,
    /// The same with `--kernel-get`.
    KernelGet,
    /// Micanite with `--native` and `--kernel-get`.
    KernelNative,
    /// Micanite with an AF_XDP port: the native protocol.
    Xdp,
    /// The same, with the program behind the driver.
    KernelGeneric,
    /// An XDP program that only reflects.
    Reflect,
    /// A place in the stack.
    Sink(Place),
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Udp => "kernel-udp",
            Self::KernelGet => "kernel-get",
            Self::KernelNative => "kernel-native",
            Self::Xdp => "af-xdp",
            Self::KernelGeneric => "kernel-get behind the driver",
            Self::Reflect => "reflect",
            Self::Sink(place) => place.name(),
        }
    }

    /// Returns whether it sends requests back.
    const fn is_echo(self) -> bool {
        match self {
            Self::Sink(place) => place.answers(),
            other => matches!(other, Self::Reflect),
        }
    }

    const fn protocol(self) -> Protocol {
        match self {
            Self::Xdp | Self::KernelNative => Protocol::Native,
            _ => Protocol::Memcached,
        }
    }
}

/// Returns why a kind of server cannot be measured here; none if it can.
pub(super) fn missing(kind: Kind, micanite: &Path) -> Result<Option<&'static str>> {
    Ok(match kind {
        Kind::KernelGet | Kind::KernelGeneric | Kind::KernelNative => {
            let output = Command::new(micanite).args(["serve", "--help"]).output();
            let output = output.map_err(|error| format!("{}: {error}", micanite.display()))?;
            let help = String::from_utf8_lossy(&output.stdout);
            let has = help.contains("--kernel-get");
            (!has).then_some("the server has no --kernel-get")
        }
        _ => None,
    })
}

#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub micanite: PathBuf,
    pub memcached: PathBuf,
    /// MiB of memory that each server gets.
    pub memory_mib: u64,
}

/// A running server, and the client of it.
pub(super) struct Server {
    pub kind: Kind,
    pub name: String,
    number: u8,
    way: Way,
    pub process: Process,
    pub client: Client,
    pub meter: Meter,
    /// The kernel's threads that poll both ends of the cable.
    pub polling: Vec<u32>,
    _port: Bypass,
    injector: Injector,
}

impl Server {
    /// Starts the server with this number, and waits until it answers. `cpus`: the server's and ours.
    pub fn start(number: u8, kind: Kind, binaries: &Programs, cpus: [usize; 2]) -> Result<Self> {
        let way = namespace::way(number);
        let before = napi::threads(SERVER_INTERFACE)?;
        let command = command(number, &way, kind, binaries)?;
        let mut process = namespace::start_inside((number, kind.name()), cpus[0], &command, true)?;
        let (port, injector, mut client) = open(&way, number, kind)?;
        client.echoed = kind.is_echo();
        let mut name = kind.name().to_owned();
        let counts = counts(number);
        if matches!(kind, Kind::Sink(_)) {
            process.wait_until(PATIENCE, || sink::count(&counts))?;
        } else if kind == Kind::Reflect {
            let patience = Duration::from_millis(100);
            let ask = || client.ask(&[0; 32], patience, &mut |_| true);
            process.wait_until(PATIENCE, ask)?;
        } else {
            let tcp = (way.server.1.ip(), TCP_PORT).into();
            let version = process.wait_until(PATIENCE, || version_at(tcp))?;
            if kind == Kind::Memcached {
                name = format!("{name} {version}");
            }
        }
        let mut server = Self {
            kind,
            name,
            number,
            way,
            process,
            client,
            meter: Meter::new(cpus[0], Vec::new()),
            polling: Vec::new(),
            _port: port,
            injector,
        };
        server.polling = napi::pin(&namespace::client_interface(number), &[], cpus[1])?;
        let exit = server.injector.exit.clone();
        server.polling.extend(napi::pin(&exit, &[], cpus[1])?);
        let mut processes = napi::pin(SERVER_INTERFACE, &before, cpus[0])?;
        server.polling.extend(&processes);
        processes.push(server.process.id());
        server.meter = Meter::new(cpus[0], processes);
        Ok(server)
    }

    /// Datagrams that a sink has counted; 0 for other servers.
    pub fn sunk(&self) -> Result<u64> {
        match self.kind {
            Kind::Sink(_) => sink::count(&counts(self.number)),
            _ => Ok(0),
        }
    }

    /// Address for writes.
    pub fn tcp(&self) -> SocketAddr {
        (self.way.server.1.ip(), TCP_PORT).into()
    }

    /// Makes the maker of this server's requests.
    pub fn maker(&mut self) -> Result<Maker> {
        let terms = self.terms()?;
        Ok(Maker::new(self.kind.protocol(), terms, &self.way, flows(self.kind)))
    }

    /// Learns the values that every request carries now.
    pub fn terms(&mut self) -> Result<Terms> {
        if self.kind.protocol() != Protocol::Native {
            return Ok(Terms::default());
        }
        let client = &mut self.client;
        directory::learn(|request, satisfies| client.ask(request, PATIENCE, satisfies))
    }

    pub fn protocol(&self) -> Protocol {
        self.kind.protocol()
    }

    /// Connects a filler; none for a server that stores nothing.
    pub fn filler(&self) -> Result<Option<Filler>> {
        if matches!(self.kind, Kind::Reflect | Kind::Sink(_)) {
            return Ok(None);
        }
        eprint!("\rfilling {}   ", self.name);
        Filler::connect(self.tcp(), &self.name).map(Some)
    }

    /// Sends lines that ask for no reply over TCP, and waits until they are executed.
    pub fn send_quietly(&self, lines: &[u8]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut sender = Filler::connect(self.tcp(), &self.name)?;
        sender.push_lines(lines);
        sender.finish()
    }

    /// The counts of `stats kernel` whose names begin so.
    pub fn stats(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let mut stream = TcpStream::connect(self.tcp())?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"stats kernel\r\n")?;
        let mut counts = Vec::new();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            if line == "END" {
                break;
            }
            let words = line.strip_prefix("STAT ").and_then(|rest| rest.split_once(' '));
            if let Some((name, value)) = words.filter(|(name, _)| name.starts_with(prefix))
                && let Ok(count) = value.parse()
            {
                counts.push((name.to_owned(), count));
            }
        }
        Ok(counts)
    }
}

/// Unix socket of a sink.
fn counts(number: u8) -> PathBuf {
    folder().join(format!("sink-{}-{number}.socket", std::process::id()))
}

const fn flows(kind: Kind) -> u16 {
    match kind.protocol() {
        Protocol::Memcached => FLOWS,
        Protocol::Native => 1,
    }
}

fn command(number: u8, way: &Way, kind: Kind, binaries: &Programs) -> Result<Vec<OsString>> {
    let (own, udp, tcp) = (way.server.1.ip(), SERVER_PORT.to_string(), TCP_PORT.to_string());
    let (memory, own_prefix) = (binaries.memory_mib.to_string(), namespace::with_prefix(own));
    let (own, port) = (own.to_string(), format!("xdp:{SERVER_INTERFACE}"));
    let clients = format!("{}/32", way.client.1.ip());
    let both = ["-t", "1", "-l", &own, "-m", &memory, "-p", &tcp];
    let ours = [&["serve", "--control-socket", "none"], &both[..]].concat();
    let udp_port = ["-U", &udp];
    let allow = ["--udp-allow", &clients];
    // Our end has an XDP program, so the driver's mode works on veth, too.
    let kernel = ["--kernel-get", SERVER_INTERFACE, "--kernel-get-mode", "native"];
    let generic = ["--kernel-get", SERVER_INTERFACE, "--kernel-get-mode", "generic"];
    let address = way.server.1.to_string();
    let place = match kind {
        Kind::Sink(place) => place.to_possible_value().map(|value| value.get_name().to_owned()),
        _ => None,
    };
    let place = place.unwrap_or_default();
    let counts = counts(number).display().to_string();
    let (binary, arguments): (OsString, Vec<&str>) = match kind {
        Kind::Memcached => {
            let all = [&both[..], &["-u", "root"], &udp_port];
            (binaries.memcached.clone().into(), all.concat())
        }
        Kind::Udp => {
            let all = [&ours[..], &udp_port, &allow];
            (binaries.micanite.clone().into(), all.concat())
        }
        Kind::KernelGet => {
            let all = [&ours[..], &udp_port, &allow, &kernel];
            (binaries.micanite.clone().into(), all.concat())
        }
        Kind::KernelNative => {
            let all = [&ours[..], &["--native", &udp], &kernel];
            (binaries.micanite.clone().into(), all.concat())
        }
        Kind::Xdp => {
            let bypass = ["--bypass", &port, "--bypass-ip", &own_prefix, "--native", &udp];
            let all = [&ours[..], &bypass];
            (binaries.micanite.clone().into(), all.concat())
        }
        Kind::KernelGeneric => {
            let all = [&ours[..], &udp_port, &allow, &generic];
            (binaries.micanite.clone().into(), all.concat())
        }
        Kind::Sink(_) => {
            let sink = ["sink", "--interface", SERVER_INTERFACE, "--address", &address];
            let all = [&sink[..], &["--counts", &counts, "--place", &place]];
            (std::env::current_exe()?.into(), all.concat())
        }
        Kind::Reflect => {
            let reflect = ["reflect", "--interface", SERVER_INTERFACE];
            (std::env::current_exe()?.into(), reflect.into())
        }
    };
    let mut command = vec![binary];
    command.extend(arguments.iter().map(OsString::from));
    Ok(command)
}

/// Our end of a cable, and the way to it.
fn open(way: &Way, number: u8, kind: Kind) -> Result<(Bypass, Injector, Client)> {
    let flows = flows(kind);
    let own = namespace::client_interface(number);
    let injector = Injector::new(number, &own)?;
    let (port, receives) = open_port(way, &own, flows)?;
    let (sending_port, sends) = open_port(way, &injector.entrance, flows)?;
    let injector = injector.with_port(sending_port);
    Ok((port, injector, Client::new([receives, sends], *way, flows)?))
}

fn open_port(way: &Way, interface: &str, flows: u16) -> Result<(Bypass, XdpQueue)> {
    let (own, first) = (way.client.1.ip(), way.client.1.port());
    let options = BypassOptions {
        name: format!("xdp:{interface}").parse()?,
        addresses: vec![(own, 24)],
        gateway: None,
        ports: first..=first + flows - 1,
        queues: 1,
        payload_bytes_max: PAYLOAD_BYTES,
        busy_poll_us: 0,
        dpdk_arguments: Vec::new(),
    };
    let (port, mut queues) = Bypass::open(&options)?;
    match queues.pop() {
        Some(BypassQueue::Xdp(queue)) => Ok((port, queue)),
        _ => Err("a port without a queue".into()),
    }
}
