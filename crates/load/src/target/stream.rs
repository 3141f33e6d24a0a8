//! A connection over TCP or a Unix socket: replies come in the order of the requests.

use std::io;
use std::marker::PhantomData;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::buffered::BufferedSocket;
use super::in_flight::{InFlight, Pending};
use super::open::Socket;
use super::reply::{Checks, Format, excerpt};
use super::{Connection, Stamp};
use crate::run::clock::Clock;
use crate::run::recorder::{Kind, Recorder};

/// Room for replies, at least.
const INPUT_BYTES_MIN: usize = 64 << 10;
/// Receives in a row, so that a fast server does not keep the loop from sending.
const RECEIVES_MAX: usize = 4;

/// A connection that speaks one protocol.
#[derive(Debug)]
pub(crate) struct StreamConnection<F> {
    socket: BufferedSocket,
    in_flight: InFlight,
    checks: Checks,
    format: PhantomData<F>,
}

impl<F: Format> StreamConnection<F> {
    /// Takes a connected socket over.
    pub fn new(socket: Socket, checks: Checks, (pipeline, multiget): (usize, usize)) -> Self {
        let longest = checks.items.longest();
        let element_bytes = longest.key_bytes + longest.value_bytes + 64;
        Self {
            socket: BufferedSocket::new(socket, INPUT_BYTES_MIN.max(2 * element_bytes)),
            in_flight: InFlight::new(pipeline, multiget),
            checks,
            format: PhantomData,
        }
    }

    #[inline]
    fn push(&mut self, kind: Kind, items: &[u64], stamp: Stamp) {
        self.in_flight.push(Pending::new(kind, items, stamp), items);
    }

    /// Understands what has arrived; returns how many requests have ended.
    fn understand(&mut self, now_ns: u64, recorder: &mut Recorder) -> Result<usize, String> {
        let mut ended = 0;
        while !self.socket.input().is_empty() {
            let input = self.socket.input();
            let Some((pending, items)) = self.in_flight.front() else {
                return Err(format!("the server sent more than was asked for: {}", excerpt(input)));
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
            self.socket.consume(length);
        }
        if self.socket.is_full() {
            recorder.counts.wrong_values += 1;
            return Err(format!(
                "a value is longer than the {} bytes of the data set: {}",
                self.checks.items.longest().value_bytes,
                excerpt(self.socket.input())
            ));
        }
        Ok(ended)
    }
}

impl<F: Format> Connection for StreamConnection<F> {
    #[inline]
    fn room(&self) -> usize {
        if self.socket.has_room() { self.in_flight.room() } else { 0 }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        F::push_read(&mut self.socket.output, &self.checks.items, items);
        self.push(Kind::Read, items, stamp);
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        F::push_write(&mut self.socket.output, item, version, &self.checks);
        self.push(Kind::Write, &[item], stamp);
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        F::push_delete(&mut self.socket.output, item, &self.checks.items);
        self.push(Kind::Delete, &[item], stamp);
    }

    fn flush(&mut self) -> Result<(), String> {
        self.socket.flush().map(drop)
    }

    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String> {
        let mut ended = None;
        for turn in 1.. {
            let (received, more) = self.socket.receive()?;
            if received > 0 {
                let understood = self.understand(clock.now_ns(), recorder)?;
                ended = Some(ended.unwrap_or(0) + understood);
            }
            if !more || turn >= RECEIVES_MAX && !self.socket.is_encrypted() {
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
            if let (Some(items), false) = (&mut recorder.resend, self.in_flight.front_items().len() > 1) {
                items.extend_from_slice(self.in_flight.front_items());
            }
            recorder.held_updates.read_ended(self.in_flight.front_items());
            if let Some(pending) = self.in_flight.pop() {
                recorder.lost(pending.answer.kind, pending.scheduled_ns, now_ns);
            }
        }
        self.socket.forget_output();
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        Ok(epoll.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }
}
