//! Connections of every protocol: requests and replies of a trace, over the load generator's targets.

use std::os::fd::AsFd;
use std::time::Duration;

use super::memcached::Memcached;
use super::native::{self, Native};
use super::step::Command;
use crate::address::{Address, Endpoint, Protocol};
use crate::target;

/// A server that is silent for so long is given up.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Facts about a server, asked before anything is sent.
#[derive(Clone, Debug)]
pub(super) struct Server {
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
            _ => Ok(Self { version: target::server_version(address, endpoint)?, datagram_bytes: None }),
        }
    }
}

/// A server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A read found a value; its length if it was told.
    Found {
        value_bytes: Option<u64>,
        cas: u64,
    },
    /// A read found nothing.
    NotFound,
    /// The server did it.
    Done,
    /// A condition was not met.
    NotDone,
    Refused,
    /// No reply came.
    Lost,
}

/// A connection; tokens say which request a reply belongs to. Nothing here blocks.
pub(super) trait Connection: AsFd + Send {
    /// Returns whether it takes another request.
    fn has_room(&self) -> bool {
        true
    }

    /// Hands a request over, whose reply will have `token`; returns whether it was taken.
    fn send(&mut self, token: u32, command: &Command<'_>) -> bool;

    /// Sends what was handed over; returns whether something is left that waits for room.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    fn flush(&mut self) -> Result<bool, String>;

    /// Receives once; returns whether there may be more.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    fn receive(&mut self) -> Result<bool, String>;

    /// Returns the next reply of what was received.
    ///
    /// # Errors
    /// When it is no reply.
    fn reply(&mut self) -> Result<Option<(u32, Reply)>, String>;

    /// Time until it has to be received from, even if nothing arrives.
    fn due_in(&self) -> Option<Duration> {
        None
    }

    /// Datagrams that were sent again.
    fn resent(&self) -> u64 {
        0
    }

    /// The text of the first error that the server answered with.
    fn refusal(&self) -> Option<&str>;
}

/// Connects, for so many requests at a time.
///
/// # Errors
/// Says what went wrong, and what to do.
pub(super) fn open(
    address: &Address,
    endpoint: &Endpoint,
    server: &Server,
    pipeline: usize,
) -> Result<Box<dyn Connection>, String> {
    Ok(match server.datagram_bytes {
        None => Box::new(Memcached::new(target::open(address, endpoint)?)),
        Some(bytes) => Box::new(Native::open(address, endpoint, pipeline, bytes)?),
    })
}

/// Says that a server has been silent for so long.
pub(super) fn silent(patience: Duration) -> String {
    format!("the server did not reply for {} s", patience.as_secs())
}
