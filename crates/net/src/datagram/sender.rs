//! Sends datagrams in bursts.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::UdpSocket;
use super::buffer::Buffer;
use super::queue::{Message, Queue};
use super::system::{self, Outgoing};
use crate::limits::{
    BURST_MESSAGES_MAX, DATAGRAM_PAYLOAD_BYTES_MAX, GSO_REFUSED_MESSAGES, SEND_BYTES, SEND_PIECES_MAX,
};

/// Alignment of datagrams.
const ALIGN_BYTES: usize = 8;

/// Counters of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub calls: u64,
    /// Messages that the kernel accepted: datagrams and super-packets.
    pub messages: u64,
    /// Messages that were super-packets.
    pub super_packets: u64,
    /// Datagrams that the kernel accepted.
    pub datagrams: u64,
    /// Datagrams lost to their own error: unreachable peer, forbidden, too long.
    pub failed: u64,
    /// Datagrams dropped by [`Sender::discard`].
    pub discarded: u64,
    /// Super-packets that the kernel refused. Their datagrams were sent one by one.
    pub gso_refused: u64,
}

/// A message, or one of its datagrams, in the current call.
#[derive(Clone, Copy, Debug)]
struct Planned {
    message: u16,
    datagrams: u16,
    pieces: u16,
    peer: u16,
    segment_bytes: Option<u16>,
}

/// A refusal of the kernel, which is remembered for some messages.
#[derive(Clone, Copy, Debug)]
struct Refused {
    segment_bytes: u32,
    messages_left: u32,
}

/// Collects datagrams and sends them together. Allocates only at creation.
///
/// With GSO, datagrams for one peer and of one length leave as super-packets, even with others between
/// them: **datagrams of different lengths may overtake each other.**
#[derive(Debug)]
pub struct Sender {
    buffer: Buffer,
    payload_bytes_max: usize,
    /// Used bytes of the buffer, and peer of the datagram that begins there.
    end: usize,
    begun: Option<SocketAddr>,
    queue: Queue,
    /// Messages before this one were sent.
    first_unsent: usize,
    /// Number of unsent datagrams.
    pending: usize,
    /// The current call. Pieces are ranges of the buffer.
    planned: Vec<Planned>,
    pieces: Vec<(u32, u32)>,
    refused: Option<Refused>,
    sent: Sent,
}

impl Sender {
    /// Creates a sender for a socket with or without GSO ([`super::Granted::gso`]), for datagrams
    /// of at most `payload_bytes_max` (limited to [`DATAGRAM_PAYLOAD_BYTES_MAX`]).
    pub fn new(gso: bool, payload_bytes_max: usize) -> Self {
        let payload_bytes_max = payload_bytes_max.min(DATAGRAM_PAYLOAD_BYTES_MAX);
        Self {
            buffer: Buffer::new(SEND_BYTES + payload_bytes_max.next_multiple_of(ALIGN_BYTES)),
            payload_bytes_max,
            end: 0,
            begun: None,
            queue: Queue::new(gso),
            first_unsent: 0,
            pending: 0,
            planned: Vec::with_capacity(BURST_MESSAGES_MAX),
            pieces: Vec::with_capacity(SEND_PIECES_MAX),
            refused: None,
            sent: Sent::default(),
        }
    }

    /// Begins a datagram: returns 8-byte aligned room of the greatest length, with arbitrary
    /// contents. Returns `None` if the sender is full: call [`Self::send`] first. Only
    /// [`Self::commit`] queues the datagram. Another `begin` abandons it.
    #[inline]
    pub fn begin(&mut self, peer: SocketAddr) -> Option<&mut [u8]> {
        if self.is_full() {
            return None;
        }
        self.begun = Some(peer);
        Some(&mut self.buffer.bytes_mut()[self.end..self.end + self.payload_bytes_max])
    }

    /// Queues the first `bytes` of the begun datagram.
    ///
    /// # Panics
    /// If no datagram was begun, or `bytes` exceeds the room.
    #[inline]
    pub fn commit(&mut self, bytes: usize) {
        let peer = self.begun.take().expect("a datagram was begun");
        assert!(bytes <= self.payload_bytes_max, "longer than the room");
        self.queue.push(peer, self.end as u32, bytes as u32);
        self.end += bytes.next_multiple_of(ALIGN_BYTES);
        self.pending += 1;
    }

    /// Abandons the begun datagram, if any.
    #[inline]
    pub fn abandon(&mut self) {
        self.begun = None;
    }

