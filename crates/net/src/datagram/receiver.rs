//! Receives datagrams in bursts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;

use super::UdpSocket;
use super::buffer::{Buffer, LINE_BYTES};
use super::system::{self, Slot};
use crate::limits::{
    BURST_MESSAGES_MAX, BURST_SUPER_PACKETS_MAX, DATAGRAM_PAYLOAD_BYTES_MAX, RECEIVE_BYTES_MIN,
    RECEIVE_SEGMENTS, SUPER_PACKET_BYTES,
};

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Payload. It begins at a cache line if the datagram arrived in a message of its own. Payloads
    /// of a super-packet follow each other without gaps, so their length decides their alignment.
    pub bytes: &'a [u8],
    pub peer: SocketAddr,
    /// The datagram was longer than the buffer. `bytes` holds only its beginning.
    pub truncated: bool,
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub calls: u64,
    /// Messages from the network stack: datagrams and super-packets.
    pub messages: u64,
    /// Messages that were super-packets.
    pub super_packets: u64,
    /// Datagrams, after splitting super-packets.
    pub datagrams: u64,
    /// Datagrams that were longer than the buffer; they count in `datagrams`, too.
    pub truncated: u64,
    /// Messages without a usable address or with incomplete control messages; not delivered.
    pub unusable: u64,
}

/// Location of a datagram.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    bytes: u16,
    slot: u8,
    truncated: bool,
}

/// Receives bursts of datagrams into its own memory. Allocates only at creation.
#[derive(Debug)]
pub struct Receiver {
    slots: Box<[Slot]>,
    /// Senders of the messages in the slots.
    peers: Box<[SocketAddr]>,
    buffer: Buffer,
    /// Bytes of `buffer` that a message may fill.
    room_bytes: usize,
    /// Distance between the buffers of two messages.
    stride_bytes: usize,
    spans: Vec<Span>,
    dropped: u32,
    received: Received,
}

impl Receiver {
    /// Creates buffers for a socket with or without GRO ([`super::Granted::gro`]).
    ///
    /// Datagrams of at most `payload_bytes_max`, and at most [`DATAGRAM_PAYLOAD_BYTES_MAX`], arrive
    /// whole. Longer ones may be truncated.
    pub fn new(gro: bool, payload_bytes_max: usize) -> Self {
        let room_bytes = if gro {
            SUPER_PACKET_BYTES
        } else {
            payload_bytes_max
                .clamp(RECEIVE_BYTES_MIN, DATAGRAM_PAYLOAD_BYTES_MAX)
                .next_multiple_of(LINE_BYTES)
        };
        // The extra line keeps messages from beginning in the same sets of the CPU's cache.
        let stride_bytes = room_bytes + LINE_BYTES;
        let (slots, segments) =
            if gro { (BURST_SUPER_PACKETS_MAX, RECEIVE_SEGMENTS) } else { (BURST_MESSAGES_MAX, 1) };
        let unknown = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self {
            slots: vec![Slot::EMPTY; slots].into(),
            peers: vec![unknown; slots].into(),
            buffer: Buffer::new(slots * stride_bytes),
            room_bytes,
            stride_bytes,
            spans: Vec::with_capacity(slots * segments),
            dropped: 0,
            received: Received::default(),
        }
    }

    /// Receives a burst, which replaces the last one. Never waits. Returns the number of datagrams,
    /// or 0.
    ///
    /// # Errors
    /// Returns the kernel's error when the socket has become unusable.
    pub fn recv(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.spans.clear();
        let room_bytes = self.room_bytes;
        let places = self.buffer.bytes_mut().chunks_exact_mut(self.stride_bytes);
        let buffers = places.map(|place| &mut place[..room_bytes]);
        self.received.calls += 1;
        let messages = match system::receive(socket.as_fd(), &mut self.slots, buffers) {
            Ok(messages) => messages,
            Err(error) => return is_temporary(&error).then_some(0).ok_or(error),
        };
        self.received.messages += messages as u64;
        for slot in 0..messages {
            self.split(slot);
        }
        self.received.datagrams += self.spans.len() as u64;
        Ok(self.spans.len())
    }

