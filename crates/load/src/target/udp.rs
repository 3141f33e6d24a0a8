//! memcached's text protocol in datagrams: replies in any order, some of them never.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};

use arrayvec::ArrayVec;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendmmsg};

use super::open::Socket;
use super::reply::{Checks, Format, excerpt};
use super::slots::Slots;
use super::{Connection, Memcached, Stamp};
use crate::run::clock::Clock;
use crate::run::recorder::{Kind, Recorder};

/// Datagrams per system call.
const BURST: usize = 32;
/// No more requests are taken while so many datagrams are not sent.
const UNSENT_MAX: usize = 1024;
/// The longest datagram that is received whole; memcached sends at most 1,400 bytes.
const DATAGRAM_BYTES_MAX: usize = 2048;
/// Request id, number of the datagram, how many there are, zero; 16 bits each, big endian.
pub(super) const HEADER_BYTES: usize = 8;

pub(crate) struct UdpConnection {
    socket: Socket,
    slots: Slots,
    checks: Checks,
    timeout_ns: u64,
    headers: MultiHeaders<()>,
    /// Datagrams to be sent, one after the other, and where each of them ends.
    output: Vec<u8>,
    ends: Vec<usize>,
    /// Datagrams that the kernel has taken.
    sent: usize,
    input: Box<[u8]>,
}

impl UdpConnection {
    /// Takes a connected socket over.
    pub fn new(socket: Socket, checks: Checks, (window, multiget): (usize, usize), timeout_ns: u64) -> Self {
        Self {
            socket,
            slots: Slots::new(window, multiget),
            checks,
            timeout_ns,
            headers: MultiHeaders::preallocate(BURST, None),
            output: Vec::new(),
            ends: Vec::new(),
            sent: 0,
            input: vec![0; BURST * DATAGRAM_BYTES_MAX].into(),
        }
    }

    fn push_header(&mut self, id: u16) {
        self.output.extend_from_slice(&id.to_be_bytes());
        self.output.extend_from_slice(&[0, 0, 0, 1, 0, 0]);
    }

    /// Sends one burst; returns how many datagrams the kernel took.
    fn send_burst(&mut self) -> nix::Result<usize> {
        let mut start = self.ends[..self.sent].last().copied().unwrap_or(0);
        let slices: ArrayVec<[IoSlice<'_>; 1], BURST> = self.ends[self.sent..]
            .iter()
            .take(BURST)
            .map(|end| [IoSlice::new(&self.output[std::mem::replace(&mut start, *end)..*end])])
            .collect();
        let sent = sendmmsg(
            self.socket.as_fd().as_raw_fd(),
            &mut self.headers,
            slices.iter(),
            [None; BURST],
            [],
            MsgFlags::MSG_DONTWAIT,
        )?;
        Ok(sent.count())
    }

    fn forget_output(&mut self) {
        self.output.clear();
        self.ends.clear();
        self.sent = 0;
    }

    /// Receives one burst; returns the lengths of its datagrams.
    fn receive_burst(&mut self) -> nix::Result<ArrayVec<usize, BURST>> {
        let mut buffers = self.input.chunks_mut(DATAGRAM_BYTES_MAX);
        let mut slices: [_; BURST] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().unwrap_or_default())]);
        let received = recvmmsg(
            self.socket.as_fd().as_raw_fd(),
            &mut self.headers,
            slices.iter_mut(),
            MsgFlags::MSG_DONTWAIT,
            None,
        )?;
        Ok(received.map(|message| message.bytes).collect())
    }

    /// Understands one datagram; returns whether a request has ended with it.
    fn understand(
        &mut self,
        number: usize,
        bytes: usize,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Result<bool, String> {
        let start = number * DATAGRAM_BYTES_MAX;
        let datagram = &self.input[start..start + bytes];
        let Some((header, body)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err("a datagram without header".to_owned());
        };
        let [id, part, parts] = [0, 2, 4].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        let Some(slot) = self.slots.find(id) else {
            recorder.counts.late += 1;
            return Ok(false);
        };
        if parts > 1 && !self.slots.keep_part(slot, (part, parts), body)? {
            return Ok(false);
        }
        let (pending, items, kept) = self.slots.open(slot);
        let mut reply = if parts > 1 { kept } else { body };
        // memcached answers a GET of several keys by a datagram (or several) for each value.
        let mut complete = false;
        while !complete && !reply.is_empty() {
            let Some((element, length)) = Memcached::parse(reply, pending)? else {
                return Err(format!("a datagram ends in the middle: {}", excerpt(reply)));
            };
            complete = self.checks.settle(pending, items, &element, recorder);
            reply = &reply[length..];
        }
        if complete {
            recorder.note_answer(items, &pending.answer);
            recorder.answered(pending.scheduled_ns, now_ns, &pending.answer);
            self.slots.release(slot);
        } else {
            self.slots.forget_parts(slot);
        }
        Ok(complete)
    }
}

impl Connection for UdpConnection {
    #[inline]
    fn room(&self) -> usize {
        if self.ends.len() < UNSENT_MAX { self.slots.room() } else { 0 }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    #[inline]
    fn read(&mut self, items: &[u64], stamp: Stamp) {
        let id = self.slots.take(Kind::Read, items, stamp);
        self.push_header(id);
        Memcached::push_read(&mut self.output, &self.checks.items, items);
        self.ends.push(self.output.len());
    }

    #[inline]
    fn write(&mut self, item: u64, version: u32, stamp: Stamp) {
        let id = self.slots.take(Kind::Write, &[item], stamp);
        self.push_header(id);
        Memcached::push_write(&mut self.output, item, version, &self.checks);
        self.ends.push(self.output.len());
    }

    #[inline]
    fn delete(&mut self, item: u64, stamp: Stamp) {
        let id = self.slots.take(Kind::Delete, &[item], stamp);
        self.push_header(id);
        Memcached::push_delete(&mut self.output, item, &self.checks.items);
        self.ends.push(self.output.len());
    }

    fn flush(&mut self) -> Result<(), String> {
        while self.sent < self.ends.len() {
            match self.send_burst() {
                Ok(sent) => self.sent += sent,
                Err(Errno::EAGAIN | Errno::ENOBUFS) => return Ok(()),
                // The error is an earlier datagram's: nobody listened. That one counts as lost, as this one
                // may.
                Err(Errno::ECONNREFUSED) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.forget_output();
        Ok(())
    }

    fn poll(&mut self, clock: Clock, recorder: &mut Recorder) -> Result<Option<usize>, String> {
        let lengths = match self.receive_burst() {
            Ok(lengths) => lengths,
            Err(Errno::EAGAIN | Errno::ECONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let now_ns = clock.now_ns();
        let mut ended = 0;
        for (number, bytes) in lengths.into_iter().enumerate() {
            ended += usize::from(self.understand(number, bytes, now_ns, recorder)?);
        }
        Ok(Some(ended))
    }

    fn expire(&mut self, now_ns: u64, recorder: &mut Recorder) -> usize {
        self.slots.give_up_sent_before(now_ns.saturating_sub(self.timeout_ns), now_ns, recorder)
    }

    fn abandon(&mut self, now_ns: u64, recorder: &mut Recorder) {
        self.slots.give_up_sent_before(u64::MAX, now_ns, recorder);
        self.forget_output();
    }

    fn watch(&self, epoll: &Epoll, token: u64) -> io::Result<()> {
        Ok(epoll.add(&self.socket, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }
}
