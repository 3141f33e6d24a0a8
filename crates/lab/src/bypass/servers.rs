//! What is measured: each server pinned to the same core, at the end of a way of its own, stopped
//! while it is not its turn, for those that poll would take the core from the others.

use std::ffi::OsString;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use micanite_net::bypass::{Bypass, BypassQueue};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::frames::Prepared;
use super::generator::{Generator, Load};
use super::stage::{self, Stage};
use crate::bed::{self, SERVER_INTERFACE, SERVER_PORT, TCP_PORT};
use crate::frames::Way;
use crate::network::directory;
use crate::network::servers::fill;
use crate::packets::{Packets, Protocol, Shape, Terms};
use crate::server::peers::{end, version};
use crate::{Result, launch};

/// A server has so long to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// Datagrams of one piece of the filling: fewer than there are numbers.
const FILLING: u64 = 1 << 15;

/// How frames come to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// A cable within the machine; an AF_XDP port at our end.
    Veth,
    /// Shared memory; DPDK at both ends.
    Memif,
}

/// Who answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program<'a> {
    /// Micanite with a port of the medium's kind.
    Bypass(&'a Path),
    /// Micanite with a UDP socket of the kernel's.
    Kernel(&'a Path),
    /// What goes only so far, perhaps with its clock on, and has so many items.
    Stage {
        stage: Stage,
        timed: bool,
        items: u64,
    },
    /// memcached over UDP.
    Memcached(&'a Path),
}

/// A running server, and the client of it.
pub(super) struct Server {
    pub name: String,
    /// It sends back what it gets.
    pub echoes: bool,
    /// It has a directory.
    executes: bool,
    protocol: Protocol,
    way: Way,
    pub child: Child,
    log: PathBuf,
    /// Before the port that it uses.
    pub load: Box<dyn Load>,
    _port: Bypass,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.go_on();
        end(&mut self.child);
    }
}

impl Server {
    /// Starts the server with this number, and waits until it answers.
    pub fn start(number: u8, medium: Medium, program: Program<'_>, cpu: usize) -> Result<Self> {
        let way = bed::way(number);
        let command = command(&way, medium, program)?;
        let log = Path::new("target/bench").join(format!("bypass-{number}.log"));
        std::fs::create_dir_all("target/bench")?;
        let mut child = match medium {
            Medium::Veth => bed::start_inside(number, cpu, &command, &log, false)?,
            Medium::Memif => start(program, cpu, &command, &log)?,
        };
        let opened = match medium {
            Medium::Veth => Ok(()),
            Medium::Memif => wait_for_socket(&way, &mut child),
        };
        let opened = opened.and_then(|()| open(&way, medium, number));
        let (port, load) = opened.inspect_err(|_| end(&mut child))?;
        let (name, protocol) = match program {
            Program::Bypass(_) | Program::Kernel(_) => ("micanite", Protocol::Native),
            Program::Stage { .. } => ("echo", Protocol::Native),
            Program::Memcached(_) => ("memcached", Protocol::Memcached),
        };
        let mut server = Self {
            name: name.into(),
            echoes: matches!(program, Program::Stage { stage, .. } if stage != Stage::All),
            executes: !matches!(program, Program::Stage { stage, .. } if !stage.executes()),
            protocol,
            way,
            child,
            log,
            load,
            _port: port,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let (name, said) = (&self.name, said.trim_end());
                return Err(format!("{name} ended at its start ({status}): {said}").into());
            }
            if self.protocol == Protocol::Memcached {
                let stream = TcpStream::connect(self.tcp());
                if let Ok(version) = stream.map_err(Into::into).and_then(version) {
                    self.name = format!("{} {version}", self.name);
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(20));
            } else if self.terms(Duration::from_millis(100)).is_ok() {
                return Ok(());
            }
        }
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        Err(format!("{} does not answer: {}", self.name, said.trim_end()).into())
    }

    fn tcp(&self) -> SocketAddr {
        (self.way.server.1.ip(), TCP_PORT).into()
    }

    /// What the server's directory says; of an echo, that it lives.
    fn terms(&mut self, patience: Duration) -> Result<Terms> {
        if self.protocol == Protocol::Memcached {
            return Ok(Terms::default());
        }
        let load = &mut self.load;
        if self.executes {
            return directory::learn(|request, satisfies| load.ask(request, patience, satisfies));
        }
        load.ask(&directory::request(0), patience, &mut |_| true)?;
        Ok(Terms::default())
    }

    /// Stores the items 0 to `items - 1`.
    pub fn fill(&mut self, items: u64) -> Result<()> {
        if self.echoes {
            return Ok(());
        }
        if self.protocol == Protocol::Memcached {
            return fill(&self.name, self.tcp(), items);
        }
        let terms = self.terms(PATIENCE)?;
        let one = Packets::storing(0..1, terms).batch() as u64;
        let (step, mut stored) = (FILLING * one, 0);
        for first in (0..items).step_by(step as usize) {
            let packets = Packets::storing(first..(first + step).min(items), terms);
            stored += self
                .load
                .deliver(&mut Prepared::new(packets, &self.way))
                .map_err(|error| format!("filling {}: {error}", self.name))?;
        }
        match stored == items {
            true => Ok(()),
            false => Err(format!("{stored} of {items} items were stored").into()),
        }
    }

    /// So many datagrams of a load, as this server takes them.
    pub fn prepare(
        &mut self,
        shape: &Shape,
        items: u64,
        count: usize,
        seed: u64,
    ) -> Result<Prepared> {
        let shape = Shape {
            protocol: self.protocol,
            ..*shape
        };
        let terms = self.terms(PATIENCE)?;
        let packets = Packets::new(&shape, items, terms, count, seed);
        Ok(Prepared::new(packets, &self.way))
    }

    /// Its turn is over: it does not run.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Its turn.
    pub fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        // One that has ended shows by not answering.
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }
}

