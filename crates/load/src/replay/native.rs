//! Micanite's native protocol, by the client library: datagrams to the core that owns the key, sent
//! again when they get lost.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;
use std::time::Duration;

use micanite_client::{Batch, Completion, Error, Link, Opcode, Options, Outcome, SubmitError, UdpOptions};
use micanite_wire::native::{Header, PAYLOAD_BYTES_MAX, request_bytes};
use micanite_workload::trace::Operation;

use super::connection::{Connection, Reply, SILENCE_MAX, Server, silent};
use super::step::Command;
use crate::address::{Address, Endpoint};
use crate::target::{broken, introduce, open_link, server_version};

/// Datagrams beside those of the requests: for what has to be sent again.
const DATAGRAMS_MORE: usize = 64;

static ZEROS: [u8; PAYLOAD_BYTES_MAX] = [b'0'; PAYLOAD_BYTES_MAX];

/// Returns whether the value of a request, or the one that is stored after its miss, fits a datagram.
pub(super) fn fits(datagram_bytes: usize, operation: Operation, key_bytes: usize, value_bytes: u32) -> bool {
    let opcode = match opcode(operation) {
        Opcode::Get | Opcode::GetAndTouch => Opcode::Set,
        opcode => opcode,
    };
    Header::BYTES + request_bytes(opcode, key_bytes, value_bytes as usize) <= datagram_bytes
}

const fn opcode(operation: Operation) -> Opcode {
    match operation {
        Operation::Get | Operation::Gets => Opcode::Get,
        Operation::Set => Opcode::Set,
        Operation::Add => Opcode::Add,
        Operation::Replace => Opcode::Replace,
        Operation::Append => Opcode::Append,
        Operation::Prepend => Opcode::Prepend,
        Operation::Cas => Opcode::Cas,
        Operation::Delete => Opcode::Delete,
        Operation::Increment => Opcode::Increment,
        Operation::Decrement => Opcode::Decrement,
        Operation::Touch => Opcode::Touch,
        Operation::GetAndTouch => Opcode::GetAndTouch,
    }
}

/// Asks a server for its version and its longest datagram.
///
/// # Errors
/// When it does not answer; what to do then.
pub(super) fn meet(address: &Address, endpoint: &Endpoint) -> Result<Server, String> {
    let link = open(address, endpoint, Options::default())?;
    let directory = link.driver().directory(0);
    let (datagram_bytes, stream_port) =
        directory.map_or((0, 0), |directory| (directory.payload_bytes_max, directory.stream_port));
    // The server tells its version over TCP. Only the report needs it.
    let stream = SocketAddr::new(link.driver().address(0).ip(), stream_port);
    let ask = |address: Address| server_version(&address, &Endpoint::Inet(stream)).ok();
    let version = match stream_port {
        0 => None,
        _ => format!("memcached://{stream}").parse().ok().and_then(ask),
    };
    Ok(Server {
        version: version.flatten(),
        datagram_bytes: Some((datagram_bytes as usize).min(PAYLOAD_BYTES_MAX)),
    })
}

/// A client of the server whose directory it knows.
fn open(address: &Address, endpoint: &Endpoint, options: Options) -> Result<Link, String> {
    let (targets, endpoints) = (slice::from_ref(address), slice::from_ref(endpoint));
    let mut link = open_link(targets, endpoints, options, &UdpOptions::default(), None)?;
    introduce(targets, slice::from_mut(&mut link), Duration::ZERO, |_, version| {
        let server = address.to_string();
        match version {
            Some(version) => Error::Version { server, version }.to_string(),
            None => format!(
                "{server}: nobody answers there in the native protocol; {}, or replay to its \
                 memcached://HOST:PORT",
                address.how_to_start()
            ),
        }
    })?;
    Ok(link)
}

/// A client of one server.
pub(super) struct Native {
    link: Link,
    /// The link's socket.
    socket: OwnedFd,
    ended: VecDeque<(u32, Reply)>,
    /// True if something was submitted that the next flush sends.
    is_corked: bool,
    is_down: bool,
    refusal: Option<String>,
}

impl Native {
    /// Opens a client for so many requests at a time.
    ///
    /// # Errors
    /// When there is no socket to be had, or the server does not answer.
    pub fn open(
        address: &Address,
        endpoint: &Endpoint,
        pipeline: usize,
        datagram_bytes: usize,
    ) -> Result<Self, String> {
        let options = Options {
            deadline_ns: SILENCE_MAX.as_nanos() as u64,
            datagrams: pipeline + pipeline / 8 + DATAGRAMS_MORE,
            payload_bytes: datagram_bytes,
            batch: Batch::Full,
            ..Options::default()
        };
        let link = open(address, endpoint, options)?;
        let socket = link
            .descriptors()
            .next()
            .map_or_else(|| Err(io::ErrorKind::NotConnected.into()), |socket| socket.try_clone_to_owned());
        let socket = socket.map_err(|error: io::Error| format!("{address}: {error}"))?;
        Ok(Self { link, socket, ended: VecDeque::new(), is_corked: false, is_down: false, refusal: None })
    }

