//! Values that do not fit a datagram: memcached's text protocol over TCP, one operation at a time.

use super::{Answer, Value, repeat};
use crate::error::Error;
use crate::operation::{Opcode, Operation, Outcome, TEXT_VALUE_BYTES_MAX, memcached_expiry};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::link::timed::Timed;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

/// Longest reply line.
const LINE_BYTES_MAX: u64 = 2048;

#[derive(Debug)]
struct Stream {
    server: SocketAddr,
    reader: BufReader<Timed<TcpStream>>,
    /// The connection is in the middle of a request, and cannot take another.
    is_over: bool,
    /// The time of a call has ended before its reply.
    is_overdue: bool,
}

/// The connection of a client to one server, if it needed one.
#[derive(Debug)]
pub(crate) struct ServerStream {
    /// Name of the server in errors without a TCP address of their own.
    name: String,
    stream: Option<Stream>,
    deadline: Duration,
    /// End of the last call in whose last deadline the server neither took nor sent anything, and its error.
    silent: Option<(Instant, Error)>,
    /// The last attempt to connect has failed: the server may have another port now.
    has_lost_port: Arc<AtomicBool>,
}

impl ServerStream {
    pub(crate) fn new(name: &str, deadline: Duration, has_lost_port: Arc<AtomicBool>) -> Self {
        Self { name: name.to_owned(), stream: None, deadline, silent: None, has_lost_port }
    }

    /// Executes an operation at the server, whose TCP port is at `address`. A read whose connection was lost
    /// is repeated once.
    ///
    /// `began` is the time since when it waits for its turn. If the server was silent in another call
    /// since, it is not asked again: many calls wait for one deadline, and not for one each. The call ends at
    /// `end`, by default a deadline after its turn has come.
    pub(crate) fn call(
        &mut self,
        (began, end): (Instant, Option<Instant>),
        address: SocketAddr,
        operation: &Operation<'_>,
    ) -> Result<Answer, Error> {
        if !is_text_key(operation.key) {
            return Err(Error::KeyNotText);
        }
        if operation.value.len() > TEXT_VALUE_BYTES_MAX {
            return Err(Error::TooLarge { limit_bytes: None });
        }
        if let Some((_, error)) = self.silent.as_ref().filter(|(at, _)| *at >= began) {
            return Err(match error {
                // It was not sent.
                Error::TimedOut { server } if !operation.only_reads() => {
                    Error::Unreachable { server: server.clone() }
                }
                error => error.clone(),
            });
        }
        let end = end.unwrap_or_else(|| Instant::now() + self.deadline);
        match self.attempt(address, operation, end) {
            Err(first @ (Error::Stream { .. } | Error::Io(_) | Error::OutcomeUnknown))
                if self.silent.is_none() && operation.may_repeat() && Instant::now() < end =>
            {
                repeat(operation, first, || self.attempt(address, operation, end))
            }
            result => result,
        }
    }

    fn attempt(
        &mut self,
        address: SocketAddr,
        operation: &Operation<'_>,
        end: Instant,
    ) -> Result<Answer, Error> {
        self.silent = None;
        let began = Instant::now();
        let mut stream = match self.stream.take() {
            Some(stream) if stream.server == address && stream.is_idle() => stream,
            _ => match Stream::connect(address, end) {
                Ok(stream) => stream,
                Err(error) => {
                    self.has_lost_port.store(true, Ordering::Release);
                    // A call whose time was almost over tells nothing of the server.
                    if end.saturating_duration_since(began) >= self.deadline / 4 {
                        self.silent = Some((Instant::now(), error.clone()));
                    }
                    return Err(error);
                }
            },
        };
        stream.reader.get_mut().end_at(end);
        let answer = stream.call(operation);
        // A slow server is asked for the others, too.
        let is_silent = stream.reader.get_ref().is_silent_for(self.deadline);
        if stream.is_overdue && is_silent && began.elapsed() >= self.deadline / 4 {
            self.silent = Some((Instant::now(), Error::TimedOut { server: self.name.clone() }));
        }
        let answer = answer.map_err(|error| match error {
            Error::TimedOut { .. } => Error::TimedOut { server: self.name.clone() },
            error => error,
        });
        match &answer {
            Err(Error::TimedOut { .. } | Error::Stream { .. } | Error::Io(_) | Error::OutcomeUnknown) => {}
            // Otherwise its remaining input has no request.
            _ if !stream.is_over => self.stream = Some(stream),
            _ => {}
        }
        answer
    }
}

/// Returns whether the text protocol can carry a key.
pub(crate) fn is_text_key(key: &[u8]) -> bool {
    !key.is_empty() && !key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
}

/// Returns whether a reply says that the server has not executed the request.
fn is_refusal(line: &str) -> bool {
    matches!(line.split(' ').next(), Some("ERROR" | "CLIENT_ERROR" | "SERVER_ERROR"))
}

/// Returns the error of a request that was sent as a whole, by the error of its reply.
fn unknown(error: Error) -> Error {
    if matches!(error, Error::TimedOut { .. }) { error } else { Error::OutcomeUnknown }
}

