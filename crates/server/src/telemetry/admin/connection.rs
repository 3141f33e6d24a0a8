//! One connection: a request, its reply, the end.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use micanite_net::{ByteStream, Interest, Poller, Stream, Transport};

use super::console::{Console, From};
use super::http::REQUEST_BYTES_MAX;
use super::reply::Reply;
use super::request::Request;

/// Bytes that are thrown away behind a request, so that its reply is not lost to a reset.
const DRAINED_BYTES_MAX: usize = 1 << 20;

pub(super) struct Connection {
    stream: Transport<Stream>,
    pub token: u64,
    peer: Option<IpAddr>,
    deadline: Duration,
    until: Instant,
    request: Vec<u8>,
    reply: Vec<u8>,
    sent: usize,
    drained: usize,
    /// The reply comes when an action has been done.
    pub waits: bool,
}

impl Connection {
    /// With a deadline for its request, and for its reply.
    pub fn new(stream: Transport<Stream>, token: u64, peer: Option<IpAddr>, deadline: Duration) -> Self {
        let (request, reply) = (Vec::new(), Vec::new());
        let until = Instant::now() + deadline;
        Self { stream, token, peer, deadline, until, request, reply, sent: 0, drained: 0, waits: false }
    }

    /// Takes the reply that the connection waits for.
    pub fn set_reply(&mut self, reply: Reply) {
        self.reply = reply.into_bytes();
        self.waits = false;
        self.until = Instant::now() + self.deadline;
    }

    /// Returns whether its time is over. Waiting for an action has no deadline: the action has its own.
    pub fn is_late(&self, now: Instant) -> bool {
        !self.waits && now >= self.until
    }

    /// Goes on as far as it can; `None` when the connection is over.
    pub fn go_on(&mut self, poller: &Poller, console: &mut Console) -> Option<()> {
        if self.reply.is_empty() {
            self.receive(console)?;
        }
        if self.waits {
            return self.watch(poller, Interest::Nothing);
        }
        if self.reply.is_empty() {
            return Some(());
        }
        while self.sent < self.reply.len() {
            match self.stream.send(&self.reply[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.watch(poller, Interest::Write);
                }
                Err(_) => return None,
            }
        }
        self.drain(poller)
    }

    fn watch(&self, poller: &Poller, interest: Interest) -> Option<()> {
        poller.change(self.stream.inner(), self.token, interest).ok()
    }

    /// Reads until there is a reply, or nothing more to read.
    fn receive(&mut self, console: &mut Console) -> Option<()> {
        let mut bytes = [0; 2048];
        while self.reply.is_empty() && !self.waits {
            let count = available(self.stream.recv(&mut bytes))?;
            if count == 0 {
                break;
            }
            self.request.extend_from_slice(&bytes[..count]);
            let too_long = self.request.len() > REQUEST_BYTES_MAX;
            let request = Request::parse(&self.request);
            if let Some(request) = request.or(too_long.then_some(Request::HeadTooLong)) {
                let from = From { token: self.token, peer: self.peer };
                match console.reply(from, request) {
                    Some(reply) => self.reply = reply.into_bytes(),
                    None => self.waits = true,
                }
                // It may have held a password.
                zeroize::Zeroize::zeroize(&mut self.request);
            }
        }
        Some(())
    }

    /// All is sent: says so, and waits for the other side to end.
    fn drain(&mut self, poller: &Poller) -> Option<()> {
        match self.stream.end_output() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return self.watch(poller, Interest::Write);
            }
            Err(_) => return None,
        }
        let mut bytes = [0; 2048];
        while self.drained < DRAINED_BYTES_MAX {
            match available(self.stream.discard(&mut bytes))? {
                0 => return self.watch(poller, Interest::Read),
                count => self.drained += count,
            }
        }
        None
    }
}

/// Bytes that were received, 0 if there are none now, `None` at the end.
fn available(received: io::Result<usize>) -> Option<usize> {
    match received {
        Ok(0) => None,
        Ok(count) => Some(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}
