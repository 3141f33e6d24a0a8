//! Datagrams of a queue of frames: bursts in, replies out in the frames of their requests.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use arrayvec::ArrayVec;

use super::parse::{Addresses, Place, locate};
use super::queue::FrameBurst;
use super::replies::{Outgoing, Replies};
use super::{Found, FrameCounters, FrameQueue, Header, Neighbours, NotTaken, Resolution};
use crate::limits::{FRAME_BURST_MAX, NEIGHBOUR_ANSWERS_MAX};

/// Distance between the parsed frame and the prefetched one.
const PREFETCH_FRAMES: usize = 4;

/// Addresses and ports of a port's datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    pub addresses: Vec<IpAddr>,
    pub ports: RangeInclusive<u16>,
}

/// [`Local`] in the byte order of frames.
#[derive(Debug)]
struct Own {
    v4: Vec<[u8; 4]>,
    v6: Vec<[u8; 16]>,
    ports: RangeInclusive<u16>,
}

impl Own {
    fn new(local: &Local) -> Self {
        let mut own = Self { v4: Vec::new(), v6: Vec::new(), ports: local.ports.clone() };
        for address in &local.addresses {
            match address {
                IpAddr::V4(address) => own.v4.push(address.octets()),
                IpAddr::V6(address) => own.v6.push(address.octets()),
            }
        }
        own
    }

    /// Checks that a datagram is for this port, and not from its own addresses: the port would
    /// answer itself for ever.
    #[inline]
    fn check(&self, frame: &[u8], place: Place) -> Result<Place, NotTaken> {
        let (from_us, for_us) = match place.addresses(frame) {
            Addresses::V4([from, to]) => (self.v4.contains(from), self.v4.contains(to)),
            Addresses::V6([from, to]) => (self.v6.contains(from), self.v6.contains(to)),
        };
        match (for_us && self.ports.contains(&place.port(frame)), from_us) {
            (true, false) => Ok(place),
            (true, true) => Err(NotTaken::Source),
            (false, _) => Err(NotTaken::OtherProtocol),
        }
    }
}

/// A datagram of the last burst.
#[derive(Clone, Copy, Debug)]
pub struct FrameDatagram<'a> {
    /// Number in the burst, for [`super::ReplyTo::Datagram`].
    pub number: usize,
    pub bytes: &'a [u8],
    /// Parsed headers.
    pub found: Found,
    /// The whole frame, for [`Header::of`].
    pub frame: &'a [u8],
}

/// Reasons why there is no header for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// The station was requested: try again after frames were received.
    Asked,
    /// There is no way to it ([`Resolution::Unknown`]), or the port has no neighbours.
    NoWay,
}

/// A queue of frames with the datagrams in them. Allocates only at creation.
#[derive(Debug)]
pub struct FramePort<Q> {
    queue: Q,
    own: Own,
    payload_bytes_max: usize,
    /// The last burst, until replies to it are sent.
    received: FrameBurst,
    /// Datagrams of the burst for this port: number of the frame, and place in it.
    found: ArrayVec<(u8, Place), FRAME_BURST_MAX>,
    outgoing: Outgoing,
    counters: FrameCounters,
    neighbours: Option<Box<Neighbours>>,
}

impl<Q: FrameQueue> FramePort<Q> {
    /// Creates a port for datagrams to `local`, of at most `payload_bytes_max`.
    pub fn new(queue: Q, local: Local, payload_bytes_max: usize) -> Self {
        Self {
            queue,
            own: Own::new(&local),
            payload_bytes_max,
            received: ArrayVec::new(),
            found: ArrayVec::new(),
            outgoing: Outgoing::new(payload_bytes_max),
            counters: FrameCounters::default(),
            neighbours: None,
        }
    }

    /// Answers neighbour requests for own addresses and requests those of others, on a link without
    /// a kernel.
    #[must_use]
    pub fn with_neighbours(mut self, neighbours: Neighbours) -> Self {
        self.neighbours = Some(Box::new(neighbours));
        self
    }

    /// Returns headers for datagrams from an own port to an address. Keep them for about a second, not
    /// longer: the station behind an address can change. `now_ms` never decreases.
    ///
    /// # Errors
    /// The address is unreachable, or not known yet: then a request was sent. Calls after a second
    /// repeat the request.
    pub fn header_to(&mut self, from_port: u16, to: SocketAddr, now_ms: u64) -> Result<Header, NoHeader> {
        let neighbours = self.neighbours.as_mut().ok_or(NoHeader::NoWay)?;
        let (resolution, question) = neighbours.resolve(to.ip(), now_ms);
        let source = neighbours.source_for(to.ip());
        let from_mac = neighbours.mac();
        if let Some(question) = question {
            self.send_frame(&question);
        }
        match (resolution, source) {
            (Resolution::Known(mac), Some(from)) => {
                let from = SocketAddr::new(from, from_port);
                Ok(Header::new((from_mac, from), (mac, to), None))
            }
            (Resolution::Asked, _) => Err(NoHeader::Asked),
            _ => Err(NoHeader::NoWay),
        }
    }

    /// Sends a complete frame, if the queue has a free one.
    fn send_frame(&mut self, bytes: &[u8]) {
        let Some(mut frame) = self.queue.alloc() else {
            return;
        };
        let start = frame.start();
        if !frame.has_room(start, bytes.len()) {
            return self.queue.free(frame);
        }
        frame.buffer_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        frame.place(start, bytes.len());
        self.outgoing.push_own(&mut self.queue, frame);
        // An error shows at the next receive, or at the end of the round.
        let _ = self.queue.send(&mut self.outgoing.own);
    }

