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

/// So many frames ahead of the one that is parsed the memory is asked for.
const PREFETCH_FRAMES: usize = 4;

/// Which datagrams are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// For one of these addresses.
    pub addresses: Vec<IpAddr>,
    /// To one of these ports.
    pub ports: RangeInclusive<u16>,
}

/// [`Local`] as frames have it.
#[derive(Debug)]
struct Own {
    v4: Vec<[u8; 4]>,
    v6: Vec<[u8; 16]>,
    ports: RangeInclusive<u16>,
}

impl Own {
    fn new(local: &Local) -> Self {
        let mut own = Self {
            v4: Vec::new(),
            v6: Vec::new(),
            ports: local.ports.clone(),
        };
        for address in &local.addresses {
            match address {
                IpAddr::V4(address) => own.v4.push(address.octets()),
                IpAddr::V6(address) => own.v6.push(address.octets()),
            }
        }
        own
    }

    /// Whether a datagram is for us, and not from us: we would answer ourselves, and again.
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
    own: Own,
    payload_bytes_max: usize,
    /// The last burst, until replies to it are sent.
    received: FrameBurst,
    /// Those of them that are datagrams for us: which frame, and where in it.
    found: ArrayVec<(u8, Place), FRAME_BURST_MAX>,
    outgoing: Outgoing,
    counters: FrameCounters,
    neighbours: Option<Box<Neighbours>>,
}

impl<Q: FrameQueue> FramePort<Q> {
    /// Datagrams for `local`, of at most `payload_bytes_max`.
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

    /// Gives the frames of the last burst back.
    fn release(&mut self) {
        self.found.clear();
        for frame in self.received.drain(..) {
            self.queue.free(frame);
        }
    }

    /// Counts a frame of the burst that is not for us. If it is answered here it leaves, the last
    /// one of the burst is in its place, and this is true.
    #[cold]
    fn refuse(&mut self, number: usize, why: NotTaken) -> bool {
        self.counters.count(why);
        let is_full = self.outgoing.own.len() >= NEIGHBOUR_ANSWERS_MAX;
        let (Some(neighbours), false, NotTaken::OtherProtocol) =
            (&mut self.neighbours, is_full, why)
        else {
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

    /// The datagrams of the last burst, and where replies go meanwhile.
    #[inline]
    pub fn split(&mut self) -> (impl Iterator<Item = FrameDatagram<'_>>, Replies<'_, Q>) {
        let frames: ArrayVec<&[u8], FRAME_BURST_MAX> = self
            .found
            .iter()
            // SAFETY: `Replies` writes only behind the frame, and what was answered in place leaves
            // its hands by `Self::send`, `Self::recv` or the end of the port: after `'_`.
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

    /// Sends what was committed. If there are replies to the last burst among it, that ends the
    /// burst: datagrams of it that were not answered are not answered any more.
    ///
    /// # Errors
    /// The queue is of no use any more.
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
