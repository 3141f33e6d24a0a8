//! Servers on the loopback interface, with one worker unless the flags say otherwise.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use super::filler;
use super::launch::Cpus;
use super::process::Process;
use crate::Result;
use crate::generator::packets::{Packets, Terms};

/// A server has so long to begin; one that fills itself, too.
const PATIENCE: Duration = Duration::from_secs(60);
const REPLY_TIME_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Program<'a> {
    Micanite(&'a Path),
    Memcached(&'a Path),
    Redis(&'a Path),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// Datagrams: of the native protocol, or of memcached's over UDP. TCP is there, too.
    Udp,
}

pub(crate) struct Server {
    /// Name and version: `memcached 1.6.18`.
    pub name: String,
    /// Address for `micanite load`.
    pub url: String,
    /// Address for streams; none of a table behind our port.
    tcp: Option<SocketAddr>,
    udp: Option<SocketAddr>,
    process: Process,
}

impl Server {
    /// Starts a server, and waits until it answers.
    pub fn start(
        program: Program<'_>,
        transport: Transport,
        flags: &[&str],
        cpus: impl Cpus,
    ) -> Result<Self> {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let udp = match transport {
            Transport::Udp => Some(free_udp()?),
            Transport::Tcp => None,
        };
        let (name, scheme, binary) = match program {
            Program::Micanite(binary) => ("micanite", "native", binary),
            Program::Memcached(binary) => ("memcached", "memcached+udp", binary),
            Program::Redis(binary) => ("Redis", "redis", binary),
        };
        let mut command = vec![OsString::from(binary)];
        command.extend(arguments(program, tcp, udp).split(' ').map(OsString::from));
        command.extend(flags.iter().map(OsString::from));
        let mut process = Process::start(name, &command, cpus, false)?;
        let is_redis = matches!(program, Program::Redis(_));
        let version = process.wait_until(PATIENCE, || version(is_redis, connect(tcp)?))?;
        let url = match udp {
            Some(udp) => format!("{scheme}://{udp}"),
            None if is_redis => format!("{scheme}://{tcp}"),
            None => format!("memcached://{tcp}"),
        };
        Ok(Self { name: format!("{name} {version}"), url, tcp: Some(tcp), udp, process })
    }

    /// Starts our server with the native protocol.
    pub fn native(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        Self::start(Program::Micanite(binary), Transport::Udp, flags, cpus)
    }

    /// Our port over a table with this word, which has so many items.
    pub fn table((word, name): (&str, &str), items: u64, cpu: usize) -> Result<Self> {
        let udp = free_udp()?;
        let mut command = vec![OsString::from(std::env::current_exe()?)];
        let (items, port) = (items.to_string(), udp.port().to_string());
        let words = ["table", "--table", word, "--items", &items, "--port", &port];
        command.extend(words.iter().map(OsString::from));
        let mut process = Process::start(name, &command, cpu, false)?;
        let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        probe.set_read_timeout(Some(Duration::from_millis(50)))?;
        let mut requests = Packets::storing(0..1, Terms::default());
        process.wait_until(PATIENCE, || {
            let (_, request) = requests.take();
            probe.send_to(request, udp)?;
            Ok(probe.recv(&mut [0; 64])?)
        })?;
        Ok(Self { name: name.to_owned(), url: String::new(), tcp: None, udp: Some(udp), process })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Address for datagrams.
    pub fn udp(&self) -> SocketAddr {
        self.udp.expect("it was started with datagrams")
    }

    /// Tells whether this is a whole server, with streams and a directory of the native protocol.
    pub fn is_whole(&self) -> bool {
        self.tcp.is_some()
    }

    /// Datagrams and bursts that Micanite's first worker has received so far.
    pub fn bursts(&self) -> Result<(u64, u64)> {
        let mut stream = connect(self.tcp.ok_or("it takes no streams")?)?;
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

    /// Stores the tiny items 0 to `items - 1`, over TCP.
    pub fn fill(&self, items: u64) -> Result<()> {
        filler::fill(&self.name, self.tcp.ok_or("it takes no streams")?, items)
    }
}

fn connect(tcp: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(tcp)?;
    stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
    Ok(stream)
}

fn free_udp() -> Result<SocketAddr> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The arguments that every server of a program gets.
fn arguments(program: Program<'_>, tcp: SocketAddr, udp: Option<SocketAddr>) -> String {
    let port = tcp.port();
    let udp_port = udp.map(|udp| udp.port()).unwrap_or_default();
    match program {
        Program::Micanite(_) => {
            let native = udp.map_or_else(String::new, |_| format!("--native {udp_port} "));
            format!("serve -t 1 --control-socket none {native}-l 127.0.0.1 -p {port}")
        }
        Program::Memcached(_) => format!("-t 1 -u root -U {udp_port} -l 127.0.0.1 -p {port}"),
        Program::Redis(_) => {
            format!("--save  --appendonly no --daemonize no --bind 127.0.0.1 --port {port}")
        }
    }
}

fn version(is_redis: bool, mut stream: TcpStream) -> Result<String> {
    let (request, mark) = match is_redis {
        true => ("INFO server\r\n", "redis_version:"),
        false => ("version\r\n", "VERSION "),
    };
    stream.write_all(request.as_bytes())?;
    for line in BufReader::new(stream).lines().take(10) {
        if let Some(version) = line?.strip_prefix(mark) {
            return Ok(version.to_owned());
        }
    }
    Err("no version in the reply".into())
}

/// The version of a server that speaks memcached's protocol at this address.
pub(crate) fn version_at(address: SocketAddr) -> Result<String> {
    version(false, connect(address)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_listen_on_the_loopback_alone_and_store_nothing_on_disk() {
        let tcp = "127.0.0.1:7".parse().unwrap();
        let binary = Path::new("x");
        let redis = arguments(Program::Redis(binary), tcp, None);
        assert!(redis.starts_with("--save  --appendonly no"));
        assert!(redis.ends_with("--bind 127.0.0.1 --port 7"));
        for program in [Program::Micanite(binary), Program::Memcached(binary)] {
            assert!(arguments(program, tcp, None).ends_with("-l 127.0.0.1 -p 7"));
        }
        assert!(arguments(Program::Memcached(binary), tcp, None).contains("-U 0"));
    }
}
