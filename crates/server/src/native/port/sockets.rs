//! A worker's sockets of the kernel's, and its ends of the rings.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use micanite_net::datagram::{Receiver, Sender, UdpSocket};
use micanite_net::limits::{
    BURST_MESSAGES_MAX, BURST_SUPER_PACKETS_MAX, RECEIVE_BYTES_MIN, SEND_BYTES, SUPER_PACKET_BYTES,
};

use super::pressure::Pressure;
use crate::native::cookie::Cookies;
use crate::native::forward::Forwarded;
use crate::native::forward::ring::{self, Origin, RingEnds};
use crate::native::round::outbox::{Outbox, Source};
use crate::native::round::{Round, Taken};
use crate::native::{NativeCounters, NativeShared};
use crate::session::Context;

/// The sockets of all workers: by worker, then by address.
pub type Sockets = Arc<[Box<[UdpSocket]>]>;

/// The sockets of one worker, one for each address.
#[derive(Debug)]
pub struct SocketPort {
    worker: usize,
    sockets: Sockets,
    arrivals: Vec<Arrival>,
    sender: Sender,
    rings: RingEnds,
    forwarded: Forwarded,
    cookies: Cookies,
    /// Workers of the same interface.
    colleagues: Range<usize>,
}

/// The receiving and the sending side of one socket.
#[derive(Debug)]
struct Arrival {
    receiver: Receiver,
    pressure: Pressure,
    /// The last burst, as far as it has been taken.
    next: usize,
    count: usize,
}

/// A sender and the socket it sends through.
struct SocketOutbox<'a> {
    sender: &'a mut Sender,
    socket: &'a UdpSocket,
    counters: &'a NativeCounters,
    /// Receiver of the open datagram.
    peer: SocketAddr,
}

impl<'a> SocketOutbox<'a> {
    fn new(sender: &'a mut Sender, socket: &'a UdpSocket, counters: &'a NativeCounters) -> Self {
        Self { sender, socket, counters, peer: SocketAddr::from(([0, 0, 0, 0], 0)) }
    }

    /// Sends what is complete. What the network does not take at once is lost, as on the way.
    fn send(&mut self) {
        let pending = self.sender.pending();
        if pending == 0 {
            return;
        }
        let failed = self.sender.sent().failed;
        // The error is that of the socket; every datagram that it cost is counted below.
        let sent = self.sender.send(self.socket).unwrap_or(0);
        self.counters.datagrams_sent.add(sent as u64);
        let unsent = self.sender.discard() as u64 + self.sender.sent().failed - failed;
        self.counters.datagrams_unsent.add(unsent);
    }
}

impl Outbox for SocketOutbox<'_> {
    #[inline]
    fn open(&mut self, to: Source) {
        self.peer = to.peer;
        if self.sender.is_full() {
            self.send();
        }
    }

    #[inline]
    fn slot(&mut self) -> &mut [u8] {
        let room = self.sender.begin(self.peer);
        room.expect("an empty sender takes a datagram")
    }

    #[inline]
    fn commit(&mut self, bytes: usize) {
        self.sender.commit(bytes);
    }
}

impl SocketPort {
    /// Memory of one worker's port with so many addresses.
    pub fn bytes(addresses: usize, payload_bytes: usize, gro: bool) -> usize {
        let receiver_bytes = match gro {
            true => BURST_SUPER_PACKETS_MAX * SUPER_PACKET_BYTES,
            false => BURST_MESSAGES_MAX * payload_bytes.max(RECEIVE_BYTES_MIN),
        };
        addresses * receiver_bytes + SEND_BYTES + Forwarded::bytes(payload_bytes)
    }

    /// A worker's port.
    pub fn new(worker: usize, sockets: Sockets, rings: RingEnds, native: &NativeShared) -> Self {
        let payload_bytes = native.payload_bytes;
        let gso = sockets[worker].iter().all(|socket| socket.granted().gso);
        let arrival = |socket: &UdpSocket| Arrival {
            receiver: Receiver::new(socket.granted().gro, payload_bytes),
            pressure: Pressure::default(),
            next: 0,
            count: 0,
        };
        Self {
            worker,
            arrivals: sockets[worker].iter().map(arrival).collect(),
            sockets,
            sender: Sender::new(gso, payload_bytes),
            rings,
            forwarded: Forwarded::new(payload_bytes),
            cookies: Cookies::new(native.cookie_key),
            colleagues: native.colleagues(worker),
        }
    }

