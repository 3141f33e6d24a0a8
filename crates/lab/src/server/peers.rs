//! Servers under test: started pinned, ended by their process id, also on error.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::launch::{self, Cpus};
use crate::measurement::Measurement;
use crate::{Result, system};

/// A running server.
pub(crate) struct Peer {
    pub name: &'static str,
    /// As it says itself: `memcached 1.6.18`.
    pub version: String,
    pub address: SocketAddr,
    child: Child,
    log: PathBuf,
}

impl Drop for Peer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Ends a server, and waits for its end.
pub(crate) fn end(child: &mut Child) {
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Peer {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Our server with one worker, unless the flags say otherwise.
    pub fn micanite(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let always = ["serve", "-t", "1", "-l", "127.0.0.1"];
        Self::start("micanite", binary, &[&always, flags].concat(), cpus)
    }

    /// memcached with one worker, unless the flags say otherwise.
    pub fn memcached(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let always = ["-t", "1", "-l", "127.0.0.1", "-u", "root"];
        let udp: &[&str] = if flags.contains(&"-U") {
            &[]
        } else {
            &["-U", "0"]
        };
        Self::start("memcached", binary, &[&always, udp, flags].concat(), cpus)
    }

    fn start(name: &'static str, binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let any_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = any_port.local_addr()?;
        drop(any_port);
        let port = address.port().to_string();
        let mut command = vec![OsString::from(binary)];
        command.extend(flags.iter().chain(&["-p", &port]).map(OsString::from));
        let log = Path::new("target/bench").join(format!("{name}.log"));
        std::fs::create_dir_all("target/bench")?;
        let file = File::create(&log)?;
        let child = launch::command(cpus, &command)?
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let mut peer = Self {
            name,
            version: String::new(),
            address,
            child,
            log,
        };
        peer.version = format!("{name} {}", peer.wait_until_ready()?);
        Ok(peer)
    }

    /// The version, as soon as the server answers.
    fn wait_until_ready(&mut self) -> Result<String> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let (name, said) = (self.name, said.trim_end());
                return Err(format!("{name} ended at its start ({status}): {said}").into());
            }
            match TcpStream::connect(self.address)
                .map_err(Into::into)
                .and_then(version)
            {
                Ok(version) => return Ok(version),
                Err(error) if Instant::now() > end => {
                    return Err(format!("{} does not answer: {error}", self.name).into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// What a server says its version is.
pub(crate) fn version(mut stream: TcpStream) -> Result<String> {
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

/// Where `make bench` puts the memcached of Debian's stable and unstable suites.
const UNPACKED: [&str; 2] = ["peers/bin/memcached", "peers/bin/memcached-current"];

/// The same where the rest is worth measuring without any: that none is there is noted once.
pub(crate) fn memcacheds_or_none(
    asked_for: &[PathBuf],
    report: &mut Measurement,
) -> Result<Vec<PathBuf>> {
    match memcacheds(asked_for) {
        Err(_) if asked_for.is_empty() => {
            const NOTE: &str = "not beside memcached: scripts/peer-memcached unpacks it";
            if report.notes().iter().all(|note| note != NOTE) {
                report.note(NOTE);
            }
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
        return Err("no memcached to stand beside: `make bench-server` unpacks it".into());
    }
    Ok(found)
}
