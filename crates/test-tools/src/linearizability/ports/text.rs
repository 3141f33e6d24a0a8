//! memcached's text protocol over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Failure, Outcome, Port, Reply, Request};
use crate::Result;
use crate::linearizability::operation::{Action, Found};

const SILENCE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Text {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

impl Text {
    pub fn open(server: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&server, SILENCE_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self { stream: BufReader::new(stream), request: Vec::new(), line: Vec::new() })
    }

    fn write(&mut self, request: &Request<'_>) {
        let Request { name, value, flags, expiry_s, unique, .. } = request;
        let name = name.escape_ascii();
        let bytes = value.len();
        let line = match request.action {
            Action::Get if request.wants_unique => format!("gets {name}\r\n"),
            Action::Get => format!("get {name}\r\n"),
            Action::Set(_) => format!("set {name} {flags} {expiry_s} {bytes}\r\n"),
            Action::Add(_) => format!("add {name} {flags} {expiry_s} {bytes}\r\n"),
            Action::Cas { .. } => format!("cas {name} {flags} {expiry_s} {bytes} {unique}\r\n"),
            Action::Delete => format!("delete {name}\r\n"),
            Action::Touch => format!("touch {name} {expiry_s}\r\n"),
            Action::FlushAll | Action::Loss | Action::LateCopy(_) => "flush_all\r\n".to_owned(),
        };
        self.request.clear();
        self.request.extend(line.as_bytes());
        if !value.is_empty() {
            self.request.extend(*value);
            self.request.extend(b"\r\n");
        }
    }

    /// Receives the next line, without its end.
    fn line(&mut self) -> std::io::Result<&str> {
        self.line.clear();
        if self.stream.read_until(b'\n', &mut self.line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        std::str::from_utf8(self.line.trim_ascii_end())
            .map_err(|error| std::io::Error::other(error.to_string()))
    }

    /// Receives a value behind its line, and the end of the reply.
    fn value(&mut self, words: &[u64], reply: &mut Reply) -> std::result::Result<(), Failure> {
        let (Some(&flags), Some(&bytes)) = (words.first(), words.get(1)) else {
            return Err(Failure::Wrong("a VALUE without a length".to_owned()));
        };
        reply.flags = flags as u32;
        reply.unique = words.get(2).copied().unwrap_or(0);
        reply.value.resize(bytes as usize + 2, 0);
        self.stream.read_exact(&mut reply.value).map_err(lost)?;
        if reply.value.split_off(bytes as usize) != b"\r\n" {
            return Err(Failure::Wrong("a value that is longer than its line says".to_owned()));
        }
        match self.line().map_err(lost)? {
            "END" => Ok(()),
            other => Err(Failure::Wrong(format!("{other:?} behind a value"))),
        }
    }
}

fn lost(_: std::io::Error) -> Failure {
    Failure::Lost
}

impl Port for Text {
    fn call(&mut self, requests: &[Request<'_>], replies: &mut [Reply]) -> Outcome {
        let ([request], [reply]) = (requests, replies) else {
            return Err(Failure::Wrong("this port takes one request at a time".to_owned()));
        };
        self.write(request);
        self.stream.get_mut().write_all(&self.request).map_err(lost)?;
        let line = self.line().map_err(lost)?;
        if let Some(rest) = line.strip_prefix("VALUE ") {
            let words: Vec<u64> = rest.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
            return self.value(&words, reply);
        }
        reply.found = Some(match (line, request.action) {
            ("STORED", _) | ("DELETED", Action::Delete) | ("TOUCHED", Action::Touch) => Found::Done,
            ("OK", Action::FlushAll) => Found::Done,
            ("END", Action::Get) | ("NOT_FOUND", _) => Found::Missing,
            ("NOT_STORED", Action::Add(_)) | ("EXISTS", Action::Cas { .. }) => Found::Refused,
            (other, action) => return Err(Failure::Wrong(format!("{other:?} to {action:?}"))),
        });
        Ok(())
    }
}
