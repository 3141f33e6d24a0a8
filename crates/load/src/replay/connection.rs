//! Connections of every protocol.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::address::{Address, Endpoint, Protocol};
use crate::target::{open as connect, server_version};

use super::native::{self, Native};
use super::step::Command;
use super::stream::Stream;

/// A server that is silent for so long is given up.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What is known of a server before anything is sent.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// What it says of itself.
    pub version: Option<String>,
    /// The longest datagram that it takes, if it is sent such.
    pub datagram_bytes: Option<usize>,
}

impl Server {
    /// Asks it.
    ///
    /// # Errors
    /// When nobody is there; what to do then.
    pub fn meet(address: &Address, endpoint: &Endpoint) -> Result<Self, String> {
        match address.protocol() {
            Protocol::Native => native::meet(address, endpoint),
            _ => Ok(Self {
                version: server_version(address, endpoint)?,
                datagram_bytes: None,
            }),
        }
    }
}

/// What a server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A read found a value; its length if it was told.
    Found { value_bytes: Option<u64>, cas: u64 },
    /// A read found nothing.
    NotFound,
    /// It was carried out.
    Done,
    /// It was not, for a condition was not met.
    NotDone,
    /// An error.
    Refused,
    /// Nothing.
    Lost,
}

/// A connection; tokens say which request a reply belongs to. Nothing here blocks.
pub(super) enum Connection {
    /// memcached's text protocol over TCP or a Unix socket.
    Stream(Stream),
    /// Micanite's native protocol.
    Native(Box<Native>),
}

impl Connection {
    /// Connects, for so many requests at a time.
    ///
    /// # Errors
    /// What went wrong, and what to do.
    pub fn open(
        address: &Address,
        endpoint: &Endpoint,
        server: &Server,
        pipeline: usize,
    ) -> Result<Self, String> {
        Ok(match server.datagram_bytes {
            None => Self::Stream(Stream::new(connect(address, endpoint)?)),
            Some(bytes) => {
                Self::Native(Box::new(Native::open(address, endpoint, pipeline, bytes)?))
            }
        })
    }

    /// Whether it takes another request.
    pub fn has_room(&self) -> bool {
        match self {
            Self::Stream(stream) => stream.has_room(),
            Self::Native(native) => native.has_room(),
        }
    }

    /// Hands a request over; its reply will have `token`.
    pub fn send(&mut self, token: u32, command: &Command<'_>) {
        match self {
            Self::Stream(stream) => stream.send(token, command),
            Self::Native(native) => native.send(token, command),
        }
    }

    /// Sends what was handed over; returns whether something is left that waits for room.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub fn flush(&mut self) -> Result<bool, String> {
        match self {
            Self::Stream(stream) => stream.flush(),
            Self::Native(native) => native.flush(),
        }
    }

    /// Receives once; returns whether there may be more.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub fn receive(&mut self) -> Result<bool, String> {
        match self {
            Self::Stream(stream) => stream.receive(),
            Self::Native(native) => native.receive(),
        }
    }

    /// The next reply of what was received.
    ///
    /// # Errors
    /// When it is no reply.
    pub fn reply(&mut self) -> Result<Option<(u32, Reply)>, String> {
        match self {
            Self::Stream(stream) => stream.reply(),
            Self::Native(native) => Ok(native.reply()),
        }
    }

    /// How long until it has to be received from, even if nothing arrives.
    pub fn due_in(&self) -> Option<Duration> {
        match self {
            Self::Stream(_) => None,
            Self::Native(native) => native.due_in(),
        }
    }

    /// Datagrams that were sent again.
    pub fn resent(&self) -> u64 {
        match self {
            Self::Stream(_) => 0,
            Self::Native(native) => native.resent(),
        }
    }

    /// The text of the first error that the server answered with.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Stream(stream) => stream.refusal(),
            Self::Native(native) => native.refusal(),
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.as_fd(),
            Self::Native(native) => native.as_fd(),
        }
    }
}

/// Why a connection is of no use any more.
pub(super) fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}

/// A server has been silent for so long.
pub(super) fn silent(patience: Duration) -> String {
    format!("the server did not reply for {} s", patience.as_secs())
}

pub(super) const CLOSED: &str = "the server has closed the connection";
