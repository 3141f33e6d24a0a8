//! Asking a server.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use micanite_control::{Format, Request};

use super::sample::Sample;
use super::text::harmless;
use super::{metrics, stats};
use crate::ctl::{ControlPlace, ask};

/// memcached's port.
const PORT_DEFAULT: u16 = 11211;
/// Time that a server may take to accept, and to reply.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest reply to `stats`.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A server, and the way to ask it.
pub(super) enum Source {
    /// The control socket of a Micanite on this machine.
    Control(ControlPlace),
    /// `stats` of any memcached.
    Memcached {
        place: Place,
        /// Kept, so that asking opens no connections that the server counts.
        stream: Option<Box<dyn Conversation>>,
    },
}

/// A place where a memcached listens.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// `HOST:PORT`.
    Host(String),
    /// A Unix socket.
    Path(PathBuf),
}

/// A stream to a server.
pub(super) trait Conversation: Read + Write + Send {}

impl Conversation for TcpStream {}
impl Conversation for UnixStream {}

impl Source {
    pub fn control(place: ControlPlace) -> Self {
        Self::Control(place)
    }

    /// `HOST`, `HOST:PORT` or `/PATH`.
    ///
    /// # Errors
    /// It is none of them.
    pub fn memcached(server: &str) -> Result<Self, String> {
        if server.contains('@') && !server.starts_with('/') {
            return Err("top has no login; write HOST:PORT, or the path of a Unix socket".to_owned());
        }
        if server.contains("://") {
            return Err(format!("{}: write HOST:PORT, or the path of a Unix socket", harmless(server)));
        }
        let has_port = server.rsplit_once(']').map_or(server, |(_, after)| after).contains(':');
        let place = match server {
            _ if server.starts_with('/') => Place::Path(server.into()),
            _ if has_port => Place::Host(server.to_owned()),
            _ => Place::Host(format!("{server}:{PORT_DEFAULT}")),
        };
        Ok(Self::Memcached { place, stream: None })
    }

    /// Names the server in the head.
    pub fn name(&self) -> String {
        let name = match self {
            Self::Control(ControlPlace { socket: Some(path), .. }) => path.display().to_string(),
            Self::Control(ControlPlace { port, .. }) => format!("port {port}"),
            Self::Memcached { place: Place::Host(host), .. } => host.clone(),
            Self::Memcached { place: Place::Path(path), .. } => path.display().to_string(),
        };
        harmless(&name)
    }

    /// Asks for the counters as they are now.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn sample(&mut self) -> Result<Sample, String> {
        match self {
            Self::Control(place) => {
                let metrics = ask(Request::Metrics, place)?;
                let at = Instant::now();
                let hot_keys = ask(Request::Hotkeys(Format::default()), place)?;
                Ok(metrics::sample(at, &metrics, &hot_keys))
            }
            Self::Memcached { place, stream } => {
                let open = match stream.take() {
                    Some(open) => open,
                    None => place.connect().map_err(|error| place.failed(&error))?,
                };
                let (open, text) = stats_of(open).map_err(|reason| place.failed(&reason))?;
                *stream = Some(open);
                Ok(stats::sample(Instant::now(), &text))
            }
        }
    }
}

impl Place {
    fn connect(&self) -> io::Result<Box<dyn Conversation>> {
        match self {
            Self::Path(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Ok(Box::new(stream))
            }
            Self::Host(host) => {
                let mut stream = Err(io::Error::other("the host has no address"));
                for address in host.to_socket_addrs()? {
                    stream = TcpStream::connect_timeout(&address, TIMEOUT);
                    if stream.is_ok() {
                        break;
                    }
                }
                let stream = stream?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                Ok(Box::new(stream))
            }
        }
    }

    fn failed(&self, reason: &dyn std::fmt::Display) -> String {
        let place = match self {
            Self::Host(host) => host.clone(),
            Self::Path(path) => path.display().to_string(),
        };
        format!("{}: {}", harmless(&place), harmless(&reason.to_string()))
    }
}

/// Asks for `stats`, and returns the stream with the reply.
fn stats_of(mut stream: Box<dyn Conversation>) -> Result<(Box<dyn Conversation>, String), String> {
    let no_reply = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no reply to stats".to_owned(),
        _ => error.to_string(),
    };
    stream.write_all(b"stats\r\n").map_err(no_reply)?;
    let mut reply = Vec::new();
    let mut buffer = [0; 4096];
    let began = Instant::now();
    while !reply.ends_with(b"END\r\n") {
        let received = stream.read(&mut buffer).map_err(no_reply)?;
        reply.extend_from_slice(&buffer[..received]);
        let is_stats = reply.starts_with(&b"STAT "[..reply.len().min(5)]) || reply.starts_with(b"END");
        if !is_stats && (received == 0 || reply.contains(&b'\n')) {
            return Err(refusal(&reply));
        }
        if received == 0 {
            return Err("the server has closed the connection".to_owned());
        }
        if reply.len() > REPLY_BYTES_MAX || began.elapsed() > 2 * TIMEOUT {
            return Err("the reply to stats does not end".to_owned());
        }
    }
    Ok((stream, String::from_utf8_lossy(&reply).into_owned()))
}

fn refusal(reply: &[u8]) -> String {
    if reply.starts_with(b"CLIENT_ERROR unauthenticated") {
        return "the server wants a password, and top has none; ask a Micanite on its own machine without an \
                address"
            .to_owned();
    }
    let line = String::from_utf8_lossy(&reply[..reply.len().min(80)]).into_owned();
    format!("this is no reply to stats: {}", line.trim_end())
}