    /// Descriptors to wait for.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets[self.worker].iter().map(AsFd::as_fd)
    }

    /// A burst of each socket, or what is left of the last one, and one of each ring. Returns the datagrams.
    ///
    /// # Errors
    /// A socket is broken.
    pub fn round(&mut self, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let mut datagrams = 0;
        for socket in 0..self.arrivals.len() {
            datagrams += self.receive(socket, context, now_ms)?;
        }
        for from in 0..self.rings.from.len() {
            datagrams += self.take_over(from, context, now_ms);
        }
        Ok(datagrams)
    }

    /// Returns whether other workers have forwarded datagrams.
    pub fn has_forwarded(&self) -> bool {
        let mut rings = self.rings.from.iter().flatten();
        rings.any(|ring| ring.slots() > 0)
    }

    #[inline]
    fn receive(&mut self, number: usize, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let Some(native) = &context.shared.native else {
            return Ok(0);
        };
        let counters = &native.counters[self.worker];
        let socket = &self.sockets[self.worker][number];
        let Arrival { receiver, pressure, next, count } = &mut self.arrivals[number];
        if *next == *count {
            (*next, *count) = (0, receiver.recv(socket)?);
            if *count == 0 {
                return Ok(0);
            }
            let dropped = pressure.note(*count, receiver.dropped(), now_ms);
            counters.dropped_by_kernel.add(u64::from(dropped));
            counters.datagrams_received.add(*count as u64);
            counters.burst(*count);
        }
        let first = *next;
        let mut outbox = SocketOutbox::new(&mut self.sender, socket, counters);
        let shared = context.shared;
        let lent = context.lend();
        let mut round = Round::new(lent, native, &mut self.cookies, &mut outbox, pressure.level(now_ms));
        while let Some(datagram) = receiver.get(*next).filter(|_| !round.is_over()) {
            *next += 1;
            let peer = datagram.peer;
            if datagram.truncated {
                counters.bad_datagrams.add(1);
                continue;
            }
            let Taken::Elsewhere { owner } = round.take(datagram.bytes, peer.into(), false) else {
                continue;
            };
            let origin = Origin { peer, socket: number as u16 };
            let ring = self.rings.to.get_mut(owner).and_then(Option::as_mut);
            if ring.is_some_and(|ring| ring::push(ring, origin, &[], datagram.bytes)) {
                counters.forwarded.add(1);
                counters.crossed.add(u64::from(!self.colleagues.contains(&owner)));
                native.notify(owner, &shared.wakers);
            } else {
                counters.ring_full.add(1);
                round.turn_away(datagram.bytes, peer.into());
            }
        }
        round.finish();
        outbox.send();
        Ok(*next - first)
    }

    /// Executes what another worker has handed over; the replies leave through its sockets.
    #[inline]
    fn take_over(&mut self, from: usize, context: &mut Context<'_>, now_ms: u64) -> usize {
        let (Some(native), Some(ring)) = (&context.shared.native, &mut self.rings.from[from]) else {
            return 0;
        };
        let count = self.forwarded.fill(ring);
        if count == 0 {
            return 0;
        }
        let counters = &native.counters[self.worker];
        counters.forwarded_in.add(count as u64);
        let pressure = self.arrivals.first();
        let pressure = pressure.map_or(0, |arrival| arrival.pressure.level(now_ms));
        let forwarded = &self.forwarded;
        for number in 0..self.sockets[from].len() {
            let socket = &self.sockets[from][number];
            let mut outbox = SocketOutbox::new(&mut self.sender, socket, counters);
            let lent = context.lend();
            let mut round = Round::new(lent, native, &mut self.cookies, &mut outbox, pressure);
            for entry in &forwarded.entries {
                if usize::from(entry.origin.socket) == number {
                    let datagram = &forwarded.bytes[entry.datagram.clone()];
                    round.take(datagram, entry.origin.peer.into(), true);
                }
            }
            round.finish();
            outbox.send();
        }
        count
    }
}
