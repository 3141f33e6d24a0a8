//! The connections to the servers of a list.

use std::time::Duration;

use super::connection::{Connection, Context, Health};
use super::counters::FabricCounters;
use super::options::FabricOptions;
use super::transport::Transport;
use super::url::FabricUrl;
use crate::driver::SubmitError;
use crate::error::Error;
use crate::ketama::Continuum;
use crate::link::TRY_SHARE;
use crate::operation::{Completion, Opcode, Operation};
use crate::options::{DEAD_FOR_NS_MIN, DEADLINE_NS_MAX, OnDead};
use crate::random::Random;
use micanite_wire::native::KEY_BYTES_MAX;

/// Idle time in which a waiting thread only yields.
const SPIN_NS: u64 = 200_000;
/// Sleep of a thread that has been idle for longer, and whose provider wakes nobody.
const NAP: Duration = Duration::from_micros(50);

/// The connections, and which of them has a key.
#[derive(Debug)]
pub(super) struct Pool<T: Transport> {
    connections: Vec<Connection<T>>,
    continuum: Continuum,
    context: Context,
    /// Time since when nothing has happened.
    idle_since: u64,
}

impl<T: Transport> Pool<T> {
    pub(super) fn new(urls: &[FabricUrl], options: &FabricOptions, seed: u64) -> Result<Self, Error> {
        if urls.is_empty() || urls.len() > usize::from(u16::MAX) {
            let reason = "a client has 1 to 65,535 servers".to_owned();
            return Err(Error::Address { name: String::new(), reason });
        }
        let mut options = options.clone();
        options.deadline_ns = options.deadline_ns.min(DEADLINE_NS_MAX);
        options.dead_for_ns = options.dead_for_ns.max(DEAD_FOR_NS_MIN);
        let mut random = Random::new(seed);
        let weights = urls.iter().map(|url| (url.name(), url.weight()));
        Ok(Self {
            continuum: Continuum::new(weights),
            connections: urls.iter().map(|url| Connection::new(url, &options, random.next())).collect(),
            context: Context { options, counters: FabricCounters::default() },
            idle_since: 0,
        })
    }

    /// Waits until each server has replied, or is dead.
    pub(super) fn introduce(&mut self) -> Result<(), Error> {
        while self.connections.iter().any(|connection| connection.health() == Health::Unknown) {
            self.poll(|_| {});
            self.wait(1_000_000);
        }
        match self.connections.iter().any(|connection| connection.health() == Health::Alive) {
            true => Ok(()),
            false => Err(self.connections[0].error()),
        }
    }

    /// Tries those dead servers of some keys again that are due, and waits for a session for a part of the
    /// deadline. An attempt that takes longer goes on with later polls.
    pub(super) fn try_again<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]> + Clone) {
        if self.connections.iter().all(|connection| connection.health() != Health::Dead) {
            return;
        }
        let patience_ns = self.context.options.deadline_ns / TRY_SHARE;
        let end_ns = T::now_ns() + patience_ns;
        loop {
            self.poll(|_| {});
            let now_ns = T::now_ns();
            let is_tried = |key: &[u8]| {
                let connection = self.connection(self.server_of(key));
                connection.is_tried_again(now_ns, patience_ns)
            };
            if now_ns >= end_ns || !keys.clone().any(is_tried) {
                return;
            }
            self.wait(end_ns - now_ns);
        }
    }

    pub(super) fn counters(&self) -> &FabricCounters {
        &self.context.counters
    }

    pub(super) fn servers(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn connection(&self, server: usize) -> &Connection<T> {
        &self.connections[server]
    }

    /// Returns the places of the servers among the keys, and the deadline of an operation.
    #[cfg(feature = "async")]
    pub(super) fn continuum(&self) -> (&Continuum, u64) {
        (&self.continuum, self.context.options.deadline_ns)
    }

    /// Returns the server of a key; the first one for no key, which is that of a no-op.
    pub(super) fn server_of(&self, key: &[u8]) -> usize {
        if key.is_empty() || self.connections.len() == 1 { 0 } else { self.continuum.find(key) }
    }

    #[inline]
    pub(super) fn submit(&mut self, operation: &Operation<'_>, token: u64) -> Result<(), SubmitError> {
        let key = operation.key;
        let is_noop = operation.opcode == Opcode::Noop;
        if key.is_empty() != is_noop || key.len() > KEY_BYTES_MAX {
            return Err(SubmitError::BadKey);
        }
        let server = self.server_or_substitute(self.server_of(key), key)?;
        let taken = self.connections[server].submit(&mut self.context, operation, token);
        match taken {
            Ok(()) => {
                self.idle_since = u64::MAX;
                self.context.counters.submitted += 1;
            }
            Err(SubmitError::Full) => self.context.counters.pushed_back += 1,
            Err(SubmitError::ServerDown { .. }) => return Err(SubmitError::ServerDown { server }),
            Err(_) => {}
        }
        taken
    }

    /// Returns the server that requests for a key of a server go to now.
    #[cfg(feature = "async")]
    pub(super) fn server_for(&self, own: usize, key: &[u8]) -> usize {
        self.server_or_substitute(own, key).unwrap_or(own)
    }

    /// Returns the server, or the one that stands in for it.
    fn server_or_substitute(&self, server: usize, key: &[u8]) -> Result<usize, SubmitError> {
        let is_up = |server: usize| self.connections[server].health() == Health::Alive;
        if is_up(server) {
            return Ok(server);
        }
        let stands_in = match self.context.options.on_dead {
            OnDead::FailFast => None,
            OnDead::MoveOn => self.continuum.find_where(key, is_up),
        };
        stands_in.ok_or(SubmitError::ServerDown { server })
    }

    /// Sends what may leave, and takes what has arrived; returns how many operations have ended.
    #[inline]
    pub(super) fn poll(&mut self, mut sink: impl FnMut(Completion<'_>)) -> usize {
        let before = self.context.counters.completed;
        for connection in &mut self.connections {
            connection.poll(&mut self.context, &mut sink);
        }
        let ended = (self.context.counters.completed - before) as usize;
        if ended > 0 {
            self.idle_since = u64::MAX;
        }
        ended
    }

    /// Waits until something may have arrived, or is due. A thread that has been busy lately only yields,
    /// because reads take microseconds. Then it sleeps on the providers' descriptors, or briefly if one of
    /// them has none.
    pub(super) fn wait(&mut self, at_most_ns: u64) {
        let now_ns = T::now_ns();
        if self.idle_since > now_ns {
            self.idle_since = now_ns;
        }
        if now_ns - self.idle_since < SPIN_NS {
            std::thread::yield_now();
            return;
        }
        let dues = self.connections.iter().map(|connection| connection.due_at(now_ns));
        let wait_ns = dues.min().unwrap_or(u64::MAX).saturating_sub(now_ns).min(at_most_ns);
        super::sleep::sleep(&mut self.connections, Duration::from_nanos(wait_ns), NAP);
    }
}
