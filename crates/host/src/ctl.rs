//! `micanite ctl`: sends a request to a server of this machine and prints its answer.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use micanite_control::{RecordOptions, Request, answer, paths, stderr};

use crate::doctor::{DoctorOptions, doctor};
use crate::nic::{NicOptions, nic};

/// memcached's port.
const PORT_DEFAULT: u16 = 11211;
/// The server refuses the request, or there is none.
const EXIT_REFUSED: u8 = 1;
/// The longest time for an answer, except for snapshots and restarts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// That of `ping`, which the server itself answers within two seconds.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of `ctl`.
#[derive(Args, Clone, Debug)]
pub struct ControlOptions {
    /// The server's TCP port [default: 11211]
    #[arg(short = 'p', long, value_name = "N", global = true, conflicts_with = "socket")]
    pub port: Option<u16>,
    /// Control socket of the server; of a server without a port, its Unix socket with .ctl behind [default:
    /// MICANITE_CONTROL_SOCKET, unless there is a port]
    #[arg(long, value_name = "PATH", global = true)]
    pub socket: Option<PathBuf>,
    /// The task.
    #[command(subcommand)]
    pub errand: Errand,
}

/// A task of `ctl`.
#[derive(Clone, Debug, Subcommand)]
pub enum Errand {
    /// Ask a server.
    #[command(flatten)]
    Ask(Request),
    /// Print, or set, what makes network interfaces deliver each worker's port to its CPU
    Nic(NicOptions),
    /// Say what this machine allows for ports around the kernel's network stack (--bypass), what is
    /// missing, and the commands that give it; needs no server and no root
    Doctor(DoctorOptions),
}

/// Does the task. Returns 0: done; 1: refused; 64: usage.
pub fn control(options: ControlOptions) -> ExitCode {
    let place = ControlPlace::new(options.port, options.socket);
    let request = match options.errand {
        Errand::Ask(request) => request,
        Errand::Doctor(doctor_options) => {
            return doctor(&doctor_options, |request| ask(request, &place));
        }
        Errand::Nic(nic_options) => {
            return nic(&nic_options, |request| ask(request, &place));
        }
    };
    match ask(request, &place) {
        Ok(text) => {
            // A reader that closes the output does not want the text.
            let _ = io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(reason) => {
            stderr::say(format_args!("micanite: {reason}"));
            ExitCode::from(EXIT_REFUSED)
        }
    }
}

/// The server that is asked: by its TCP port, or by its control socket.
#[derive(Clone, Debug)]
pub(crate) struct ControlPlace {
    pub port: u16,
    pub socket: Option<PathBuf>,
}

impl ControlPlace {
    /// Takes the socket from the environment where neither port nor socket is given.
    pub fn new(port: Option<u16>, socket: Option<PathBuf>) -> Self {
        let of_environment = || if port.is_none() { socket_of_environment() } else { None };
        Self { port: port.unwrap_or(PORT_DEFAULT), socket: socket.or_else(of_environment) }
    }
}

impl ControlPlace {
    /// Says that nothing came.
    fn silent(&self, timeout: Duration) -> String {
        let within = format!("the server does not answer within {} s", timeout.as_secs());
        match &self.socket {
            Some(path) => {
                format!("{within}: it is stopped or overloaded, or {} is no control socket", path.display())
            }
            None => format!("{within}: it is stopped or overloaded"),
        }
    }

    /// Says that somebody else answers.
    fn is_other(&self) -> String {
        let place = self.socket.as_deref().map_or_else(|| "this".into(), Path::to_string_lossy);
        format!(
            "{place} is no control socket: the answer is not one of ctl. A server prints the path of its \
             control socket at start; it is FILE.ctl beside -s FILE"
        )
    }
}

/// Reads the path of the socket from the environment, as the server does.
fn socket_of_environment() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("MICANITE_CONTROL_SOCKET")?);
    path.is_absolute().then_some(path)
}

/// Sends a request, and returns the text of the answer.
///
/// # Errors
/// Nobody answers, or the server refuses; the reason.
pub(crate) fn ask(mut request: Request, place: &ControlPlace) -> Result<String, String> {
    if let Request::Snapshot { path } | Request::Record(RecordOptions { file: Some(path), .. }) = &mut request
    {
        // The server has another working directory.
        *path = std::path::absolute(&*path).map_err(|error| error.to_string())?;
    }
    let line = format!("{request}\n");
    if line.matches(['\n', '\r']).count() > 1 {
        return Err("line ends cannot be sent".into());
    }
    let mut stream = match &place.socket {
        Some(path) => connect(path).map_err(|error| not_there(path, &error))?,
        None => connect_to_port(place.port)?,
    };
    let timeout = match request {
        Request::Snapshot { .. } | Request::Restart { .. } => None,
        Request::Ping => Some(PING_TIMEOUT),
        _ => Some(ANSWER_TIMEOUT),
    };
    stream.write_all(line.as_bytes()).map_err(|error| lost(&error))?;
    answer::parse(&receive(&mut stream, timeout, place)?)
}

/// Receives until the server closes: as long as that is an answer, and no longer than `timeout`.
fn receive(
    stream: &mut UnixStream,
    timeout: Option<Duration>,
    place: &ControlPlace,
) -> Result<String, String> {
    let began = Instant::now();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(timeout) = timeout {
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(place.silent(timeout));
            }
            stream.set_read_timeout(Some(left)).map_err(|error| lost(&error))?;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => answer.extend_from_slice(&buffer[..bytes]),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {}
                _ => return Err(lost(&error)),
            },
        }
        if !answer::is_begun(&answer) {
            return Err(place.is_other());
        }
    }
    String::from_utf8(answer).map_err(|_| place.is_other())
}

fn lost(error: &io::Error) -> String {
    format!("the server does not answer: {error}")
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path)
}

/// Tries every path that the socket may have. Directories of other users do not count.
fn connect_to_port(port: u16) -> Result<UnixStream, String> {
    let mut reasons = Vec::new();
    for path in paths::of_port(port) {
        match paths::check_directory(&path).and_then(|()| connect(&path)) {
            Ok(stream) => return Ok(stream),
            Err(error) => reasons.push(not_there(&path, &error)),
        }
    }
    Err(format!(
        "no server with a control socket on port {port} that belongs to this user:\n  {}",
        reasons.join("\n  ")
    ))
}

fn not_there(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
