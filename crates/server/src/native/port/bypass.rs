//! A worker's queue of frames, around the kernel's network stack, and its ends of the rings.
//!
//! A reply leaves in the frame of its request; what another worker has handed over came with the
//! headers of its frame, and the reply takes a frame of this queue.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use micanite_net::frames::{FramePort, FrameQueue, Header, Replies, ReplyTo};

use super::pressure::Pressure;
use crate::native::cookie::Cookies;
use crate::native::forward::Forwarded;
use crate::native::forward::ring::{self, Origin, RingEnds};
use crate::native::round::outbox::{Outbox, Part, Source, Watch};
use crate::native::round::{Round, Taken};
use crate::native::{NativeCounters, NativeShared};
use crate::session::Context;

/// A queue of frames of one worker. A benchmark watches what it does.
#[derive(Debug)]
pub struct BypassPort<Q, W = ()> {
    worker: usize,
    port: FramePort<Q>,
    pressure: Pressure,
    rings: RingEnds,
    forwarded: Forwarded,
    cookies: Cookies,
    /// Workers with queues of the same port, which can answer what comes through this one.
    colleagues: Range<usize>,
    watch: W,
}

/// The replies to a burst, or to what was handed over.
struct FrameOutbox<'a, Q, W> {
    replies: Replies<'a, Q>,
    forwarded: Option<&'a Forwarded>,
    watch: &'a mut W,
}

impl<Q: FrameQueue, W: Watch> Outbox for FrameOutbox<'_, Q, W> {
    #[inline]
    fn open(&mut self, to: Source) {
        // Without a free frame, the reply is dropped and counted.
        let number = to.number as usize;
        let Some(forwarded) = self.forwarded else {
            self.replies.open(ReplyTo::Datagram(number));
            return;
        };
        let headers = forwarded.entries[number].headers.clone();
        match Header::from_bytes(&forwarded.bytes[headers]) {
            Some(header) => drop(self.replies.open(ReplyTo::Header(&header.flipped()))),
            None => self.replies.abandon(),
        }
    }

    #[inline]
    fn slot(&mut self) -> &mut [u8] {
        self.replies.slot()
    }

    #[inline]
    fn commit(&mut self, bytes: usize) {
        self.watch.begin(Part::Headers);
        self.replies.commit(bytes);
        self.watch.begin(Part::Replies);
    }

    #[inline]
    fn begin(&mut self, part: Part) {
        self.watch.begin(part);
    }
}

impl<Q: FrameQueue + Send> BypassPort<Q> {
    /// A worker's port.
    pub fn new(worker: usize, port: FramePort<Q>, rings: RingEnds, native: &NativeShared) -> Self {
        Self::watched(worker, port, rings, native, ())
    }
}

impl<Q: FrameQueue + Send, W: Watch + Send> BypassPort<Q, W> {
    /// A worker's port with an observer.
    pub fn watched(
        worker: usize,
        port: FramePort<Q>,
        rings: RingEnds,
        native: &NativeShared,
        watch: W,
    ) -> Self {
        Self {
            worker,
            port,
            pressure: Pressure::default(),
            rings,
            forwarded: Forwarded::new(native.ring_datagram_bytes()),
            cookies: Cookies::new(native.cookie_key),
            colleagues: native.colleagues(worker),
            watch,
        }
    }

    /// Memory of a port beside its frames.
    pub fn bytes(datagram_bytes: usize) -> usize {
        Forwarded::bytes(datagram_bytes) + datagram_bytes + size_of::<Self>()
    }

    /// The queue and its counters, for tests.
    pub const fn port(&mut self) -> &mut FramePort<Q> {
        &mut self.port
    }

