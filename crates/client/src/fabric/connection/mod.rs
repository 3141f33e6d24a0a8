//! A connection to one server, which is opened again when it breaks.
//!
//! | file | contents |
//! |---|---|
//! | `state.rs` | what outlives a session: entries, unanswered requests, ids |
//! | `opening.rs` | greeting and hello |
//! | `session.rs` | a session: its buffers, and the transfers that end |
//! | `messages.rs` | requests and replies |
//! | `reading.rs` | one-sided reads |
//! | `timers.rs` | deadlines, silence, history |

mod messages;
mod opening;
mod reading;
mod session;
mod state;
mod timers;

use std::os::fd::BorrowedFd;

use micanite_fabric::FabricAddress;
use micanite_wire::native::HelloReply;

use super::counters::FabricCounters;
use super::options::FabricOptions;
use super::transport::Transport;
use super::url::FabricUrl;
use crate::driver::SubmitError;
use crate::error::Error;
use crate::operation::{Completion, Operation, Outcome};
use opening::{Opening, Progress};
use session::Session;
use state::State;

const MS: u64 = 1_000_000;
/// Wait before the second attempt to connect; it doubles with each further one.
const RETRY_NS_FIRST: u64 = 10 * MS;
const RETRY_NS_MAX: u64 = 320 * MS;
/// Time that a byte of a message may take: 1 MB/s.
const BYTE_NS: u64 = 1_000;

/// Tokens of transfers. Those of reads have the slot's number in their low bits.
mod token {
    pub(super) const GREETING: u64 = 0;
    pub(super) const HELLO: u64 = 1;
    pub(super) const HELLO_REPLY: u64 = 2;
    pub(super) const REQUESTS: u64 = 3;
    pub(super) const REPLIES: u64 = 4;
    pub(super) const PUSH: u64 = 5;
    pub(super) const HISTORY: u64 = 6;
    pub(super) const GOODBYE: u64 = 7;
    pub(super) const CHUNK: u64 = 0x100;
    pub(super) const HEADER: u64 = 0x200;
    pub(super) const SLOT: u64 = 0xff;
}

/// Settings and counters of all connections of a client.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) options: FabricOptions,
    pub(super) counters: FabricCounters,
}

impl Context {
    /// Returns the time that a server has for the reply to a message, when so many bytes go either way. It
    /// grows with them, because slow links need it, up to the deadline.
    fn patience_ns(&self, bytes: usize) -> u64 {
        let FabricOptions { silent_ns, deadline_ns, .. } = self.options;
        let grown_ns = silent_ns.saturating_add((bytes as u64).saturating_mul(BYTE_NS));
        grown_ns.min(deadline_ns).max(silent_ns)
    }
}

/// The transfers of an endpoint have failed, or what they brought is no protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Broken;

impl From<micanite_fabric::Error> for Broken {
    fn from(_: micanite_fabric::Error) -> Self {
        Self
    }
}

/// State of a server, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// It has not replied yet.
    Unknown,
    /// It replied, or has been silent for less than the deadline.
    Alive,
    /// It is tried again later.
    Dead,
}

/// Reason why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    Silent,
    Unavailable(String),
    Unproven,
    Full,
    Version(u8),
}

impl Trouble {
    /// Returns whether another attempt soon will end alike. A full server makes room for it if it can.
    fn is_final(&self) -> bool {
        !matches!(self, Self::Silent | Self::Full)
    }
}

#[derive(Debug)]
enum Stage<T: Transport> {
    Down { retry_at: u64 },
    Opening(Box<Opening<T>>),
    Ready(Box<Session<T>>),
}

/// A connection to one server.
#[derive(Debug)]
pub(super) struct Connection<T: Transport> {
    url: FabricUrl,
    login: (String, String),
    stage: Stage<T>,
    health: Health,
    trouble: Trouble,
    /// Time since when there is no session.
    down_since: Option<u64>,
    attempts: u32,
    /// Time at which the last of them began.
    tried_at: u64,
    sessions: u64,
    state: State,
}