    /// Records the datagrams of a message.
    fn split(&mut self, number: usize) {
        let slot = &self.slots[number];
        let control = slot.control.parse(slot.control_bytes);
        if let Some(dropped) = control.dropped {
            self.dropped = dropped;
        }
        // Without its control messages, a super-packet would look like one datagram.
        let complete = slot.flags & libc::MSG_CTRUNC == 0;
        let Some(peer) = slot.name.address(slot.name_bytes).filter(|_| complete) else {
            self.received.unusable += 1;
            return;
        };
        self.peers[number] = peer;
        let end = slot.bytes.min(self.room_bytes);
        let step = control.segment_bytes.unwrap_or(end);
        self.received.super_packets += u64::from(step < end);
        let mut at = 0;
        loop {
            let bytes = step.min(end - at);
            let last = at + bytes == end;
            let truncated = last && slot.flags & libc::MSG_TRUNC != 0;
            self.received.truncated += u64::from(truncated);
            self.spans.push(Span {
                start: (number * self.stride_bytes + at) as u32,
                // At most DATAGRAM_PAYLOAD_BYTES_MAX, or a few more over IPv6.
                bytes: bytes as u16,
                slot: number as u8,
                truncated,
            });
            at += bytes;
            if last {
                break;
            }
        }
    }

    /// Iterates over the datagrams of the last burst. Those of one peer are in their order of
    /// arrival.
    pub fn datagrams(&self) -> impl ExactSizeIterator<Item = Datagram<'_>> {
        self.spans.iter().map(|span| self.at(span))
    }

    /// Returns a datagram of the last burst by its number, below the result of [`Self::recv`].
    #[inline]
    pub fn get(&self, number: usize) -> Option<Datagram<'_>> {
        self.spans.get(number).map(|span| self.at(span))
    }

    #[inline]
    fn at(&self, span: &Span) -> Datagram<'_> {
        let start = span.start as usize;
        Datagram {
            bytes: &self.buffer.bytes()[start..start + usize::from(span.bytes)],
            peer: self.peers[usize::from(span.slot)],
            truncated: span.truncated,
        }
    }

    /// Returns how many messages the socket had dropped when the last message arrived, because its
    /// queue was full; since the socket was opened, wrapping. A super-packet is one message.
    /// [`UdpSocket::receive_queue`] returns the number without waiting for another message.
    pub const fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Returns the counters.
    pub const fn received(&self) -> Received {
        self.received
    }
}

/// Returns whether the error means only that nothing arrived, or that a signal interrupted the
/// call.
fn is_temporary(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted)
}

const _: () = {
    // Limits of a span's fields.
    assert!(SUPER_PACKET_BYTES - 1 <= u16::MAX as usize);
    assert!(BURST_MESSAGES_MAX <= u8::MAX as usize);
    assert!(BURST_MESSAGES_MAX * (SUPER_PACKET_BYTES + 2 * LINE_BYTES) < u32::MAX as usize);
};

#[cfg(test)]
mod tests {
    use super::super::address::Name;
    use super::*;

    /// Creates a receiver with one message in its first slot, as if received from the kernel.
    fn with_message(bytes: usize, flags: libc::c_int) -> Receiver {
        let mut receiver = Receiver::new(true, 1472);
        let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
        receiver.slots[0].name = Name::from(peer);
        receiver.slots[0].name_bytes = 16;
        receiver.slots[0].bytes = bytes;
        receiver.slots[0].flags = flags;
        receiver
    }

    #[test]
    fn messages_with_truncated_control_are_not_delivered() {
        let mut receiver = with_message(100, libc::MSG_CTRUNC);
        receiver.split(0);
        assert_eq!(receiver.datagrams().len(), 0);
        assert_eq!(receiver.received().unusable, 1);
    }

    #[test]
    fn messages_without_an_address_are_not_delivered() {
        let mut receiver = with_message(100, 0);
        receiver.slots[0].name_bytes = 0;
        receiver.split(0);
        assert_eq!(receiver.datagrams().len(), 0);
        assert_eq!(receiver.received().unusable, 1);
    }

    #[test]
    fn the_longest_message_fits_its_span() {
        let mut receiver = with_message(65_535, libc::MSG_TRUNC);
        receiver.split(0);
        let datagram = receiver.get(0).unwrap();
        assert_eq!((datagram.bytes.len(), datagram.truncated), (65_535, true));
        assert_eq!(datagram.bytes.as_ptr().align_offset(LINE_BYTES), 0);
        assert_eq!(receiver.get(1), None);
    }
}
