//! Datagrams of a queue of frames: bursts in, replies out in the frames of their requests.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use arrayvec::ArrayVec;

use super::queue::FrameBurst;
use super::replies::{Outgoing, Replies};
use super::{
    Found, Frame, FrameCounters, FrameQueue, Header, Neighbours, NotTaken, Resolution, parse,
};
use crate::limits::{FRAME_BURST_MAX, NEIGHBOUR_ANSWERS_MAX};

/// Which datagrams are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// For one of these addresses.
    pub addresses: Vec<IpAddr>,
    /// To one of these ports.
    pub ports: RangeInclusive<u16>,
}

impl Local {
    #[inline]
    fn check(&self, found: Found) -> Result<Found, NotTaken> {
        let is_ours = self.ports.contains(&found.destination.port())
            && self.addresses.contains(&found.destination.ip());
        if !is_ours {
            return Err(NotTaken::OtherProtocol);
        }
        // We would answer ourselves, and again.
        match self.addresses.contains(&found.source.ip()) {
            true => Err(NotTaken::Source),
            false => Ok(found),
        }
    }
}

/// A datagram of the last burst.
#[derive(Clone, Copy, Debug)]
pub struct FrameDatagram<'a> {
    /// Which of the burst, for [`super::ReplyTo::Datagram`].
    pub number: usize,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Its addresses.
    pub found: Found,
    /// The whole frame, for [`Header::of`].
    pub frame: &'a [u8],
}

/// Why there is no header for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// The station was asked for: try again when frames have been received.
    Asked,
    /// There is no way to it ([`Resolution::Unknown`]), or the port has no neighbours.
    NoWay,
}

/// A queue of frames and what it is made of datagrams. It allocates when it is made, and never
/// again.
#[derive(Debug)]
pub struct FramePort<Q> {
    queue: Q,
    local: Local,
    payload_bytes_max: usize,
    /// The last burst; what was answered in place is gone.
    received: ArrayVec<Option<Frame>, FRAME_BURST_MAX>,
    /// Those of them that are datagrams for us: which frame, and where in it.
    found: ArrayVec<(u8, Found), FRAME_BURST_MAX>,
    outgoing: Outgoing,
    counters: FrameCounters,
    neighbours: Option<Box<Neighbours>>,
}

impl<Q: FrameQueue> FramePort<Q> {
    /// Datagrams for `local`, of at most `payload_bytes_max`.
    pub fn new(queue: Q, local: Local, payload_bytes_max: usize) -> Self {
        Self {
            queue,
            local,
            payload_bytes_max,
            received: ArrayVec::new(),
            found: ArrayVec::new(),
            outgoing: Outgoing::new(payload_bytes_max),
            counters: FrameCounters::default(),
            neighbours: None,
        }
    }

    /// Answers for our addresses on a link where no kernel does, and asks for those of others.
    #[must_use]
    pub fn with_neighbours(mut self, neighbours: Neighbours) -> Self {
        self.neighbours = Some(Box::new(neighbours));
        self
    }

    /// Headers of datagrams from a port of ours to an address. To be kept for a second or so, not
    /// for ever: the station behind an address can change. `now_ms` never goes back.
    ///
    /// # Errors
    /// Nothing can be sent there, or not yet: then the question has left. It is asked again by
    /// calls from a second later on.
    pub fn header_to(
        &mut self,
        from_port: u16,
        to: SocketAddr,
        now_ms: u64,
    ) -> Result<Header, NoHeader> {
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

    /// Sends a frame as it is, if there is one to put it in.
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
        // An error shows at the next receive or the end of the round.
        let _ = self.queue.send(&mut self.outgoing.own);
    }

    /// The queue.
    pub const fn queue(&self) -> &Q {
        &self.queue
    }

    /// The queue, for what only it can do.
    pub const fn queue_mut(&mut self) -> &mut Q {
        &mut self.queue
    }

    /// What has happened so far.
    pub const fn counters(&self) -> FrameCounters {
        self.counters
    }

    /// Receives a burst in place of the last one; never waits. Returns the number of datagrams for
    /// us. What was committed and not sent leaves first.
    ///
    /// # Errors
    /// The queue is of no use any more.
    pub fn recv(&mut self) -> io::Result<usize> {
        self.send()?;
        self.release();
        let mut burst = FrameBurst::new();
        self.queue.recv(&mut burst)?;
        if burst.is_empty() {
            return Ok(0);
        }
        self.counters.bursts += 1;
        self.counters.frames += burst.len() as u64;
        let checksums = self.queue.receive_checksums();
        for (number, frame) in burst.into_iter().enumerate() {
            let parsed = parse(frame.bytes(), checksums);
            self.received.push(Some(frame));
            match parsed.and_then(|found| self.local.check(found)) {
                Ok(found) => self.found.push((number as u8, found)),
                Err(why) => self.refuse(number, why),
            }
        }
        if !self.outgoing.own.is_empty() {
            self.queue.send(&mut self.outgoing.own)?;
        }
        self.counters.datagrams += self.found.len() as u64;
        Ok(self.found.len())
    }

    /// Gives the frames of the last burst back.
    fn release(&mut self) {
        self.found.clear();
        for frame in self.received.drain(..).flatten() {
            self.queue.free(frame);
        }
    }

    /// Counts a frame of the burst that is not for us, unless it is answered here.
    #[cold]
    fn refuse(&mut self, number: usize, why: NotTaken) {
        self.counters.count(why);
        let is_full = self.outgoing.own.len() >= NEIGHBOUR_ANSWERS_MAX;
        let (Some(neighbours), false) = (&mut self.neighbours, is_full) else {
            return;
        };
        let (NotTaken::OtherProtocol, Some(frame)) = (why, &mut self.received[number]) else {
            return;
        };
        let (start, bytes) = (frame.start(), frame.len());
        let answer = neighbours.receive(&mut frame.buffer_mut()[start..], bytes);
        if let Some(bytes) = answer {
            frame.place(start, bytes);
            self.counters.neighbour_answers += 1;
            self.outgoing.own.extend(self.received[number].take());
        }
    }

    /// The datagrams of the last burst, and where replies go meanwhile.
    #[inline]
    pub fn split(&mut self) -> (impl Iterator<Item = FrameDatagram<'_>>, Replies<'_, Q>) {
        let received: &[Option<Frame>] = &self.received;
        let mut datagrams = ArrayVec::<_, FRAME_BURST_MAX>::new();
        for (number, (at, found)) in self.found.iter().enumerate() {
            let Some(frame) = &received[usize::from(*at)] else {
                continue;
            };
            // SAFETY: `Replies` writes only behind the frame, and what was answered in place leaves
            // its hands by `Self::send`, `Self::recv` or the end of the port: after `'_`.
            let frame = unsafe { frame.lend() };
            let start = usize::from(found.payload_start);
            datagrams.push(FrameDatagram {
                number,
                bytes: &frame[start..start + usize::from(found.payload_bytes)],
                found: *found,
                frame,
            });
        }
        (datagrams.into_iter(), self.replies())
    }

    /// Where datagrams go that answer none of the last burst, or some of it that were read before.
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

    /// Sends what was committed.
    ///
    /// # Errors
    /// The queue is of no use any more.
    pub fn send(&mut self) -> io::Result<()> {
        self.outgoing.abandon(&mut self.queue);
        if !self.outgoing.reused.is_empty() {
            self.queue.send(&mut self.outgoing.reused)?;
        }
        if !self.outgoing.own.is_empty() {
            self.queue.send(&mut self.outgoing.own)?;
        }
        Ok(())
    }
}
