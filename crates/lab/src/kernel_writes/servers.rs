//! Who is given SETs: each in a network of its own, a cable away, pinned to the same core.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::responder::Answer;
use crate::bed::{self, TCP_PORT};
use crate::kernel::napi;
use crate::server::peers::{end, version};
use crate::{Result, system};

/// A server has so long to begin.
const PATIENCE: Duration = Duration::from_secs(30);
/// A connection to one that does not live yet is tried for so long.
const ATTEMPT: Duration = Duration::from_millis(100);

/// A program, and how it is asked to work.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// What stores nothing.
    Responder(Answer),
    /// Ours, with this `--io`.
    Micanite(&'static str),
    Memcached(PathBuf),
}

/// Segments that a program has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segments {
    /// Answered.
    pub handled: u64,
    pub all: u64,
}

/// A running server.
pub(super) struct Server {
    pub kind: Kind,
    pub name: String,
    pub address: SocketAddr,
    child: Child,
    log: PathBuf,
    /// The kernel's thread that polls its end of the cable.
    pub poller: u32,
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Server {
    /// Starts a server, the end of the cable with this number at it, and waits until it answers.
    pub fn start(number: u8, kind: &Kind, micanite: &Path, cpus: [usize; 2]) -> Result<Self> {
        let way = bed::way(number);
        let address: SocketAddr = (way.server.1.ip(), TCP_PORT).into();
        let command = command(kind, micanite, address)?;
        std::fs::create_dir_all("target/bench")?;
        let log = Path::new("target/bench").join(format!("kernel-writes-{number}.log"));
        let client = bed::client_interface(number);
        let before = [
            napi::threads(bed::SERVER_INTERFACE)?,
            napi::threads(&client)?,
        ];
        let mut child = bed::start_inside(number, cpus[0], &command, &log, true)?;
        let ready = wait_until_ready(&mut child, address, &log);
        let pinned = ready.and_then(|version| {
            let pollers = napi::pin(bed::SERVER_INTERFACE, &before[0], cpus[0])?;
            for poller in napi::pin(&client, &before[1], cpus[1])? {
                // The client spins on the same core for the replies that this is to hand it.
                if !system::make_other_real_time(poller) {
                    return Err(
                        format!("{client}: its poller cannot come before the client").into(),
                    );
                }
            }
            Ok((version, pollers[0]))
        });
        let (version, poller) = pinned.inspect_err(|_| end(&mut child))?;
        Ok(Self {
            kind: kind.clone(),
            name: name(kind, &version),
            address,
            child,
            log,
            poller,
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the program has done with segments so far.
    pub fn segments(&self) -> Result<Segments> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"stats\r\n")?;
        let mut segments = Segments::default();
        for line in BufReader::new(stream).lines() {
            let line = line?;
            let mut words = line.split(' ').skip(1);
            let (Some(name), Some(count)) = (words.next(), words.next()) else {
                return Ok(segments);
            };
            let count: u64 = count.parse()?;
            match name {
                "segments" => segments.handled = count,
                "requests" => continue,
                _ => {}
            }
            segments.all += count;
        }
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        Err(format!("{} does not count: {}", self.name, said.trim_end()).into())
    }
}

fn name(kind: &Kind, version: &str) -> String {
    match kind {
        Kind::Responder(Answer::KernelAlone) => "in the kernel, nothing woken".into(),
        Kind::Responder(Answer::Kernel) => "in the kernel".into(),
        Kind::Responder(Answer::Epoll) => "bare epoll echo".into(),
        Kind::Micanite(io) => format!("micanite, {io}"),
        Kind::Memcached(_) => format!("memcached {version}"),
    }
}

fn command(kind: &Kind, micanite: &Path, address: SocketAddr) -> Result<Vec<OsString>> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let address = address.to_string();
    let (program, words): (OsString, Vec<&str>) = match kind {
        Kind::Responder(answer) => {
            // Each has a name on the command line.
            let answer = answer
                .to_possible_value()
                .ok_or("not on the command line")?;
            let own = std::env::current_exe()?.into();
            let mut command: Vec<OsString> = vec![own];
            let words = [
                "stored",
                "--listen",
                &address,
                "--answer",
                answer.get_name(),
            ];
            command.extend(words.map(OsString::from));
            return Ok(command);
        }
        Kind::Micanite(io) => {
            let words = [
                "serve", "-t", "1", "-m", "1024", "-l", &ip, "-p", &port, "--io", io,
            ];
            let none = ["--control-socket", "none"];
            (micanite.into(), [&words[..], &none].concat())
        }
        Kind::Memcached(program) => {
            let words = [
                "-t", "1", "-m", "1024", "-l", &ip, "-p", &port, "-u", "root", "-U", "0",
            ];
            (program.into(), words.to_vec())
        }
    };
    let mut command = vec![program];
    command.extend(words.into_iter().map(OsString::from));
    Ok(command)
}

/// The version that the server answers with.
fn wait_until_ready(child: &mut Child, address: SocketAddr, log: &Path) -> Result<String> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            return Err(format!("a server ended at its start ({status}): {}", said.trim()).into());
        }
        match TcpStream::connect_timeout(&address, ATTEMPT)
            .map_err(Into::into)
            .and_then(version)
        {
            Ok(version) => return Ok(version),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(format!("a server does not answer: {error}").into());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
