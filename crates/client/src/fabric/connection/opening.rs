//! Greeting and hello.

use std::fmt;

use arrayvec::ArrayVec;
use micanite_fabric::{Error, FabricAddress};
use micanite_wire::native::{Header, HeaderError, Hello, HelloReply, Kind, Status};

use super::session::Session;
use super::state::{Facts, State};
use super::{Trouble, token};
use crate::fabric::options::Reads;
use crate::fabric::transport::{Ended, Refused, Transport};

/// Bytes of the messages of this time.
const MESSAGE_BYTES: usize = 1024;
/// Wait before greeting and hello are repeated; it doubles each time. A server takes a hello for a stranger's
/// if it arrives together with the greeting before it, or if other greetings have pushed that out. A second
/// hello does not change the session.
const HELLO_AGAIN_NS: u64 = 20_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greet,
    Greeting,
    Hello,
    Waiting,
}

/// An endpoint without a session yet.
pub(super) struct Opening<T: Transport> {
    endpoint: T,
    step: Step,
    /// `None`: a transfer has it.
    buffer: Option<T::Buffer>,
    has_moved: bool,
    /// Time of the first hello.
    hello_at: u64,
    /// Time to say hello, once more if there is no reply.
    hello_due_at: u64,
    hellos: u32,
    deadline_at: u64,
}

/// Result of a step.
pub(super) enum Progress {
    Waits,
    /// Another worker is this client's.
    Moves(u16),
    Welcome(HelloReply),
    Failed(Trouble),
}

impl<T: Transport> fmt::Debug for Opening<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Opening({:?})", self.step)
    }
}

impl<T: Transport> Opening<T> {
    /// Opens an endpoint to the first worker.
    pub(super) fn new(address: FabricAddress, attempt_ns: u64) -> Result<Self, Trouble> {
        Self::open(address, attempt_ns, false)
    }

    /// Opens an endpoint to the client's worker.
    pub(super) fn moved(address: FabricAddress, attempt_ns: u64) -> Result<Self, Trouble> {
        Self::open(address, attempt_ns, true)
    }

    fn open(address: FabricAddress, attempt_ns: u64, has_moved: bool) -> Result<Self, Trouble> {
        let mut endpoint = T::open(&address).map_err(trouble)?;
        let reply = endpoint.buffer(MESSAGE_BYTES).map_err(trouble)?;
        endpoint.receive(reply, token::HELLO_REPLY).map_err(|refused| trouble(refused.error))?;
        let buffer = Some(endpoint.buffer(MESSAGE_BYTES).map_err(trouble)?);
        Ok(Self {
            endpoint,
            step: Step::Greet,
            buffer,
            has_moved,
            hello_at: 0,
            hello_due_at: 0,
            hellos: 0,
            deadline_at: T::now_ns().saturating_add(attempt_ns),
        })
    }

    /// Takes the next step.
    pub(super) fn poll(&mut self, state: &State, login: (&str, &str)) -> Progress {
        if T::now_ns() >= self.deadline_at {
            return Progress::Failed(Trouble::Silent);
        }
        let mut ended = ArrayVec::new();
        if self.endpoint.poll(&mut ended).is_err() {
            return Progress::Failed(Trouble::Silent);
        }
        for one in ended {
            let Ended { token, buffer, result } = one;
            match (token, result) {
                (_, Err(_)) => return Progress::Failed(Trouble::Silent),
                (token::HELLO_REPLY, Ok(bytes)) => return self.replied(&buffer[..bytes], state),
                (token::GREETING, Ok(_)) => {
                    self.buffer = Some(buffer);
                    self.step = Step::Hello;
                }
                (_, Ok(_)) => self.buffer = Some(buffer),
            }
        }
        self.post(state, login)
    }

    /// Posts the message that is due.
    fn post(&mut self, state: &State, (user, password): (&str, &str)) -> Progress {
        let Some(mut buffer) = self.buffer.take() else {
            return Progress::Waits;
        };
        let (posted, next) = match self.step {
            Step::Greet => (self.endpoint.greet(buffer, token::GREETING), Step::Greeting),
            Step::Waiting if T::now_ns() >= self.hello_due_at => {
                (self.endpoint.greet(buffer, token::GREETING), Step::Greeting)
            }
            Step::Hello if T::now_ns() >= self.hello_due_at => {
                let hello = Hello {
                    nonce: state.nonce,
                    message_bytes_max: u32::try_from(self.endpoint.message_bytes_max()).unwrap_or(u32::MAX),
                    user: user.as_bytes(),
                    password: password.as_bytes(),
                };
                let header = Header { kind: Kind::Hello, client: state.client, ..Header::REQUESTS };
                let Ok(bytes) = hello.write(&header, &mut buffer) else {
                    return Progress::Failed(Trouble::Unavailable("user or password is too long".to_owned()));
                };
                let now_ns = T::now_ns();
                if self.hellos == 0 {
                    // The reply, which has the server's second, may be the first one's.
                    self.hello_at = now_ns;
                }
                self.hello_due_at = now_ns + (HELLO_AGAIN_NS << self.hellos.min(8));
                self.hellos += 1;
                (self.endpoint.send(buffer, bytes, token::HELLO), Step::Waiting)
            }
            Step::Hello | Step::Greeting | Step::Waiting => {
                self.buffer = Some(buffer);
                return Progress::Waits;
            }
        };
        match posted {
            Ok(()) => self.step = next,
            Err(Refused { buffer, error: Error::Busy }) => {
                self.buffer = Some(buffer);
                self.hello_due_at = 0;
            }
            Err(_) => return Progress::Failed(Trouble::Silent),
        }
        Progress::Waits
    }

    /// Judges the reply to the hello.
    fn replied(&self, message: &[u8], state: &State) -> Progress {
        let header = match Header::read(message) {
            Ok(header) => header,
            Err(HeaderError::Refused { status: Status::Version, .. }) => {
                return Progress::Failed(Trouble::Version(message[2]));
            }
            Err(_) => return Progress::Failed(Trouble::Silent),
        };
        let reply = HelloReply::read(message);
        match (header.kind, header.status, reply) {
            (Kind::HelloReply, Status::Ok, Some(reply)) => {
                let worker = (state.nonce % u64::from(reply.workers)) as u16;
                match worker == reply.worker {
                    true => Progress::Welcome(reply),
                    // Another server may have the address by now. It gave no session.
                    false if self.has_moved => Progress::Failed(Trouble::Silent),
                    false => Progress::Moves(worker),
                }
            }
            (Kind::HelloReply, Status::Unproven, _) => Progress::Failed(Trouble::Unproven),
            (Kind::HelloReply, Status::SlowDown, _) => Progress::Failed(Trouble::Full),
            (Kind::HelloReply, Status::Version, _) => Progress::Failed(Trouble::Version(message[2])),
            _ => Progress::Failed(Trouble::Unavailable("the server refuses the hello as invalid".to_owned())),
        }
    }

    /// Begins the session of a welcomed client.
    pub(super) fn into_session(
        self,
        reply: &HelloReply,
        reads: Reads,
        state: &mut State,
    ) -> Result<Session<T>, Trouble> {
        let facts = Facts::new(reply, reads);
        Session::new(self.endpoint, reply, self.hello_at, (state, facts)).map_err(trouble)
    }
}

/// Classifies an error of an endpoint that is being opened.
fn trouble(error: Error) -> Trouble {
    match error {
        Error::Unavailable(reason) => Trouble::Unavailable(reason),
        _ => Trouble::Silent,
    }
}
