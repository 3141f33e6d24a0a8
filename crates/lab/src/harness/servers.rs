//! Servers on the loopback interface, with one worker unless the flags say otherwise.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::filler;
use super::launch::Cpus;
use super::process::Process;
use crate::Result;
use crate::generator::packets::{Packets, Terms};

/// A server has so long to begin; one that fills itself, too.
const PATIENCE: Duration = Duration::from_secs(60);
const REPLY_TIME_MAX: Duration = Duration::from_secs(5);

/// A program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program<'a> {
    Micanite(&'a Path),
    Memcached(&'a Path),
    Redis(&'a Path),
}

/// Transport of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
    /// Datagrams: of the native protocol, or of memcached's over UDP. TCP is there, too.
    Udp,
}

impl Transport {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "Unix socket",
            Self::Udp => "UDP",
        }
    }
}

/// A running server.
pub(crate) struct Server {
    /// With its version: `memcached 1.6.18`.
    pub name: String,
    /// For `micanite load`.
    pub url: String,
    /// It sends back what it gets.
    pub echoes: bool,
    streams: Option<Place>,
    udp: Option<SocketAddr>,
    process: Process,
}

/// Where a server takes streams.
#[derive(Debug)]
enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Either kind of connection.
pub(crate) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Place::Unix(path)) = &self.streams {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Server {
    /// Starts a server, and waits until it answers.
    pub fn start(
        program: Program<'_>,
        transport: Transport,
        flags: &[&str],
        cpus: impl Cpus,
    ) -> Result<Self> {
        let place = Place::free(transport)?;
        let udp = match transport {
            Transport::Udp => Some(free_udp()?),
            _ => None,
        };
        let (name, binary) = match program {
            Program::Micanite(binary) => ("micanite", binary),
            Program::Memcached(binary) => ("memcached", binary),
            Program::Redis(binary) => ("Redis", binary),
        };
        let mut command = vec![OsString::from(binary)];
        command.extend(arguments(program, &place, udp).map(OsString::from));
        command.extend(flags.iter().map(OsString::from));
        let mut process = Process::start(name, &command, cpus, false)?;
        let is_redis = matches!(program, Program::Redis(_));
        let ready = || place.connect().and_then(|stream| version(is_redis, stream));
        let version = process.wait_until(PATIENCE, ready)?;
        Ok(Self {
            name: format!("{name} {version}"),
            url: url(program, &place, udp),
            echoes: false,
            streams: Some(place),
            udp,
            process,
        })
    }

    /// With the native protocol.
    pub fn native(binary: &Path, flags: &[&str], cpus: impl Cpus) -> Result<Self> {
        Self::start(Program::Micanite(binary), Transport::Udp, flags, cpus)
    }

    /// The bare echo of datagrams.
    pub fn echo(offload: bool, cpu: usize) -> Result<Self> {
        let words: &[&str] = if offload { &["--offload"] } else { &[] };
        Self::own("bare echo", &[&["echo"], words].concat(), cpu)
    }

    /// Our port over a table with this word, which has so many items.
    pub fn table((word, name): (&str, &str), items: u64, cpu: usize) -> Result<Self> {
        let items = items.to_string();
        Self::own(name, &["table", "--table", word, "--items", &items], cpu)
    }

    /// Starts a program of the lab that takes datagrams, and waits until it answers.
    fn own(name: &str, words: &[&str], cpu: usize) -> Result<Self> {
        let udp = free_udp()?;
        let mut command = vec![OsString::from(std::env::current_exe()?)];
        command.extend(words.iter().map(OsString::from));
        command.extend(["--port".into(), OsString::from(udp.port().to_string())]);
        let mut process = Process::start(name, &command, cpu, false)?;
        let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        probe.set_read_timeout(Some(Duration::from_millis(50)))?;
        let mut requests = Packets::storing(0..1, Terms::default());
        process.wait_until(PATIENCE, || {
            let (_, request) = requests.take();
            probe.send_to(request, udp)?;
            Ok(probe.recv(&mut [0; 64])?)
        })?;
        Ok(Self {
            name: name.to_owned(),
            url: String::new(),
            echoes: words[0] == "echo",
            streams: None,
            udp: Some(udp),
            process,
        })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Where it takes datagrams.
    pub fn udp(&self) -> SocketAddr {
        self.udp.expect("it was started with datagrams")
    }

    /// Tells whether this is a whole server, with streams and a directory of the native protocol.
    pub fn is_whole(&self) -> bool {
        self.streams.is_some()
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Box<dyn Stream>> {
        self.streams.as_ref().ok_or("it takes no streams")?.connect()
    }

    /// Datagrams and bursts that Micanite's first worker has received so far.
    pub fn bursts(&self) -> Result<(u64, u64)> {
        if !self.is_whole() {
            return Ok((0, 0));
        }
        let mut stream = self.connect()?;
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
        match self.streams {
            Some(Place::Tcp(address)) => filler::fill(&self.name, address, items),
            _ => Ok(()),
        }
    }
}

impl Place {
    fn free(transport: Transport) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Ok(match transport {
            Transport::Tcp | Transport::Udp => {
                let any_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                Self::Tcp(any_port.local_addr()?)
            }
            Transport::Unix => {
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                let name = format!("micanite-lab-{}-{number}", std::process::id());
                Self::Unix(std::env::temp_dir().join(name))
            }
        })
    }

    fn connect(&self) -> Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(REPLY_TIME_MAX))?;
                Box::new(stream)
            }
        })
    }
}