impl<T: Transport> Connection<T> {
    pub(super) fn new(url: &FabricUrl, options: &FabricOptions, seed: u64) -> Self {
        let login = url.login().cloned();
        Self {
            url: url.clone(),
            login: login.unwrap_or_else(|| (options.user.clone(), options.password.clone())),
            stage: Stage::Down { retry_at: 0 },
            health: Health::Unknown,
            trouble: Trouble::Silent,
            down_since: None,
            attempts: 0,
            tried_at: 0,
            sessions: 0,
            state: State::new(options, seed),
        }
    }

    pub(super) fn health(&self) -> Health {
        self.health
    }

    /// Returns whether the next attempt to reach the dead server is due, or began less than `patience_ns`
    /// ago.
    pub(super) fn is_tried_again(&self, now_ns: u64, patience_ns: u64) -> bool {
        let is_tried = match &self.stage {
            Stage::Down { retry_at } => now_ns >= *retry_at,
            Stage::Opening(_) => now_ns < self.tried_at.saturating_add(patience_ns),
            Stage::Ready(_) => false,
        };
        is_tried && self.health == Health::Dead
    }

    pub(super) fn entries(&self) -> usize {
        self.state.entries.len()
    }

    /// Returns the limit of values, once it is known.
    pub(super) fn value_bytes_max(&self) -> Option<u32> {
        self.state.facts.as_ref().map(|facts| facts.value_bytes_max)
    }

    /// Returns the server's URL, without the login.
    pub(super) fn name(&self) -> String {
        self.url.to_string()
    }

    /// Returns the error of a server that is dead.
    pub(super) fn error(&self) -> Error {
        let server = self.url.to_string();
        match &self.trouble {
            Trouble::Silent => Error::Unreachable { server },
            Trouble::Unavailable(reason) => Error::Fabric { server, reason: reason.clone() },
            Trouble::Unproven => Error::Login { server },
            Trouble::Full => Error::ServerFull { server },
            Trouble::Version(version) => Error::Version { server, version: *version },
        }
    }

    /// Accepts an operation.
    #[inline]
    pub(super) fn submit(
        &mut self,
        context: &mut Context,
        operation: &Operation<'_>,
        token: u64,
    ) -> Result<(), SubmitError> {
        match &mut self.stage {
            Stage::Ready(session) => session.submit(&mut self.state, context, operation, token),
            _ => self.state.submit_waiting(operation, token, T::now_ns(), context),
        }
    }

    /// Sends what may leave, and takes what has arrived.
    #[inline]
    pub(super) fn poll(&mut self, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
        match &mut self.stage {
            Stage::Ready(session) => {
                if session.poll(&mut self.state, context, sink).is_err() {
                    self.reset(context, sink);
                }
            }
            _ => self.open(context, sink),
        }
        if !self.state.waiting.is_empty() {
            self.state.expire(T::now_ns(), context, sink);
        }
    }

    /// Takes the next step towards a session.
    fn open(&mut self, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
        let now_ns = T::now_ns();
        let opening = match &mut self.stage {
            Stage::Opening(opening) => opening,
            Stage::Down { retry_at } if now_ns >= *retry_at => {
                self.tried_at = now_ns;
                let attempt_ns = self.attempt_ns(context);
                let opened = Opening::new(self.url.address().clone(), attempt_ns);
                // Loading libfabric takes long, and is not the server's silence.
                self.down_since.get_or_insert_with(T::now_ns);
                match opened {
                    Ok(opening) => self.stage = Stage::Opening(Box::new(opening)),
                    Err(trouble) => self.fail(trouble, context, sink),
                }
                return;
            }
            _ => return,
        };
        let (user, password) = &self.login;
        match opening.poll(&self.state, (user, password)) {
            Progress::Waits => {}
            Progress::Moves(worker) => {
                let address = worker_address(self.url.address(), worker);
                match Opening::moved(address, self.attempt_ns(context)) {
                    Ok(opening) => self.stage = Stage::Opening(Box::new(opening)),
                    Err(trouble) => self.fail(trouble, context, sink),
                }
            }
            Progress::Welcome(reply) => self.begin(&reply, context, sink),
            Progress::Failed(trouble) => self.fail(trouble, context, sink),
        }
    }

