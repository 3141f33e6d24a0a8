//! Datagrams of a queue of frames: bursts in, replies out in the frames of their requests.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use arrayvec::ArrayVec;

use super::header::{complete, write_flipped};
use super::queue::FrameBurst;
use super::{Found, Frame, FrameQueue, Header, NotTaken, parse};
use crate::limits::FRAME_BURST_MAX;

/// What has happened to the frames of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Bursts that were not empty.
    pub bursts: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Those of them that were datagrams for us.
    pub datagrams: u64,
    /// Frames of other protocols, for other addresses or ports.
    pub not_ours: u64,
    /// Fragments; dropped.
    pub fragments: u64,
    /// Frames with IPv4 options or IPv6 extension headers; dropped.
    pub options: u64,
    /// Frames whose lengths are wrong; dropped.
    pub bad_lengths: u64,
    /// Frames whose checksums are wrong; dropped.
    pub bad_checksums: u64,
    /// Frames from addresses that nobody has; dropped.
    pub bad_sources: u64,
    /// Replies that left in the frame of their request.
    pub reused: u64,
    /// Datagrams that left in a frame of their own: there was no room behind the request, or it
    /// came from elsewhere.
    pub copied: u64,
    /// Datagrams for which there was no frame.
    pub no_frame: u64,
}

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
    fn has(&self, found: &Found) -> bool {
        self.ports.contains(&found.destination.port())
            && self.addresses.contains(&found.destination.ip())
    }
}

/// A datagram of the last burst.
#[derive(Clone, Copy, Debug)]
pub struct FrameDatagram<'a> {
    /// Which of the burst, for [`ReplyTo::Datagram`].
    pub number: usize,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Its addresses.
    pub found: Found,
    /// The whole frame, for [`Header::of`].
    pub frame: &'a [u8],
}

/// What is answered, or to whom something is sent.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo<'h> {
    /// A datagram of the last burst, in its frame if there is room, once.
    Datagram(usize),
    /// With these headers.
    Header(&'h Header),
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
}

/// Frames that are about to leave.
#[derive(Debug)]
struct Outgoing {
    /// Replies in the frames of their requests: not before the end of the round, for the requests
    /// may be in use.
    reused: FrameBurst,
    own: FrameBurst,
    open: Open,
    /// Where a datagram is written for which there is no frame.
    nowhere: Box<[u8]>,
}

/// Where the datagram lies that is being written.
#[derive(Debug)]
enum Open {
    Nothing,
    /// Behind the request, which is that frame of the burst; the reply's begin, and where its
    /// payload begins in it.
    Behind {
        frame: u8,
        at: u32,
        found: Found,
    },
    Own {
        frame: Frame,
        layers: (u8, u8),
        header_bytes: u8,
    },
    Nowhere,
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
            outgoing: Outgoing {
                reused: ArrayVec::new(),
                own: ArrayVec::new(),
                open: Open::Nothing,
                nowhere: vec![0; payload_bytes_max].into(),
            },
            counters: FrameCounters::default(),
        }
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
    /// us.
    ///
    /// # Errors
    /// The queue is of no use any more.
    pub fn recv(&mut self) -> io::Result<usize> {
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
            match parse(frame.bytes(), checksums) {
                Ok(found) if self.local.has(&found) => self.found.push((number as u8, found)),
                Ok(_) => self.counters.not_ours += 1,
                Err(why) => self.count(why),
            }
            self.received.push(Some(frame));
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

    #[cold]
    fn count(&mut self, why: NotTaken) {
        let counters = &mut self.counters;
        *match why {
            NotTaken::OtherProtocol => &mut counters.not_ours,
            NotTaken::Fragment => &mut counters.fragments,
            NotTaken::Options => &mut counters.options,
            NotTaken::Length => &mut counters.bad_lengths,
            NotTaken::Checksum => &mut counters.bad_checksums,
            NotTaken::Source => &mut counters.bad_sources,
        } += 1;
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
            // its hands by `Replies::finish`, `Self::recv` or the end of the port: after `'_`.
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
        self.outgoing.open = Open::Nothing;
        if !self.outgoing.reused.is_empty() {
            self.queue.send(&mut self.outgoing.reused)?;
        }
        if !self.outgoing.own.is_empty() {
            self.queue.send(&mut self.outgoing.own)?;
        }
        Ok(())
    }
}

/// Takes datagrams that leave; see [`FramePort::split`].
#[derive(Debug)]
pub struct Replies<'a, Q> {
    queue: &'a mut Q,
    received: &'a mut [Option<Frame>],
    found: &'a [(u8, Found)],
    outgoing: &'a mut Outgoing,
    counters: &'a mut FrameCounters,
    payload_bytes_max: usize,
}

