//! Servers under test: started pinned, ended by their process id, also on error.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Result, system};

/// Where a server runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Priority {
    pub cpu: usize,
    pub real_time: bool,
}

/// A running server.
pub(crate) struct Peer {
    pub name: &'static str,
    /// As it says itself: `memcached 1.6.18`.
    pub version: String,
    pub address: SocketAddr,
    child: Child,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Peer {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Our server with one worker.
    pub fn micanite(binary: &Path, flags: &[&str], priority: Priority) -> Result<Self> {
        let mut command = Command::new(binary);
        command
            .args(["serve", "-t", "1", "-l", "127.0.0.1"])
            .args(flags);
        Self::start("micanite", command, priority)
    }

    /// memcached with one worker.
    pub fn memcached(binary: &Path, flags: &[&str], priority: Priority) -> Result<Self> {
        let mut command = Command::new(binary);
        command.args([
            "-t",
            "1",
            "-l",
            "127.0.0.1",
            "-U",
            "0",
            "-m",
            "2048",
            "-u",
            "root",
        ]);
        Self::start(
            "memcached",
            {
                command.args(flags);
                command
            },
            priority,
        )
    }

    fn start(name: &'static str, mut command: Command, priority: Priority) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        command
            .args(["-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Children inherit where they run.
        let own = system::allowed_cpus();
        system::pin(priority.cpu)?;
        let child = command.spawn();
        system::pin(own[own.len() - 1])?;
        let child = child.map_err(|error| {
            format!("cannot start {program}: {error}; `make bench` builds and fetches both servers")
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut peer = Self {
            name,
            version: String::new(),
            address,
            child,
        };
        peer.version = format!("{name} {}", peer.wait_until_ready()?);
        if priority.real_time {
            system::make_real_time(peer.pid());
        }
        Ok(peer)
    }

    /// The version, as soon as the server answers.
    fn wait_until_ready(&mut self) -> Result<String> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("{} ended at its start: {status}", self.name).into());
            }
            match TcpStream::connect(self.address)
                .map_err(Into::into)
                .and_then(version)
            {
                Ok(version) => return Ok(version),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

fn version(mut stream: TcpStream) -> Result<String> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"version\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let version = line
        .trim()
        .strip_prefix("VERSION ")
        .ok_or("no version in the reply")?;
    Ok(version.to_owned())
}
