//! Servers under test: started pinned, on TCP or a Unix socket, ended by their process id.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::server::peers;
use crate::{Result, launch};

/// A program and how it is asked to work.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Ours, with this `--io`.
    Micanite(&'static str),
    Memcached(PathBuf),
    Redis(PathBuf),
}

/// What connections go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Unix,
}

impl Transport {
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Unix];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Unix => "Unix socket",
        }
    }
}

/// What all are told alike.
pub(crate) struct Flags {
    pub connections_max: usize,
    pub memory_mib: usize,
}

/// A running server.
pub(crate) struct Server {
    /// Its program, as it says itself, and how it works.
    pub name: String,
    /// For `micanite load`.
    pub url: String,
    pub transport: Transport,
    place: Place,
    child: Child,
    log: PathBuf,
}

enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Either kind of connection.
pub(crate) trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

impl Drop for Server {
    fn drop(&mut self) {
        peers::end(&mut self.child);
        if let Place::Unix(path) = &self.place {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Server {
    /// Starts a server with one worker, and waits until it answers.
    pub fn start(
        kind: &Kind,
        micanite: &Path,
        transport: Transport,
        flags: &Flags,
        cpu: usize,
    ) -> Result<Self> {
        std::fs::create_dir_all("target/bench")?;
        let (program, scheme, name) = match kind {
            Kind::Micanite(io) => (micanite, "memcached", format!("micanite, {io}")),
            Kind::Memcached(program) => (program.as_path(), "memcached", "memcached".into()),
            Kind::Redis(program) => (program.as_path(), "redis", "Redis".into()),
        };
        let place = Place::free(transport)?;
        let mut command = vec![OsString::from(program)];
        command.extend(
            arguments(kind, &place, flags)
                .into_iter()
                .map(OsString::from),
        );
        let log = Path::new("target/bench").join(format!("streams-{scheme}.log"));
        let file = File::create(&log)?;
        let child = launch::command(cpu, &command)?
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()?;
        let url = match (&place, scheme) {
            (Place::Tcp(address), _) => format!("{scheme}://{address}"),
            (Place::Unix(path), "redis") => format!("redis+unix://{}", path.display()),
            (Place::Unix(path), _) => format!("unix://{}", path.display()),
        };
        let mut server = Self {
            name,
            url,
            transport,
            place,
            child,
            log,
        };
        server.wait_until_ready(kind)?;
        Ok(server)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Box<dyn Both>> {
        let patience = Some(Duration::from_secs(5));
        Ok(match &self.place {
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(patience)?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(patience)?;
                Box::new(stream)
            }
        })
    }

    /// Waits for the first answer, and takes the version from it.
    fn wait_until_ready(&mut self, kind: &Kind) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.log).unwrap_or_default();
                let (name, said) = (&self.name, said.trim_end());
                return Err(format!("{name} ended at its start ({status}): {said}").into());
            }
            match self.connect().and_then(|stream| version(kind, stream)) {
                Ok(version) => {
                    if !matches!(kind, Kind::Micanite(_)) {
                        self.name = format!("{} {version}", self.name);
                    }
                    return Ok(());
                }
                Err(error) if Instant::now() > end => {
                    return Err(format!("{} does not answer: {error}", self.name).into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Place {
    fn free(transport: Transport) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        Ok(match transport {
            Transport::Tcp => {
                let any_port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                Self::Tcp(any_port.local_addr()?)
            }
            Transport::Unix => {
                let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let name = format!("micanite-lab-{}-{number}", std::process::id());
                Self::Unix(std::env::temp_dir().join(name))
            }
        })
    }
}

fn arguments(kind: &Kind, place: &Place, flags: &Flags) -> Vec<String> {
    let (connections, memory) = (flags.connections_max, flags.memory_mib);
    let text = match kind {
        Kind::Micanite(io) => {
            format!(
                "serve -t 1 -m {memory} -c {connections} --item-size 48 --io {io} --control-socket none"
            )
        }
        // It keeps some connections for itself.
        Kind::Memcached(_) => format!("-t 1 -m {memory} -c {} -u root -U 0", connections + 64),
        Kind::Redis(_) => {
            format!("--save  --appendonly no --daemonize no --maxclients {connections}")
        }
    };
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    match (kind, place) {
        (Kind::Redis(_), Place::Tcp(address)) => {
            add(&["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        }
        (Kind::Redis(_), Place::Unix(path)) => {
            add(&["--port", "0", "--unixsocket", &path.to_string_lossy()]);
        }
        (_, Place::Tcp(address)) => {
            add(&["-l", "127.0.0.1", "-p", &address.port().to_string()]);
        }
        (_, Place::Unix(path)) => add(&["-s", &path.to_string_lossy()]),
    }
    words
}

fn version(kind: &Kind, mut stream: Box<dyn Both>) -> Result<String> {
    let (request, mark) = match kind {
        Kind::Redis(_) => ("INFO server\r\n", "redis_version:"),
        _ => ("version\r\n", "VERSION "),
    };
    stream.write_all(request.as_bytes())?;
    let lines = BufReader::new(stream).lines();
    for line in lines.take(10) {
        if let Some(version) = line?.strip_prefix(mark) {
            return Ok(version.to_owned());
        }
    }
    Err("no version in the reply".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_listens_elsewhere_or_stores_anything() {
        let flags = Flags {
            connections_max: 10,
            memory_mib: 64,
        };
        let tcp = Place::Tcp("127.0.0.1:7".parse().unwrap());
        let unix = Place::Unix("/tmp/x y".into());
        let redis = Kind::Redis("redis-server".into());
        let text = |kind: &Kind, place: &Place| arguments(kind, place, &flags).join("|");
        assert!(text(&redis, &tcp).starts_with("--save||--appendonly|no"));
        assert!(text(&redis, &tcp).ends_with("--bind|127.0.0.1|--port|7"));
        assert!(text(&redis, &unix).ends_with("--port|0|--unixsocket|/tmp/x y"));
        for kind in [Kind::Micanite("epoll"), Kind::Memcached("memcached".into())] {
            assert!(text(&kind, &tcp).ends_with("-l|127.0.0.1|-p|7"));
            assert!(text(&kind, &unix).ends_with("-s|/tmp/x y"));
        }
    }
}
