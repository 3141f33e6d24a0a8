//! Connections: requests in, answers out. The loops know nothing else of a protocol.
//!
//! A new target implements [`Connection`] and gets an arm in `crate::run::threads`.

mod buffered;
mod client;
mod in_flight;
mod link;
mod memcached;
mod native;
mod open;
mod redis;
mod reply;
mod slots;
mod split;
mod stream;
mod udp;

use std::io;

use nix::sys::epoll::Epoll;

use crate::run::clock::Clock;
use crate::run::recorder::Recorder;

pub(crate) use buffered::BufferedSocket;
pub(crate) use client::{ClientConnection, open_fabric, open_local};
pub(crate) use link::{introduce, open_link};
pub(crate) use memcached::{Memcached, is_error};
pub(crate) use native::{NativeLink, introduce_native, open_native};
pub(crate) use open::open_stream;
pub(crate) use open::{Socket, open, server_version};
pub(crate) use redis::Redis;
pub(crate) use reply::{Checks, escaped, push_decimal};
pub(crate) use split::SplitConnection;
pub(crate) use stream::StreamConnection;
pub(crate) use udp::UdpConnection;

/// Times at which a request was due and is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub scheduled_ns: u64,
    pub now_ns: u64,
}

/// Explains why a connection is of no use any more.
pub(crate) fn broken(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}

const CLOSED: &str = "the server has closed the connection";

/// One connection to a server, or one socket of datagrams. Nothing here blocks.
pub(crate) trait Connection {
    /// True if it has to be asked in every round, even if nothing arrives: it sends or resends by
    /// itself then.
    const RESTLESS: bool = false;
    /// True if its descriptors tell when replies have come: a thread may sleep while it waits for them.
    const HAS_DESCRIPTORS: bool = true;

    /// Returns how many requests can be handed over now.
    fn room(&self) -> usize;

    /// Requests that are neither answered nor given up.
    fn in_flight(&self) -> usize;

    /// Hands over a request for these items; there must be room.
    fn read(&mut self, items: &[u64], stamp: Stamp);

    /// Hands over a request that stores a value; there must be room.
    fn write(&mut self, item: u64, version: u32, stamp: Stamp);

    /// Hands over a request that removes an item; there must be room.
    fn delete(&mut self, item: u64, stamp: Stamp);

    /// Sends what was handed over, as far as the kernel takes it; the rest at the next call.
    ///
    /// # Errors
    /// When the connection is of no use any more: a sentence that says why.
    fn flush(&mut self) -> Result<(), String>;

    /// Takes what has arrived; returns how many requests have ended, or nothing if
    /// nothing has come.
    ///
    /// # Errors
    /// When the connection is of no use any more: a sentence that says why.
    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String>;

    /// Gives up what has been sent too long ago, where that can happen; returns how many requests.
    fn expire(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize;

    /// Gives up everything.
    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder);

    /// Adds its descriptors to `epoll`.
    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()>;
}
