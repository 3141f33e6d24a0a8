//! memcached's text protocol over TCP or a Unix socket: replies come in the order of the requests, and
//! of values only the length is kept.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use memchr::memchr;
use micanite_workload::trace::Operation;

use super::connection::{Connection, Reply};
use super::step::Command;
use crate::target::{BufferedSocket, Socket, escaped, is_error, push_decimal};

/// Room for replies; a line is shorter.
const INPUT_BYTES: usize = 64 << 10;
/// Times to live beyond this are dates in memcached's protocol.
const RELATIVE_S_MAX: u32 = 30 * 24 * 3600;
/// The last date that memcached understands.
const DATE_S_MAX: u64 = i32::MAX as u64;

pub(super) struct Memcached {
    socket: BufferedSocket,
    /// Bytes of a value that are still to come.
    skip: u64,
    /// The value that the request at the front has found so far: bytes, and its number.
    found: Option<(u64, u64)>,
    /// Requests without a reply: their tokens, and whether they read.
    waiting: VecDeque<(u32, bool)>,
    refusal: Option<String>,
}

impl Memcached {
    /// Takes a connected socket over.
    pub fn new(socket: Socket) -> Self {
        Self {
            socket: BufferedSocket::new(socket, INPUT_BYTES),
            skip: 0,
            found: None,
            waiting: VecDeque::new(),
            refusal: None,
        }
    }
}

impl Connection for Memcached {
    fn has_room(&self) -> bool {
        self.socket.has_room()
    }

    fn send(&mut self, token: u32, command: &Command<'_>) -> bool {
        push(&mut self.socket.output, command);
        self.waiting.push_back((token, command.operation.reads()));
        true
    }

    fn flush(&mut self) -> Result<bool, String> {
        self.socket.flush()
    }

    fn receive(&mut self) -> Result<bool, String> {
        self.socket.receive().map(|(_, more)| more)
    }

    fn reply(&mut self) -> Result<Option<(u32, Reply)>, String> {
        loop {
            let skipped = self.skip.min(self.socket.input().len() as u64);
            self.skip -= skipped;
            self.socket.consume(skipped as usize);
            let input = self.socket.input();
            let Some(length) = memchr(b'\n', input) else {
                return match self.socket.is_full() {
                    true => Err(no_reply(input)),
                    false => Ok(None),
                };
            };
            let line = &input[..=length];
            let Some(&(token, reads)) = self.waiting.front() else {
                return Err(format!("the server sent more than was asked for: {}", escaped(line)));
            };
            let text = line.strip_suffix(b"\r\n").ok_or_else(|| no_reply(line))?;
            let reply = match understood(text, reads).ok_or_else(|| no_reply(line))? {
                Line::Value(value_bytes, cas) => {
                    self.found = Some((value_bytes, cas));
                    self.skip = value_bytes + 2;
                    self.socket.consume(length + 1);
                    continue;
                }
                Line::End => match self.found {
                    None => Reply::NotFound,
                    Some((value_bytes, cas)) => Reply::Found { value_bytes: Some(value_bytes), cas },
                },
                Line::Reply(reply) => reply,
            };
            if reply == Reply::Refused {
                self.refusal.get_or_insert_with(|| escaped(text));
            }
            self.socket.consume(length + 1);
            self.found = None;
            self.waiting.pop_front();
            return Ok(Some((token, reply)));
        }
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

impl AsFd for Memcached {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Appends a request.
fn push(to: &mut Vec<u8>, command: &Command<'_>) {
    let expiry = |to: &mut Vec<u8>| push_decimal(to, expiry(command.expiry_s));
    to.extend_from_slice(command.operation.name().as_bytes());
    to.push(b' ');
    if command.operation == Operation::GetAndTouch {
        expiry(to);
        to.push(b' ');
    }
    to.extend_from_slice(command.key);
    match command.operation {
        Operation::Increment | Operation::Decrement => to.extend_from_slice(b" 1"),
        Operation::Touch => {
            to.push(b' ');
            expiry(to);
        }
        operation if operation.stores() => {
            to.extend_from_slice(b" 0 ");
            expiry(to);
            to.push(b' ');
            push_decimal(to, command.value_bytes.into());
            if operation == Operation::Cas {
                to.push(b' ');
                push_decimal(to, command.cas);
            }
            to.extend_from_slice(b"\r\n");
            to.resize(to.len() + command.value_bytes as usize, b'0');
        }
        _ => {}
    }
    to.extend_from_slice(b"\r\n");
}

/// Converts an expiry to memcached's form: seconds from now, or a date.
fn expiry(expiry_s: u32) -> u64 {
    if expiry_s <= RELATIVE_S_MAX {
        return expiry_s.into();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let date_s = now.unwrap_or_default().as_secs() + u64::from(expiry_s);
    date_s.min(DATE_S_MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// A value of so many bytes follows; its number.
    Value(u64, u64),
    /// A read is complete.
    End,
    Reply(Reply),
}

/// Understands a line without its end.
fn understood(text: &[u8], reads: bool) -> Option<Line> {
    if let Some(rest) = text.strip_prefix(b"VALUE ") {
        let mut words = rest.split(|byte| *byte == b' ').skip(2);
        let value_bytes = number(words.next()?).filter(|bytes| *bytes <= 1 << 31)?;
        let cas = words.next().map_or(Some(0), number)?;
        return reads.then_some(Line::Value(value_bytes, cas));
    }
    match (text, reads) {
        (b"END", true) => Some(Line::End),
        _ if is_error(text) => Some(Line::Reply(Reply::Refused)),
        (_, true) => None,
        (b"STORED" | b"DELETED" | b"TOUCHED", _) => Some(Line::Reply(Reply::Done)),
        (b"NOT_STORED" | b"NOT_FOUND" | b"EXISTS", _) => Some(Line::Reply(Reply::NotDone)),
        // The number that was counted to; shorter ones are filled up by blanks.
        _ => number(text.trim_ascii_end()).map(|_| Line::Reply(Reply::Done)),
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn no_reply(line: &[u8]) -> String {
    format!("this is no reply of memcached's: {}", escaped(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let reply = |text: &str, reads| understood(text.as_bytes(), reads);
        assert_eq!(reply("VALUE key 0 12", true), Some(Line::Value(12, 0)));
        assert_eq!(reply("VALUE key 0 12 7", true), Some(Line::Value(12, 7)));
        assert_eq!(reply("END", true), Some(Line::End));
        assert_eq!(reply("STORED", false), Some(Line::Reply(Reply::Done)));
        assert_eq!(reply("17  ", false), Some(Line::Reply(Reply::Done)));
        assert_eq!(reply("EXISTS", false), Some(Line::Reply(Reply::NotDone)));
        let refused = Some(Line::Reply(Reply::Refused));
        assert_eq!(reply("SERVER_ERROR out of memory", true), refused);
        assert_eq!(reply("ERROR", false), refused);
        for (text, reads) in [
            ("STORED", true),
            ("END", false),
            ("VALUE key 0", true),
            ("VALUE key 0 x", true),
            ("VALUE key 0 99999999999", true),
            ("VALUE key 0 1", false),
            ("", false),
            ("HTTP/1.1 200 OK", true),
        ] {
            assert_eq!(reply(text, reads), None, "{text}");
        }
    }
}
