//! The servers of a case, each pinned to the same core, and filled.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use micanite_workload::{Keys, Values};

use crate::Result;
use crate::launch::{self, Cpus};
use crate::packets::{KEY_BYTES, Packets, Terms, VALUE_BYTES};
use crate::server::peers::Peer;

/// A server has so long to begin, its filling included.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers datagrams.
pub(crate) struct Server {
    pub name: String,
    pub udp: SocketAddr,
    /// It sends back what it gets.
    pub echoes: bool,
    /// Its TCP side; none of the echo.
    pub peer: Option<Peer>,
    child: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It holds nothing that could be lost.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> Result<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(socket.local_addr()?.port())
}

impl Server {
    pub fn micanite(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        let port = free_port()?;
        let native = port.to_string();
        let flags = [flags, &["--native", &native]].concat();
        let peer = Peer::micanite(binary, &flags, cpus)?;
        Ok(Self::of(peer, port))
    }

    pub fn memcached(binary: &Path, flags: &[&str], cpu: usize) -> Result<Self> {
        let port = free_port()?;
        let udp = port.to_string();
        let flags = [flags, &["-U", &udp]].concat();
        let peer = Peer::memcached(binary, &flags, cpu)?;
        Ok(Self::of(peer, port))
    }

    fn of(peer: Peer, port: u16) -> Self {
        Self {
            name: peer.version.clone(),
            udp: (Ipv4Addr::LOCALHOST, port).into(),
            echoes: false,
            peer: Some(peer),
            child: None,
        }
    }

    pub fn echo(offload: bool, cpu: usize) -> Result<Self> {
        let port = free_port()?;
        let mut command = vec![OsString::from(std::env::current_exe()?), "echo".into()];
        command.extend(["--port".into(), OsString::from(port.to_string())]);
        if offload {
            command.push("--offload".into());
        }
        Self::of_child(("bare echo", true), port, &command, cpu)
    }

    /// Our port over a table with this word, which has so many items.
    pub fn table((word, name): (&str, &str), items: u64, cpu: usize) -> Result<Self> {
        let port = free_port()?;
        let [port_text, items] = [port.to_string(), items.to_string()];
        let words = [
            "table", "--port", &port_text, "--table", word, "--items", &items,
        ];
        let mut command = vec![OsString::from(std::env::current_exe()?)];
        command.extend(words.map(OsString::from));
        Self::of_child((name, false), port, &command, cpu)
    }

    /// Starts a program of the lab, and waits until it answers.
    fn of_child(
        (name, echoes): (&str, bool),
        port: u16,
        command: &[OsString],
        cpu: usize,
    ) -> Result<Self> {
        let child = launch::command(cpu, command)?
            .stdin(Stdio::null())
            .spawn()?;
        let server = Self {
            name: name.into(),
            udp: (Ipv4Addr::LOCALHOST, port).into(),
            echoes,
            peer: None,
            child: Some(child),
        };
        let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        probe.set_read_timeout(Some(Duration::from_millis(50)))?;
        let mut request = Packets::storing(0..1, Terms::default());
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            // Nobody may listen yet.
            let _ = probe.send_to(request.next(0), server.udp);
            if probe.recv(&mut [0; 64]).is_ok() {
                return Ok(server);
            }
        }
        Err(format!("{name} does not answer").into())
    }

    pub fn pid(&self) -> u32 {
        let child = self.child.as_ref().map_or(0, Child::id);
        self.peer.as_ref().map_or(child, Peer::pid)
    }

    /// Datagrams and bursts that Micanite's first worker has received so far.
    pub fn bursts(&self) -> Result<(u64, u64)> {
        let Some(peer) = &self.peer else {
            return Ok((0, 0));
        };
        let mut stream = TcpStream::connect(peer.address)?;
        stream.write_all(b"stats native\r\nquit\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (mut datagrams, mut bursts) = (0, 0);
        for line in text.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(name), Some(count)) = (words.next(), words.next()) else {
                continue;
            };
            if name == "0:datagrams_received" {
                datagrams = count.parse()?;
            } else if name.starts_with("0:bursts_to_") {
                bursts += count.parse::<u64>()?;
            }
        }
        Ok((datagrams, bursts))
    }

    /// Stores the items 0 to `items - 1`, over TCP.
    pub fn fill(&self, items: u64) -> Result<()> {
        match &self.peer {
            Some(peer) => fill(&self.name, peer.address, items),
            None => Ok(()),
        }
    }
}

/// Stores the items 0 to `items - 1` in a server at this address, over TCP.
pub(crate) fn fill(name: &str, address: SocketAddr, items: u64) -> Result<()> {
    const STEP: u64 = 1 << 14;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (keys, values) = (Keys::new(KEY_BYTES), Values::new(VALUE_BYTES));
    let mut bytes = Vec::new();
    for first in (0..items).step_by(STEP as usize) {
        bytes.clear();
        for item in first..(first + STEP).min(items) {
            bytes.extend(b"set ");
            keys.push(item, &mut bytes);
            bytes.extend(format!(" 0 0 {VALUE_BYTES} noreply\r\n").as_bytes());
            values.push(item, 0, &mut bytes);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"mn\r\n");
        stream.write_all(&bytes)?;
        let mut reply = [0; 4];
        stream.read_exact(&mut reply)?;
        if &reply != b"MN\r\n" {
            return Err(format!("{name} does not store: {reply:?}").into());
        }
        eprint!("\rfilling {name}: {} %   ", first * 100 / items);
    }
    eprintln!();
    Ok(())
}
