//! Values that do not fit a datagram: memcached's text protocol over TCP, one operation at a time.

use super::{Answer, Value};
use crate::error::Error;
use crate::operation::{Opcode, Operation, Outcome, memcached_expiry};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
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
}

/// Connections of a client, one for each server that needed one.
#[derive(Debug)]
pub(crate) struct Streams {
    streams: Vec<Option<Stream>>,
    deadline: Duration,
}

impl Streams {
    pub(crate) fn new(servers: usize, deadline: Duration) -> Self {
        Self { streams: (0..servers).map(|_| None).collect(), deadline }
    }

    /// Executes an operation at a server, whose TCP port is at `address`. A read whose connection was lost is
    /// repeated once.
    pub(crate) fn call(
        &mut self,
        server: usize,
        address: SocketAddr,
        operation: &Operation<'_>,
    ) -> Result<Answer, Error> {
        if !is_text_key(operation.key) {
            return Err(Error::KeyNotText);
        }
        let end = Instant::now() + self.deadline;
        let place = &mut self.streams[server];
        let mut answer = Err(Error::Refused);
        for attempt in 0..2 {
            let mut stream = match place.take() {
                Some(stream) if stream.server == address && stream.is_idle() => stream,
                _ => Stream::connect(address, end)?,
            };
            stream.reader.get_mut().end_at(end);
            answer = stream.call(operation);
            let is_lost = matches!(
                answer,
                Err(Error::Stream { .. } | Error::Io(_) | Error::OutcomeUnknown | Error::TimedOut { .. })
            );
            if !is_lost && !stream.is_over {
                *place = Some(stream); // otherwise its remaining input has no request
            }
            if !is_lost || attempt > 0 || !operation.may_repeat() || Instant::now() >= end {
                break;
            }
        }
        answer
    }
}

/// Returns whether the text protocol can carry a key.
pub(crate) fn is_text_key(key: &[u8]) -> bool {
    !key.is_empty() && !key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f)
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
        Ok(Self { server, reader: BufReader::new(Timed::new(stream, end)), is_over: false })
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
            (Err(error @ Error::TimedOut { .. }), Ok(())) => return Err(error),
            (Err(_), Ok(())) => return Err(Error::OutcomeUnknown),
        };
        let outcome = match line.as_str() {
            "STORED" => Outcome::Ok,
            "NOT_STORED" => Outcome::NotStored,
            "EXISTS" => Outcome::Exists,
            "NOT_FOUND" => Outcome::NotFound,
            _ if line.contains("too large") => return Err(Error::TooLarge { limit_bytes: None }),
            _ if line.contains("out of memory") => return Err(Error::OutOfSpace),
            _ => return Err(self.failed(line)),
        };
        Ok(Answer { outcome, number: 0, value: Value::default(), resent: false })
    }

    fn fetch(&mut self, head: &[u8], operation: &Operation<'_>) -> Result<Answer, Error> {
        self.write(&[head])?;
        let line = self.line()?;
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
            // The server lacks a part of the request, and cannot have executed it.
            written.map_err(|error| self.failed(error.to_string()))?;
        }
        Ok(())
    }

    /// Reads a line, without its end.
    fn line(&mut self) -> Result<String, Error> {
        let mut line = Vec::new();
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|error| self.lost(&error))?;
        match line.strip_suffix(b"\r\n") {
            Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
            None => Err(self.failed("the server closed the connection".to_owned())),
        }
    }

    fn lost(&self, error: &io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::TimedOut => Error::TimedOut { server: self.server.to_string() },
            _ => self.failed(error.to_string()),
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Stream { server: self.server.to_string(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::sockopt::{RcvBuf, SndBuf};
    use std::net::TcpListener;
    use std::thread;

    /// A server whose connections read one line or one store each, and reply. Without a reply they close.
    fn server(replies: &'static [&'static str]) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serves = move || {
            for reply in replies {
                let mut reader = BufReader::new(listener.accept().unwrap().0);
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line.starts_with("set") {
                    reader.read_line(&mut line).unwrap();
                }
                reader.get_mut().write_all(reply.as_bytes()).unwrap();
            }
        };
        (address, thread::spawn(serves))
    }

    /// The server refuses the length and reads no further: the rest of the request is no request.
    #[test]
    fn a_connection_is_not_used_again_in_the_middle_of_a_value() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        setsockopt(&listener, RcvBuf, &(64 << 10)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut streams = Streams::new(1, Duration::from_millis(200));
        let stream = Stream::connect(address, Instant::now()).unwrap();
        setsockopt(stream.reader.get_ref().get_ref(), SndBuf, &(64 << 10)).unwrap();
        streams.streams[0] = Some(stream);
        let mut far = listener.accept().unwrap().0;
        let refuses = move || {
            far.read_exact(&mut [0; 4]).unwrap();
            far.write_all(b"SERVER_ERROR object too large for cache\r\n").unwrap();
            far
        };
        let served = thread::spawn(refuses);
        let answer = streams.call(0, address, &Operation::set(b"key", &vec![b'v'; 8 << 20]));
        assert!(matches!(answer, Err(Error::TooLarge { .. })), "{answer:?}");
        assert!(streams.streams[0].is_none());
        drop(served.join().unwrap());
    }

    fn streams() -> Streams {
        Streams::new(1, Duration::from_secs(20))
    }

    /// The server may have executed what it has got.
    #[test]
    fn the_outcome_of_a_store_without_a_reply_in_time_is_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut streams = Streams::new(1, Duration::from_millis(50));
        let address = listener.local_addr().unwrap();
        let answer = streams.call(0, address, &Operation::set(b"key", b"value"));
        assert!(matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}");
        assert!(streams.streams[0].is_none());
    }

    /// As after a restart of the server: the connection that it had closed is not written to.
    #[test]
    fn a_closed_connection_is_replaced_before_a_store() {
        let (address, served) = server(&["STORED\r\n", "STORED\r\n", "STORED\r\n"]);
        let mut streams = streams();
        for _ in 0..3 {
            let answer = streams.call(0, address, &Operation::set(b"key", b"value")).unwrap();
            assert_eq!(answer.outcome, Outcome::Ok);
            // The kernel tells of the end in its own time.
            while streams.streams[0].as_ref().is_some_and(Stream::is_idle) {
                thread::yield_now();
            }
        }
        served.join().unwrap();
    }

    #[test]
    fn a_read_whose_connection_was_lost_is_repeated_once_and_a_store_is_not() {
        let reads = [Operation::get(b"key"), Operation::gets(b"key"), Operation::get_and_touch(b"key", 5)];
        for read in reads {
            let (address, served) = server(&["", "VALUE key 7 1 9\r\nx\r\nEND\r\n"]);
            let answer = streams().call(0, address, &read).unwrap();
            assert_eq!((answer.value.bytes, answer.value.flags), (b"x".to_vec(), 7));
            served.join().unwrap();
            let (address, served) = server(&["", ""]);
            assert!(matches!(streams().call(0, address, &read), Err(Error::Stream { .. })));
            served.join().unwrap();
        }
        let (address, served) = server(&[""]);
        let lost = streams().call(0, address, &Operation::set(b"key", b"value"));
        assert!(matches!(lost, Err(Error::OutcomeUnknown)), "{lost:?}");
        served.join().unwrap();
    }
}