    /// Returns whether there is no room for another datagram.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.end + self.payload_bytes_max > self.buffer.bytes().len() || self.queue.is_full()
    }

    /// Returns the number of unsent datagrams.
    #[inline]
    pub const fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the counters.
    pub const fn sent(&self) -> Sent {
        self.sent
    }

    /// Sends the queued datagrams. Never waits. Returns how many datagrams the kernel accepted in
    /// this call. If the socket would block, the rest stays [pending](Self::pending) until the next
    /// call or until it is [discarded](Self::discard).
    ///
    /// A datagram that cannot be sent to its peer is counted ([`Sent::failed`]) and does not hold up
    /// the others.
    ///
    /// # Errors
    /// Returns the kernel's error when the socket has become unusable. Everything stays pending.
    pub fn send(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.send_by(|memory, queue, planned, pieces| {
            let messages = planned.iter().map(|planned| Outgoing {
                peer: queue.name(planned.peer),
                segment_bytes: planned.segment_bytes,
                pieces: usize::from(planned.pieces),
            });
            let pieces = pieces.iter().map(|&(start, end)| &memory[start as usize..end as usize]);
            system::send(socket.as_fd(), messages, pieces)
        })
    }

    /// Drops all unsent datagrams and the begun one. Returns how many.
    pub fn discard(&mut self) -> usize {
        let discarded = self.pending;
        self.sent.discarded += discarded as u64;
        self.clear();
        discarded
    }

    fn send_by(
        &mut self,
        mut call: impl FnMut(&[u8], &Queue, &[Planned], &[(u32, u32)]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.begun = None;
        self.queue.close();
        let datagrams_before = self.sent.datagrams;
        while self.plan() {
            self.sent.calls += 1;
            let memory = self.buffer.bytes();
            match call(memory, &self.queue, &self.planned, &self.pieces) {
                Ok(0) => break,
                Ok(messages) => self.record_sent(messages),
                Err(error) => match (self.planned[0], Fault::of(&error)) {
                    (_, Fault::Interrupted) => {}
                    (_, Fault::WouldBlock) => break,
                    (_, Fault::Socket) => return Err(error),
                    (first, Fault::TooLong) if first.segment_bytes.is_some() => self.refuse(first),
                    (first, Fault::TooLong | Fault::Peer) => {
                        self.sent.failed += u64::from(first.datagrams);
                        self.advance(first);
                    }
                },
            }
        }
        if self.pending == 0 {
            self.clear();
        }
        Ok((self.sent.datagrams - datagrams_before) as usize)
    }

    /// Fills the next call; returns false if nothing is left.
    fn plan(&mut self) -> bool {
        self.planned.clear();
        self.pieces.clear();
        while let Some(message) = self.queue.messages.get(self.first_unsent) {
            if message.count > 0 {
                break;
            }
            self.first_unsent += 1;
        }
        for number in self.first_unsent..self.queue.messages.len() {
            let message = self.queue.messages[number];
            if message.count == 0 {
                continue; // sent, or joined to another message
            }
            let room = self.planned.len() < BURST_MESSAGES_MAX
                && self.pieces.len() + usize::from(message.count) <= SEND_PIECES_MAX;
            if !room {
                break;
            }
            if message.count == 1 || message.ungrouped || self.is_refused(&message) {
                self.queue.messages[number].ungrouped = true;
                self.plan_one_by_one(number as u16, &message);
            } else {
                self.plan_together(number as u16, &message);
            }
        }
        !self.planned.is_empty()
    }

    fn plan_one_by_one(&mut self, number: u16, message: &Message) {
        let room = BURST_MESSAGES_MAX - self.planned.len();
        for datagram in self.queue.datagrams(message).take(room) {
            self.pieces.push((datagram.start, datagram.start + datagram.bytes));
            self.planned.push(Planned {
                message: number,
                datagrams: 1,
                pieces: 1,
                peer: message.peer,
                segment_bytes: None,
            });
        }
    }

    fn plan_together(&mut self, number: u16, message: &Message) {
        let first_piece = self.pieces.len();
        for datagram in self.queue.datagrams(message) {
            let end = datagram.start + datagram.bytes;
            match self.pieces[first_piece..].last_mut() {
                Some(last) if last.1 == datagram.start => last.1 = end,
                _ => self.pieces.push((datagram.start, end)),
            }
        }
        self.planned.push(Planned {
            message: number,
            datagrams: message.count,
            pieces: (self.pieces.len() - first_piece) as u16,
            peer: message.peer,
            segment_bytes: Some(message.segment_bytes as u16),
        });
    }

    /// Returns whether similar super-packets were refused lately.
    fn is_refused(&mut self, message: &Message) -> bool {
        let Some(refused) = &mut self.refused else {
            return false;
        };
        if message.segment_bytes < refused.segment_bytes {
            return false;
        }
        if refused.messages_left == 0 {
            self.refused = None;
            return false;
        }
        refused.messages_left -= 1;
        true
    }

    /// Records a refused super-packet. Its datagrams exceed the route's MTU, or the route cannot
    /// segment.
    fn refuse(&mut self, planned: Planned) {
        let message = &mut self.queue.messages[usize::from(planned.message)];
        message.ungrouped = true;
        let known = self.refused.map_or(u32::MAX, |known| known.segment_bytes);
        self.refused = Some(Refused {
            segment_bytes: known.min(message.segment_bytes),
            messages_left: GSO_REFUSED_MESSAGES,
        });
        self.sent.gso_refused += 1;
    }

    /// Records that the kernel accepted the first messages of the call.
    fn record_sent(&mut self, messages: usize) {
        for index in 0..messages {
            let planned = self.planned[index];
            self.sent.super_packets += u64::from(planned.segment_bytes.is_some());
            self.sent.datagrams += u64::from(planned.datagrams);
            self.advance(planned);
        }
        self.sent.messages += messages as u64;
    }

    fn advance(&mut self, planned: Planned) {
        let message = usize::from(planned.message);
        self.queue.advance(message, planned.datagrams);
        self.pending -= usize::from(planned.datagrams);
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.first_unsent = 0;
        self.pending = 0;
        self.end = 0;
        self.begun = None;
    }
}

/// Meaning of an error for the first message of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A signal interrupted the call.
    Interrupted,
    /// There is no room at the moment.
    WouldBlock,
    /// The message is too long, or cannot be segmented.
    TooLong,
    /// The peer is unreachable.
    Peer,
    /// The error does not concern the message.
    Socket,
}

impl Fault {
    fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EINTR) => Self::Interrupted,
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Self::WouldBlock,
            Some(libc::EMSGSIZE | libc::EINVAL | libc::EIO | libc::EOPNOTSUPP) => Self::TooLong,
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT) | None => Self::Socket,
            Some(_) => Self::Peer,
        }
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
