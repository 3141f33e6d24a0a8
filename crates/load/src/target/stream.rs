//! A connection over TCP or a Unix socket: replies come in the order of the requests.

use std::io::{self, ErrorKind};
use std::marker::PhantomData;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::in_flight::{InFlight, Pending};
use super::open::Socket;
use super::reply::{Checks, Format, excerpt};
use super::{CLOSED, Connection, Stamp, broken};
use crate::clock::Clock;
use crate::recorder::{Answer, Kind, Recorder};

/// No more requests are taken while so much is not sent.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Room for replies, at least.
const INPUT_BYTES_MIN: usize = 64 << 10;
/// Receives in a row, so that a fast server does not keep the loop from sending.
const RECEIVES_MAX: usize = 4;

/// A connection that speaks one protocol.
#[derive(Debug)]
pub(crate) struct StreamConnection<F> {
    socket: Socket,
    in_flight: InFlight,
    checks: Checks,
    output: Vec<u8>,
    /// Bytes of `output` that the kernel has taken.
    sent: usize,
    input: Box<[u8]>,
    /// Received and not understood yet: from, to.
    start: usize,
    end: usize,
    format: PhantomData<F>,
}

impl<F: Format> StreamConnection<F> {
    /// Takes a connected socket over.
    pub fn new(socket: Socket, checks: Checks, (pipeline, multiget): (usize, usize)) -> Self {
        let longest = checks.items.longest();
        let element_bytes = longest.key_bytes + longest.value_bytes + 64;
        Self {
            socket,
            in_flight: InFlight::new(pipeline, multiget),
            output: Vec::with_capacity(OUTPUT_BYTES_MAX),
            sent: 0,
            input: vec![0; INPUT_BYTES_MIN.max(2 * element_bytes)].into(),
            start: 0,
            end: 0,
            checks,
            format: PhantomData,
        }
    }

    fn push(&mut self, kind: Kind, items: &[u64], stamp: Stamp) {
        let pending = Pending {
            scheduled_ns: stamp.scheduled_ns,
            sent_ns: stamp.now_ns,
            answer: Answer {
                kind,
                operations: items.len() as u32,
                ..Answer::default()
            },
            settled: 0,
        };
        self.in_flight.push(pending, items);
    }

    /// Receives once; returns how many bytes, and whether there may be more.
    fn receive(&mut self) -> Result<(usize, bool), String> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = self.input.len() - self.end;
        match self.socket.receive(&mut self.input[self.end..]) {
            Ok(0) => Err(CLOSED.to_owned()),
            Ok(received) => {
                self.end += received;
                Ok((received, received == room))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok((0, false)),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Understands what has arrived; returns how many requests have ended.
    fn understand(&mut self, now_ns: u64, recorder: &mut Recorder) -> Result<usize, String> {
        let mut ended = 0;
        while self.start < self.end {
            let input = &self.input[self.start..self.end];
            let Some((pending, items)) = self.in_flight.front() else {
                return Err(format!(
                    "the server sent more than was asked for: {}",
                    excerpt(input)
                ));
            };
            let Some((element, length)) = F::parse(input, pending)? else {
                break;
            };
            if self.checks.settle(pending, items, &element, recorder) {
                recorder.note_answer(items, &pending.answer);
                recorder.answered(pending.scheduled_ns, now_ns, &pending.answer);
                self.in_flight.pop();
                ended += 1;
            }
            self.start += length;
        }
        if self.end - self.start == self.input.len() {
            recorder.counts.wrong_values += 1;
            return Err(format!(
                "a value is longer than the {} bytes of the data set: {}",
                self.checks.items.longest().value_bytes,
                excerpt(&self.input)
            ));
        }
        Ok(ended)
    }
}

impl<F: Format> Connection for StreamConnection<F> {
    #[inline]
    fn room(&self) -> usize {
        if self.output.len() - self.sent < OUTPUT_BYTES_MAX {
            self.in_flight.room()
        } else {
            0
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        F::push_read(&mut self.output, &self.checks.items, items);
        self.push(Kind::Read, items, stamp);
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        F::push_write(&mut self.output, item, version, &self.checks);
        self.push(Kind::Write, &[item], stamp);
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        F::push_delete(&mut self.output, item, &self.checks.items);
        self.push(Kind::Delete, &[item], stamp);
    }

    fn flush(&mut self) -> Result<(), String> {
        while self.sent < self.output.len() {
            match self.socket.send(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.sent > self.output.len() / 2 {
                        self.output.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
                Err(error) => return Err(broken(&error)),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String> {
        let mut ended = None;
        for _ in 0..RECEIVES_MAX {
            let (received, more) = self.receive()?;
            if received > 0 {
                let understood = self.understand(clock.now_ns(), recorder)?;
                ended = Some(ended.unwrap_or(0) + understood);
            }
            if !more {
                break;
            }
        }
        Ok(ended)
    }

    /// A stream loses nothing: its replies are waited for.
    fn expire(&mut self, _now_ns: u64, _recorder: &mut Recorder) -> usize {
        0
    }

    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder) {
        while !self.in_flight.front_items().is_empty() {
            if let (Some(items), false) =
                (&mut recorder.resend, self.in_flight.front_items().len() > 1)
            {
                items.extend_from_slice(self.in_flight.front_items());
            }
            recorder.awaited.ended(self.in_flight.front_items());
            if let Some(pending) = self.in_flight.pop() {
                recorder.lost(pending.scheduled_ns, now_ns);
            }
        }
        self.output.clear();
        self.sent = 0;
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        Ok(epoll.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }
}