    /// Returns the time that an attempt to connect may take: twice as long as the last. One whose messages
    /// got lost delays little.
    fn attempt_ns(&self, context: &Context) -> u64 {
        context.options.deadline_ns >> 3_u32.saturating_sub(self.attempts)
    }

    /// Begins a session.
    fn begin(&mut self, reply: &HelloReply, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
        let stage = std::mem::replace(&mut self.stage, Stage::Down { retry_at: 0 });
        let Stage::Opening(opening) = stage else {
            return;
        };
        match opening.into_session(reply, context.options.reads, &mut self.state) {
            Ok(session) => self.stage = Stage::Ready(Box::new(session)),
            Err(trouble) => return self.fail(trouble, context, sink),
        }
        (self.health, self.down_since, self.attempts) = (Health::Alive, None, 0);
        context.counters.reconnects += u64::from(self.sessions > 0);
        self.sessions += 1;
    }

    /// Ends the session, and keeps its requests for the next one.
    fn reset(&mut self, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
        let now_ns = T::now_ns();
        if let Stage::Ready(session) = &mut self.stage {
            session.end(&mut self.state, context, sink);
        }
        self.stage = Stage::Down { retry_at: now_ns };
        self.down_since = Some(now_ns);
        self.trouble = Trouble::Silent;
    }

    /// Ends an attempt to connect. Unless there is hope, the server is dead now.
    fn fail(&mut self, trouble: Trouble, context: &mut Context, sink: &mut impl FnMut(Completion<'_>)) {
        let now_ns = T::now_ns();
        let down_ns = now_ns.saturating_sub(self.down_since.unwrap_or(now_ns));
        let is_dead = self.health == Health::Dead;
        let dies = trouble.is_final() || down_ns >= context.options.deadline_ns;
        let wait_ns = match is_dead || dies {
            true => context.options.dead_for_ns,
            false => (RETRY_NS_FIRST << self.attempts.min(16)).min(RETRY_NS_MAX),
        };
        self.attempts += 1;
        self.stage = Stage::Down { retry_at: now_ns.saturating_add(wait_ns) };
        self.trouble = trouble;
        if dies && !is_dead {
            self.health = Health::Dead;
            context.counters.servers_lost += 1;
            self.state.end_waiting(Outcome::ServerDown, context, sink);
        }
    }

    /// Returns the time at which something is due.
    pub(super) fn due_at(&self, now_ns: u64) -> u64 {
        match &self.stage {
            Stage::Ready(session) => session.due_at(&self.state, now_ns),
            Stage::Opening(_) => now_ns + MS,
            Stage::Down { retry_at } => *retry_at,
        }
    }

    /// Returns the descriptor that tells of completions, if a thread may sleep on it now.
    pub(super) fn sleeper(&mut self) -> Option<BorrowedFd<'_>> {
        match &mut self.stage {
            Stage::Ready(session) => session.sleeper(),
            _ => None,
        }
    }

    /// Returns whether there is an endpoint whose transfers may end at any time.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Down { .. })
    }
}

impl<T: Transport> Drop for Connection<T> {
    fn drop(&mut self) {
        if let Stage::Ready(session) = &mut self.stage {
            session.say_goodbye(&self.state);
        }
    }
}

/// Returns the address of a worker's endpoint.
fn worker_address(first: &FabricAddress, worker: u16) -> FabricAddress {
    let mut address = first.clone();
    match &mut address.port {
        Some(port) => *port = port.wrapping_add(worker),
        None if worker > 0 => address.host = format!("{}-{worker}", address.host),
        None => {}
    }
    address
}