impl Stream {
    fn connect(server: SocketAddr, end: Instant) -> Result<Self, Error> {
        let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let failed = |error: std::io::Error| Error::Stream {
            server: server.to_string(),
            reason: format!("cannot connect: {error}"),
        };
        let stream = TcpStream::connect_timeout(&server, left).map_err(failed)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            server,
            reader: BufReader::new(Timed::new(stream, end)),
            is_over: false,
            is_overdue: false,
        })
    }

    /// Returns whether the server has neither closed the connection nor sent what nobody asked for.
    fn is_idle(&self) -> bool {
        let socket = self.reader.get_ref().get_ref().as_raw_fd();
        let peeked = recv(socket, &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        self.reader.buffer().is_empty() && peeked == Err(Errno::EAGAIN)
    }

    /// Executes an operation whose key the text protocol allows. After an error of the stream
    /// itself, the stream is unusable.
    fn call(&mut self, operation: &Operation<'_>) -> Result<Answer, Error> {
        let opcode = operation.opcode;
        let expiry = memcached_expiry(operation.expiry_s);
        let key = operation.key;
        let (flags, length) = (operation.flags, operation.value.len());
        let mut head = Vec::with_capacity(key.len() + 64);
        let word = match opcode {
            Opcode::Get => "gets",
            Opcode::GetAndTouch => "gats",
            Opcode::Set => "set",
            Opcode::Add => "add",
            Opcode::Replace => "replace",
            Opcode::Append => "append",
            Opcode::Prepend => "prepend",
            Opcode::Cas => "cas",
            _ => return Err(Error::Refused),
        };
        head.extend_from_slice(word.as_bytes());
        head.push(b' ');
        if opcode == Opcode::GetAndTouch {
            head.extend_from_slice(format!("{expiry} ").as_bytes());
        }
        head.extend_from_slice(key);
        if opcode.has_value() {
            head.extend_from_slice(format!(" {flags} {expiry} {length}").as_bytes());
        }
        if opcode == Opcode::Cas {
            head.extend_from_slice(format!(" {}", operation.argument).as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        if opcode.has_value() { self.store(&head, operation.value) } else { self.fetch(&head, operation) }
    }

    fn store(&mut self, head: &[u8], value: &[u8]) -> Result<Answer, Error> {
        let written = self.write(&[head, value, b"\r\n"]);
        // A reply to a part of a request leaves the connection in the middle of it.
        self.is_over = written.is_err();
        // A server that refuses the length may close the connection. Its reply takes precedence.
        let line = match (self.line(), written) {
            (Ok(line), _) => line,
            (Err(_), Err(error)) => return Err(error),
            (Err(error), Ok(())) => return Err(unknown(error)),
        };
        let outcome = match line.as_str() {
            "STORED" => Outcome::Ok,
            "NOT_STORED" => Outcome::NotStored,
            "EXISTS" => Outcome::Exists,
            "NOT_FOUND" => Outcome::NotFound,
            _ if line.contains("too large") => return Err(Error::TooLarge { limit_bytes: None }),
            _ if line.contains("out of memory") => return Err(Error::OutOfSpace),
            _ if is_refusal(&line) => return Err(self.failed(line)),
            _ => return Err(Error::OutcomeUnknown),
        };
        Ok(Answer { outcome, number: 0, value: Value::default(), resent: false })
    }

    fn fetch(&mut self, head: &[u8], operation: &Operation<'_>) -> Result<Answer, Error> {
        self.write(&[head])?;
        let line = self.line();
        let is_refused = line.as_ref().is_ok_and(|line| is_refusal(line));
        let fetched = line.and_then(|line| self.value(line, operation));
        // A touch may have happened.
        let is_known = is_refused || operation.only_reads();
        fetched.map_err(|error| if is_known { error } else { unknown(error) })
    }

    /// Reads the rest of a reply that begins with this line.
    fn value(&mut self, line: String, operation: &Operation<'_>) -> Result<Answer, Error> {
        if line == "END" {
            return Ok(Answer {
                outcome: Outcome::NotFound,
                number: 0,
                value: Value::default(),
                resent: false,
            });
        }
        let words: Vec<_> = line.split(' ').collect();
        let [head, _, flags, length, cas] = words[..] else {
            return Err(self.failed(line));
        };
        let numbers = (flags.parse(), length.parse::<u32>(), cas.parse());
        let ("VALUE", (Ok(flags), Ok(length), Ok(cas))) = (head, numbers) else {
            return Err(self.failed(line));
        };
        let mut bytes = Vec::new();
        // Allocates as bytes arrive instead of trusting the announced length.
        let announced = u64::from(length) + 2;
        let read = self.reader.by_ref().take(announced).read_to_end(&mut bytes);
        read.map_err(|error| self.lost(&error))?;
        if bytes.len() as u64 != announced || !bytes.ends_with(b"\r\n") {
            return Err(self.failed("the value has another length than announced".to_owned()));
        }
        bytes.truncate(length as usize);
        let end = self.line()?;
        if end != "END" {
            return Err(self.failed(end));
        }
        let cas = operation.wants_cas.then_some(cas);
        Ok(Answer { outcome: Outcome::Ok, number: 0, value: Value { bytes, flags, cas }, resent: false })
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        for part in parts {
            let written = self.reader.get_mut().write_all(part);
            // The server lacks a part of the request, and cannot have executed it: that is no `TimedOut`.
            written.map_err(|error| {
                self.is_overdue = error.kind() == io::ErrorKind::TimedOut;
                self.failed(error.to_string())
            })?;
        }
        Ok(())
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<String, Error> {
        let mut line = Vec::new();
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|error| self.lost(&error))?;
        self.is_overdue = false;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(self.failed("the server closed the connection".to_owned())),
        }
    }

    /// Returns the error of a lost reply. The server is named later where no reply came in time.
    fn lost(&mut self, error: &io::Error) -> Error {
        self.is_overdue = error.kind() == io::ErrorKind::TimedOut;
        match self.is_overdue {
            true => Error::TimedOut { server: String::new() },
            false => self.failed(error.to_string()),
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Stream { server: self.server.to_string(), reason }
    }
}

#[cfg(test)]
mod tests;