impl<Q: FrameQueue> Replies<'_, Q> {
    /// Begins a datagram; returns whether there is a frame for it. What was begun before and not
    /// committed is given up.
    #[inline]
    pub fn open(&mut self, to: ReplyTo<'_>) -> bool {
        self.abandon();
        let header = match to {
            ReplyTo::Datagram(number) => {
                let (frame, found) = self.found[number];
                let Some(request) = &mut self.received[usize::from(frame)] else {
                    // It was answered already, and its frame is gone with the headers.
                    self.outgoing.open = Open::Nowhere;
                    return false;
                };
                let at = request.behind();
                let bytes = usize::from(found.payload_start) + self.payload_bytes_max;
                if request.has_room(at, bytes) {
                    let at = at as u32;
                    self.outgoing.open = Open::Behind { frame, at, found };
                    return true;
                }
                Header::of(request.bytes(), &found).flipped()
            }
            ReplyTo::Header(header) => *header,
        };
        self.open_own(&header);
        !matches!(self.outgoing.open, Open::Nowhere)
    }

    #[cold]
    fn open_own(&mut self, header: &Header) {
        if self.outgoing.own.is_full() {
            // An error shows at the next receive or the end of the round.
            let _ = self.queue.send(&mut self.outgoing.own);
        }
        let layers = header.layers();
        let needed = header.len() + self.payload_bytes_max;
        self.outgoing.open = match self.queue.alloc() {
            Some(mut frame) if frame.has_room(frame.start(), needed) => {
                let start = frame.start();
                frame.buffer_mut()[start..start + header.len()].copy_from_slice(header.as_bytes());
                let header_bytes = header.len() as u8;
                Open::Own {
                    frame,
                    layers,
                    header_bytes,
                }
            }
            Some(frame) => {
                self.queue.free(frame);
                Open::Nowhere
            }
            None => Open::Nowhere,
        };
    }

    /// The room of the datagram that was begun: as many bytes as the longest one has. What it
    /// contains is undefined.
    #[inline]
    pub fn slot(&mut self) -> &mut [u8] {
        let payload_bytes_max = self.payload_bytes_max;
        match &mut self.outgoing.open {
            Open::Behind { frame, at, found } => {
                let Some(request) = &mut self.received[usize::from(*frame)] else {
                    unreachable!("it was there when the reply was begun");
                };
                let start = *at as usize + usize::from(found.payload_start);
                &mut request.rest_mut(start)[..payload_bytes_max]
            }
            Open::Own {
                frame,
                header_bytes,
                ..
            } => {
                let start = frame.start() + usize::from(*header_bytes);
                &mut frame.buffer_mut()[start..start + payload_bytes_max]
            }
            Open::Nowhere | Open::Nothing => &mut self.outgoing.nowhere,
        }
    }

    /// The datagram that was begun is complete with this length.
    ///
    /// # Panics
    /// When it is longer than its room.
    #[inline]
    pub fn commit(&mut self, bytes: usize) {
        assert!(bytes <= self.payload_bytes_max, "longer than the room");
        let hardware = self.queue.computes_checksums();
        match std::mem::replace(&mut self.outgoing.open, Open::Nothing) {
            Open::Behind { frame, at, found } => {
                let Some(mut request) = self.received[usize::from(frame)].take() else {
                    unreachable!("it was there when the reply was begun");
                };
                let at = at as usize;
                let header_bytes = usize::from(found.payload_start);
                let network = found.payload_start - found.link_bytes - 8;
                let layers = (found.link_bytes, network);
                // SAFETY: only what lies behind it is written below.
                let headers = unsafe { request.lend() };
                let reply = &mut request.rest_mut(at)[..header_bytes + bytes];
                write_flipped(headers, &found, reply);
                complete(reply, layers, hardware);
                request.place(at, header_bytes + bytes);
                request.header_bytes = layers;
                self.counters.reused += 1;
                self.outgoing.reused.push(request);
            }
            Open::Own {
                mut frame,
                layers,
                header_bytes,
            } => {
                let (start, len) = (frame.start(), usize::from(header_bytes) + bytes);
                complete(
                    &mut frame.buffer_mut()[start..start + len],
                    layers,
                    hardware,
                );
                frame.place(start, len);
                frame.header_bytes = layers;
                self.counters.copied += 1;
                self.outgoing.own.push(frame);
            }
            Open::Nowhere => self.counters.no_frame += 1,
            Open::Nothing => {}
        }
    }

    /// Gives up what was begun.
    #[inline]
    pub fn abandon(&mut self) {
        let open = std::mem::replace(&mut self.outgoing.open, Open::Nothing);
        if let Open::Own { frame, .. } = open {
            self.queue.free(frame);
        }
    }
}