    /// Returns the descriptor that becomes readable when frames arrive; none if the queue has to be polled.
    #[inline]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.port.queue().descriptor()
    }

    /// Returns whether other workers have forwarded datagrams.
    pub fn has_forwarded(&self) -> bool {
        let mut rings = self.rings.from.iter().flatten();
        rings.any(|ring| ring.slots() > 0)
    }

    /// A burst of the queue and of each ring. Returns the datagrams.
    ///
    /// # Errors
    /// The queue is of no use any more.
    #[inline]
    pub fn round(&mut self, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let mut datagrams = self.receive(context, now_ms)?;
        for from in 0..self.rings.from.len() {
            datagrams += self.take_over(from, context, now_ms)?;
        }
        Ok(datagrams)
    }

    #[inline]
    fn receive(&mut self, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let Some(native) = &context.shared.native else {
            return Ok(0);
        };
        let before = self.port.counters().frames;
        self.watch.begin(Part::Headers);
        let count = self.port.recv()?;
        if count == 0 {
            self.watch.begin(Part::Other);
            if self.port.counters().frames != before {
                self.publish(native);
            }
            return Ok(0);
        }
        self.watch.begin(Part::Requests);
        let counters = &native.counters[self.worker];
        let lost = self.pressure.note(count, self.port.queue_mut().lost(), now_ms);
        if lost > 0 {
            counters.dropped_by_kernel.add(u64::from(lost));
            native.frames[self.worker].frames_lost.add(u64::from(lost));
        }
        counters.datagrams_received.add(count as u64);
        counters.burst(count);
        let (shared, level) = (context.shared, self.pressure.level(now_ms));
        let (datagrams, replies) = self.port.split();
        let mut outbox = FrameOutbox { replies, forwarded: None, watch: &mut self.watch };
        let mut round = Round::new(context.lend(), native, &mut self.cookies, &mut outbox, level);
        for datagram in datagrams {
            let (peer, number) = (datagram.found.source, datagram.number as u32);
            let source = Source { peer, number };
            let Taken::Elsewhere { owner } = round.take(datagram.bytes, source, false) else {
                continue;
            };
            if !self.colleagues.contains(&owner) {
                // The port of the owner does not reach this client.
                counters.crossed.add(1);
                round.take(datagram.bytes, source, true);
                continue;
            }
            let headers = Header::of(datagram.frame, &datagram.found);
            let origin = Origin { peer, socket: 0 };
            let ring = self.rings.to.get_mut(owner).and_then(Option::as_mut);
            if ring.is_some_and(|ring| ring::push(ring, origin, headers.as_bytes(), datagram.bytes)) {
                counters.forwarded.add(1);
                native.notify(owner, &shared.wakers);
            } else {
                counters.ring_full.add(1);
                round.turn_away(datagram.bytes, source);
            }
        }
        round.finish();
        self.send(native)?;
        Ok(count)
    }

    /// Executes what another worker has handed over; the replies leave through this queue.
    #[inline]
    fn take_over(&mut self, from: usize, context: &mut Context<'_>, now_ms: u64) -> io::Result<usize> {
        let (Some(native), Some(ring)) = (&context.shared.native, &mut self.rings.from[from]) else {
            return Ok(0);
        };
        let count = self.forwarded.fill(ring);
        if count == 0 {
            return Ok(0);
        }
        native.counters[self.worker].forwarded_in.add(count as u64);
        let level = self.pressure.level(now_ms);
        let forwarded = &self.forwarded;
        let (replies, watch) = (self.port.replies(), &mut self.watch);
        let mut outbox = FrameOutbox { replies, forwarded: Some(forwarded), watch };
        let mut round = Round::new(context.lend(), native, &mut self.cookies, &mut outbox, level);
        for (number, entry) in forwarded.entries.iter().enumerate() {
            let source = Source { peer: entry.origin.peer, number: number as u32 };
            round.take(&forwarded.bytes[entry.datagram.clone()], source, true);
        }
        round.finish();
        self.send(native)?;
        Ok(count)
    }

    /// Sends what is complete. What the queue has no room for is lost, as on the way.
    #[inline]
    fn send(&mut self, native: &NativeShared) -> io::Result<()> {
        self.watch.begin(Part::Headers);
        self.port.send()?;
        self.publish(native);
        self.watch.begin(Part::Other);
        Ok(())
    }

    /// Shows others what has been counted.
    #[inline]
    fn publish(&mut self, native: &NativeShared) {
        let of = self.port.counters();
        let unsent = self.port.queue().unsent();
        let counters: &NativeCounters = &native.counters[self.worker];
        counters.datagrams_sent.set((of.reused + of.copied).saturating_sub(unsent));
        counters.datagrams_unsent.set(unsent + of.no_frame);
        native.frames[self.worker].set(&of, unsent);
    }
}