fn free_udp() -> Result<SocketAddr> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The arguments that every server of a program gets.
fn arguments(program: Program<'_>, place: &Place, udp: Option<SocketAddr>) -> impl Iterator<Item = String> {
    let always = match program {
        Program::Micanite(_) => "serve -t 1 --control-socket none",
        Program::Memcached(_) => "-t 1 -u root",
        Program::Redis(_) => "--save  --appendonly no --daemonize no",
    };
    let udp_port = udp.map(|udp| udp.port()).unwrap_or_default();
    let datagrams = match program {
        Program::Micanite(_) if udp.is_some() => format!("--native {udp_port}"),
        Program::Memcached(_) => format!("-U {udp_port}"),
        _ => String::new(),
    };
    let streams = match (program, place) {
        (Program::Redis(_), Place::Tcp(address)) => {
            format!("--bind 127.0.0.1 --port {}", address.port())
        }
        (Program::Redis(_), Place::Unix(_)) => "--port 0 --unixsocket".to_owned(),
        (_, Place::Tcp(address)) => format!("-l 127.0.0.1 -p {}", address.port()),
        (_, Place::Unix(_)) => "-s".to_owned(),
    };
    let mut words: Vec<String> = always.split(' ').map(str::to_owned).collect();
    for more in [datagrams, streams] {
        words.extend(more.split_whitespace().map(str::to_owned));
    }
    if let Place::Unix(path) = place {
        words.push(path.to_string_lossy().into_owned());
    }
    words.into_iter()
}

fn url(program: Program<'_>, place: &Place, udp: Option<SocketAddr>) -> String {
    match (program, place, udp) {
        (Program::Micanite(_), _, Some(udp)) => format!("native://{udp}"),
        (_, _, Some(udp)) => format!("memcached+udp://{udp}"),
        (Program::Redis(_), Place::Tcp(address), _) => format!("redis://{address}"),
        (Program::Redis(_), Place::Unix(path), _) => format!("redis+unix://{}", path.display()),
        (_, Place::Tcp(address), _) => format!("memcached://{address}"),
        (_, Place::Unix(path), _) => format!("unix://{}", path.display()),
    }
}

fn version(is_redis: bool, mut stream: Box<dyn Stream>) -> Result<String> {
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
    version(false, Place::Tcp(address).connect()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_listen_on_the_loopback_alone_and_store_nothing_on_disk() {
        let tcp = Place::Tcp("127.0.0.1:7".parse().unwrap());
        let unix = Place::Unix("/tmp/x y".into());
        let binary = Path::new("x");
        let text = |program, place: &Place| {
            let words: Vec<_> = arguments(program, place, None).collect();
            words.join("|")
        };
        let redis = Program::Redis(binary);
        assert!(text(redis, &tcp).starts_with("--save||--appendonly|no"));
        assert!(text(redis, &tcp).ends_with("--bind|127.0.0.1|--port|7"));
        assert!(text(redis, &unix).ends_with("--port|0|--unixsocket|/tmp/x y"));
        for program in [Program::Micanite(binary), Program::Memcached(binary)] {
            assert!(text(program, &tcp).ends_with("-l|127.0.0.1|-p|7"));
            assert!(text(program, &unix).ends_with("-s|/tmp/x y"));
        }
        assert!(text(Program::Memcached(binary), &tcp).contains("-U|0"));
    }
}