    pub const fn queue(&self) -> &Q {
        &self.queue
    }

    /// Returns the queue, for backend-specific calls.
    pub const fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }

    pub const fn counters(&self) -> FrameCounters {
        self.counters
    }

    /// Receives a burst, which replaces the last one. Never waits. Returns the number of datagrams
    /// for this port. Sends committed datagrams first.
    ///
    /// # Errors
    /// The queue has become unusable.
    pub fn recv(&mut self) -> io::Result<usize> {
        self.send()?;
        self.release();
        self.queue.recv(&mut self.received)?;
        if self.received.is_empty() {
            return Ok(0);
        }
        self.counters.bursts += 1;
        self.counters.frames += self.received.len() as u64;
        let checksums = self.queue.receive_checksums();
        for ahead in self.received.iter().take(PREFETCH_FRAMES) {
            ahead.prefetch();
        }
        let mut number = 0;
        while let Some(frame) = self.received.get(number) {
            if let Some(ahead) = self.received.get(number + PREFETCH_FRAMES) {
                ahead.prefetch();
            }
            let bytes = frame.bytes();
            let placed = locate(bytes, checksums);
            match placed.and_then(|place| self.own.check(bytes, place)) {
                Ok(place) => self.found.push((number as u8, place)),
                Err(why) if self.refuse(number, why) => continue,
                Err(_) => {}
            }
            number += 1;
        }
        if !self.outgoing.own.is_empty() {
            self.queue.send(&mut self.outgoing.own)?;
        }
        self.counters.datagrams += self.found.len() as u64;
        Ok(self.found.len())
    }

    /// Frees the frames of the last burst.
    fn release(&mut self) {
        self.found.clear();
        for frame in self.received.drain(..) {
            self.queue.free(frame);
        }
    }

    /// Counts a frame of the burst that is not for this port. If it is answered here, it leaves,
    /// the last frame of the burst takes its place, and this returns true.
    #[cold]
    fn refuse(&mut self, number: usize, why: NotTaken) -> bool {
        self.counters.count(why);
        let is_full = self.outgoing.own.len() >= NEIGHBOUR_ANSWERS_MAX;
        let (Some(neighbours), false, NotTaken::OtherProtocol) = (&mut self.neighbours, is_full, why) else {
            return false;
        };
        let frame = &mut self.received[number];
        let (start, bytes) = (frame.start(), frame.len());
        let Some(bytes) = neighbours.receive(&mut frame.buffer_mut()[start..], bytes) else {
            return false;
        };
        let mut frame = self.received.swap_remove(number);
        frame.place(start, bytes);
        self.counters.neighbour_answers += 1;
        self.outgoing.own.push(frame);
        true
    }

    /// Splits the port into the datagrams of the last burst and the sink for replies.
    #[inline]
    pub fn split(&mut self) -> (impl Iterator<Item = FrameDatagram<'_>>, Replies<'_, Q>) {
        let frames: ArrayVec<&[u8], FRAME_BURST_MAX> = self
            .found
            .iter()
            // SAFETY: `Replies` writes only behind the frame, and a frame that was answered in
            // place leaves its hands by `Self::send`, `Self::recv` or the end of the port: after
            // `'_`.
            .map(|(frame, _)| unsafe { self.received[usize::from(*frame)].lend() })
            .collect();
        let answered = self.outgoing.answered;
        let replies = Replies {
            queue: &mut self.queue,
            received: &mut self.received,
            found: &self.found,
            outgoing: &mut self.outgoing,
            counters: &mut self.counters,
            payload_bytes_max: self.payload_bytes_max,
        };
        let datagrams = frames.into_iter().zip(&self.found).enumerate();
        let open = datagrams.filter(move |(_, (_, (frame, _)))| answered & 1 << frame == 0);
        let datagrams = open.map(|(number, (frame, (_, place)))| FrameDatagram {
            number,
            bytes: place.payload(frame),
            found: place.found(frame),
            frame,
        });
        (datagrams, replies)
    }

    /// Returns the sink for datagrams that answer no request of the last burst, or requests that
    /// were read before.
    #[inline]
    pub fn replies(&mut self) -> Replies<'_, Q> {
        Replies {
            queue: &mut self.queue,
            received: &mut self.received,
            found: &self.found,
            outgoing: &mut self.outgoing,
            counters: &mut self.counters,
            payload_bytes_max: self.payload_bytes_max,
        }
    }

    /// Sends committed datagrams. If they include replies to the last burst, this ends the burst:
    /// its other datagrams can no longer be answered.
    ///
    /// # Errors
    /// The queue has become unusable.
    pub fn send(&mut self) -> io::Result<()> {
        self.outgoing.abandon(&mut self.queue);
        if self.outgoing.answered != 0 {
            self.send_answered()?;
        }
        if !self.outgoing.own.is_empty() {
            self.queue.send(&mut self.outgoing.own)?;
        }
        Ok(())
    }

    #[inline]
    fn send_answered(&mut self) -> io::Result<()> {
        let answered = std::mem::take(&mut self.outgoing.answered);
        self.found.clear();
        if answered.count_ones() as usize == self.received.len() {
            return self.queue.send(&mut self.received);
        }
        let mut replies = FrameBurst::new();
        for (number, frame) in self.received.drain(..).enumerate() {
            match answered & 1 << number {
                0 => self.queue.free(frame),
                _ => replies.push(frame),
            }
        }
        self.queue.send(&mut replies)
    }
}