/// The command of a server.
fn command(way: &Way, medium: Medium, program: Program<'_>) -> Result<Vec<OsString>> {
    let port = match medium {
        Medium::Veth => format!("xdp:{SERVER_INTERFACE}"),
        Medium::Memif => memif(way, true),
    };
    let (own, native, tcp) = (
        way.server.1.ip(),
        SERVER_PORT.to_string(),
        TCP_PORT.to_string(),
    );
    let ip = bed::with_prefix(own);
    let own = own.to_string();
    let count;
    let bypass = ["--port", &port, "--port-ip", &ip, "--native", &native];
    let (binary, arguments): (OsString, Vec<&str>) = match program {
        Program::Bypass(binary) => {
            let always = [
                "serve",
                "-t",
                "1",
                "-l",
                "127.0.0.1",
                "-m",
                "2048",
                "--control-socket",
                "none",
            ];
            let all = [&always[..], &["-p", &tcp], &bypass].concat();
            (binary.into(), all)
        }
        Program::Kernel(binary) => {
            let always = [
                "serve",
                "-t",
                "1",
                "-l",
                &own,
                "-m",
                "2048",
                "-p",
                &tcp,
                "--control-socket",
                "none",
            ];
            let kernel = ["--native", &native, "--native-gro", "off"];
            (binary.into(), [&always[..], &kernel].concat())
        }
        Program::Stage {
            stage,
            timed,
            items,
        } => {
            count = items.to_string();
            let always = ["stage", "--stage", stage.name(), "--items", &count];
            let timed: &[&str] = if timed { &["--timed"] } else { &[] };
            let all = [&always[..], &bypass, timed].concat();
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
    let mac = bed::mac_text(mac);
    format!("dpdk:net_memif{number},role={role},socket={socket},mac={mac}")
}

/// Of this name there is none but ours: the socket is not a file, and belongs to the network.
fn socket(way: &Way) -> String {
    format!("micanite-bench-{}", way.server.0[4])
}

/// Waits until a server has made its socket, or has ended.
fn wait_for_socket(way: &Way, child: &mut Child) -> Result<()> {
    let (name, began) = (format!("@{}", socket(way)), Instant::now());
    while began.elapsed() < PATIENCE && child.try_wait()?.is_none() {
        let sockets = std::fs::read_to_string("/proc/net/unix")?;
        if sockets.lines().any(|line| line.ends_with(&name)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("a server with memif does not begin: target/bench/bypass-*.log says why".into())
}

/// Starts a server that needs no cable. The standard input and output of a stage are for questions.
fn start(program: Program<'_>, cpu: usize, command: &[OsString], log: &Path) -> Result<Child> {
    let log = File::create(log)?;
    let mut launcher: Command = launch::command(cpu, command)?;
    launcher.stderr(log.try_clone()?);
    match program {
        Program::Stage { .. } => launcher.stdin(Stdio::piped()).stdout(Stdio::piped()),
        _ => launcher.stdin(Stdio::null()).stdout(log),
    };
    Ok(launcher.spawn()?)
}

/// Our end of a way.
fn open(way: &Way, medium: Medium, number: u8) -> Result<(Bypass, Box<dyn Load>)> {
    let name = match medium {
        Medium::Veth => format!("xdp:{}", bed::client_interface(number)),
        Medium::Memif => memif(way, false),
    };
    let (own, port) = (way.client.1.ip(), way.client.1.port());
    let (bypass, queue) = stage::open(&name.parse()?, (own, 24), port)?;
    let load: Box<dyn Load> = match queue {
        BypassQueue::Xdp(queue) => Box::new(Generator::new(queue, *way)?),
        BypassQueue::Dpdk(queue) => Box::new(Generator::new(queue, *way)?),
    };
    Ok((bypass, load))
}
