//! memcached's text protocol over TCP or a Unix socket: replies come in the order of the requests, and
//! of values only the length is kept.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use crate::target::Socket;
use memchr::memchr;

use super::connection::{CLOSED, Reply, broken};
use super::step::{Command, is_read};

/// No more requests are taken while so much is not sent.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Room for replies; a line is shorter.
const INPUT_BYTES: usize = 64 << 10;
const EXCERPT_BYTES: usize = 60;

/// A connection.
pub(super) struct Stream {
    socket: Socket,
    output: Vec<u8>,
    /// Bytes of `output` that the kernel has taken.
    sent: usize,
    input: Box<[u8]>,
    /// Received and not understood yet: from, to.
    start: usize,
    end: usize,
    /// Bytes of a value that are still to come.
    skip: u64,
    /// What the request at the front has found so far: bytes, and the value's number.
    found: Option<(u64, u64)>,
    /// Requests without a reply: their tokens, and whether they read.
    waiting: VecDeque<(u32, bool)>,
    refusal: Option<String>,
}

impl Stream {
    /// Takes a connected socket over.
    pub fn new(socket: Socket) -> Self {
        Self {
            socket,
            output: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES].into(),
            start: 0,
            end: 0,
            skip: 0,
            found: None,
            waiting: VecDeque::new(),
            refusal: None,
        }
    }

    pub fn has_room(&self) -> bool {
        self.output.len() - self.sent < OUTPUT_BYTES_MAX
    }

    pub fn send(&mut self, token: u32, command: &Command<'_>) {
        command.push_text(&mut self.output);
        self.waiting.push_back((token, is_read(command.operation)));
    }

    pub fn flush(&mut self) -> Result<bool, String> {
        while self.sent < self.output.len() {
            match self.socket.send(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.sent > self.output.len() / 2 {
                        self.output.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        self.output.clear();
        self.output.shrink_to(2 * OUTPUT_BYTES_MAX);
        self.sent = 0;
        Ok(false)
    }

    pub fn receive(&mut self) -> Result<bool, String> {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        match self.socket.receive(&mut self.input[self.end..]) {
            Ok(0) => Err(CLOSED.to_owned()),
            Ok(received) => {
                self.end += received;
                Ok(self.end == self.input.len())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(false)
            }
            Err(error) => Err(broken(&error)),
        }
    }

    pub fn reply(&mut self) -> Result<Option<(u32, Reply)>, String> {
        loop {
            let skipped = self.skip.min((self.end - self.start) as u64);
            self.skip -= skipped;
            self.start += skipped as usize;
            let input = &self.input[self.start..self.end];
            let Some(length) = memchr(b'\n', input) else {
                return match input.len() == INPUT_BYTES {
                    true => Err(no_reply(input)),
                    false => Ok(None),
                };
            };
            let line = &input[..=length];
            let Some(&(token, reads)) = self.waiting.front() else {
                return Err(format!(
                    "the server sent more than was asked for: {}",
                    excerpt(line)
                ));
            };
            let text = line.strip_suffix(b"\r\n").ok_or_else(|| no_reply(line))?;
            let reply = match understood(text, reads).ok_or_else(|| no_reply(line))? {
                Line::Value(value_bytes, cas) => {
                    self.found = Some((value_bytes, cas));
                    self.skip = value_bytes + 2;
                    self.start += length + 1;
                    continue;
                }
                Line::End => self
                    .found
                    .take()
                    .map_or(Reply::NotFound, |found| Reply::Found {
                        value_bytes: Some(found.0),
                        cas: found.1,
                    }),
                Line::Reply(reply) => reply,
            };
            if reply == Reply::Refused && self.refusal.is_none() {
                self.refusal = Some(excerpt(text));
            }
            self.start += length + 1;
            self.found = None;
            self.waiting.pop_front();
            return Ok(Some((token, reply)));
        }
    }

    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// A value of so many bytes follows; its number.
    Value(u64, u64),
    /// A read is complete.
    End,
    Reply(Reply),
}

/// What a line means, without its end.
fn understood(text: &[u8], reads: bool) -> Option<Line> {
    if let Some(rest) = text.strip_prefix(b"VALUE ") {
        let mut words = rest.split(|byte| *byte == b' ').skip(2);
        let value_bytes = decimal(words.next()?).filter(|bytes| *bytes <= 1 << 31)?;
        let cas = words.next().map_or(Some(0), decimal)?;
        return reads.then_some(Line::Value(value_bytes, cas));
    }
    let is_refusal = [
        b"ERROR".as_slice(),
        b"CLIENT_ERROR ",
        b"SERVER_ERROR ",
        b"BUSY",
    ]
    .iter()
    .any(|word| text.starts_with(word));
    match (text, reads) {
        (b"END", true) => Some(Line::End),
        _ if is_refusal => Some(Line::Reply(Reply::Refused)),
        (_, true) => None,
        (b"STORED" | b"DELETED" | b"TOUCHED", _) => Some(Line::Reply(Reply::Done)),
        (b"NOT_STORED" | b"NOT_FOUND" | b"EXISTS", _) => Some(Line::Reply(Reply::NotDone)),
        // The number that was counted to; shorter ones are filled up by blanks.
        _ => decimal(text.trim_ascii_end()).map(|_| Line::Reply(Reply::Done)),
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn no_reply(line: &[u8]) -> String {
    format!("this is no reply of memcached's: {}", excerpt(line))
}

/// The beginning of what a server sent, for a message.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT_BYTES)];
    shown.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
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