    fn refuse(&mut self, token: u32, why: &Error) {
        self.ended.push_back((token, Reply::Refused));
        self.refusal.get_or_insert_with(|| why.to_string());
    }

    fn poll(&mut self) -> Result<(), String> {
        let now_ns = self.link.now_ns();
        let polled = self.link.poll(now_ns, |completion| {
            self.is_down |= completion.outcome == Outcome::ServerDown;
            let reply = reply(&completion);
            if reply == Reply::Refused && self.refusal.is_none() {
                self.refusal = Some(why(completion.outcome).to_string());
            }
            self.ended.push_back((completion.token as u32, reply));
        });
        polled.map_err(|error| broken(&error))?;
        if self.is_down {
            return Err(silent(SILENCE_MAX));
        }
        Ok(())
    }
}

impl Connection for Native {
    fn send(&mut self, token: u32, command: &Command<'_>) -> bool {
        if !self.is_corked {
            self.link.cork();
            self.is_corked = true;
        }
        let Some(operation) = operation(command) else {
            self.refuse(token, &Error::TooLarge { limit_bytes: None });
            return true;
        };
        let now_ns = self.link.now_ns();
        match self.link.submit(now_ns, &operation, token.into()) {
            Ok(()) => {}
            Err(SubmitError::Full) => return false,
            Err(SubmitError::ServerDown { .. }) => self.is_down = true,
            Err(SubmitError::BadKey) => self.refuse(token, &Error::BadKey),
            Err(SubmitError::ExpiryTooFar) => self.refuse(token, &Error::ExpiryTooFar),
            // It did fit when the replay began.
            Err(SubmitError::TooLong) => self.refuse(token, &Error::TooLarge { limit_bytes: None }),
        }
        true
    }

    fn flush(&mut self) -> Result<bool, String> {
        if self.is_corked {
            self.link.flush();
            self.is_corked = false;
        } else if !self.link.is_sending_blocked() {
            return Ok(false);
        }
        self.poll()?;
        Ok(self.link.is_sending_blocked())
    }

    fn receive(&mut self) -> Result<bool, String> {
        self.poll().map(|()| false)
    }

    fn reply(&mut self) -> Result<Option<(u32, Reply)>, String> {
        Ok(self.ended.pop_front())
    }

    /// Time until something has to be done even if nothing arrives.
    fn due_in(&self) -> Option<Duration> {
        if !self.ended.is_empty() {
            return Some(Duration::ZERO);
        }
        let due_ns = self.link.driver().next_time()?;
        let left_ns = due_ns.saturating_sub(self.link.now_ns());
        Some(Duration::from_nanos(left_ns))
    }

    fn resent(&self) -> u64 {
        self.link.counters().resent
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

impl AsFd for Native {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Converts a command for the client library; none if no datagram is so long.
fn operation<'a>(command: &Command<'a>) -> Option<micanite_client::Operation<'a>> {
    let opcode = opcode(command.operation);
    let value_bytes = match opcode.has_value() {
        true => command.value_bytes as usize,
        false => 0,
    };
    Some(micanite_client::Operation {
        opcode,
        key: command.key,
        value: ZEROS.get(..value_bytes)?,
        flags: 0,
        expiry_s: command.expiry_s,
        argument: match opcode {
            Opcode::Cas => command.cas,
            _ => 1,
        },
        wants_cas: command.operation == Operation::Gets,
    })
}

fn reply(completion: &Completion<'_>) -> Reply {
    let reads = matches!(completion.opcode, Opcode::Get | Opcode::GetAndTouch);
    match completion.outcome {
        Outcome::Ok if reads => Reply::Found {
            value_bytes: Some(completion.value.len() as u64),
            cas: completion.cas.unwrap_or(0),
        },
        // It is there, and too long for a datagram.
        Outcome::UseStream if reads => Reply::Found { value_bytes: None, cas: 0 },
        Outcome::Ok => Reply::Done,
        Outcome::NotFound if reads => Reply::NotFound,
        Outcome::NotFound | Outcome::Exists | Outcome::NotStored => Reply::NotDone,
        Outcome::TimedOut | Outcome::Unknown | Outcome::ServerDown => Reply::Lost,
        _ => Reply::Refused,
    }
}

/// Explains a refusal.
fn why(outcome: Outcome) -> Error {
    match outcome {
        Outcome::OutOfSpace => Error::OutOfSpace,
        Outcome::NotANumber => Error::NotANumber,
        Outcome::TooLarge { limit_bytes } => Error::TooLarge { limit_bytes: Some(limit_bytes) },
        _ => Error::Refused,
    }
}
