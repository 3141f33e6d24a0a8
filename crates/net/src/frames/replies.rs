//! Datagrams that leave: replies in the frames of their requests, others in frames of their own.

use super::header::{complete, write_reply};
use super::parse::Place;
use super::queue::FrameBurst;
use super::{Frame, FrameCounters, FrameQueue, Header};

/// What is answered, or to whom something is sent.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo<'h> {
    /// A datagram of the last burst, in its frame if there is room, once.
    Datagram(usize),
    /// With these headers.
    Header(&'h Header),
}

/// Frames that are about to leave.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// In frames of their own.
    pub own: FrameBurst,
    /// Frames of the burst whose replies lie in them, a bit for each: they leave at the end of the
    /// round, for the requests may be in use.
    pub answered: u32,
    pub open: Open,
    /// Where a datagram is written for which there is no frame.
    pub nowhere: Box<[u8]>,
}

impl Outgoing {
    pub fn new(payload_bytes_max: usize) -> Self {
        Self {
            own: FrameBurst::new(),
            answered: 0,
            open: Open::Nothing,
            nowhere: vec![0; payload_bytes_max].into(),
        }
    }

    /// Gives up what was begun.
    #[inline]
    pub fn abandon<Q: FrameQueue>(&mut self, queue: &mut Q) {
        if matches!(self.open, Open::Own { .. })
            && let Open::Own { frame, .. } = std::mem::replace(&mut self.open, Open::Nothing)
        {
            queue.free(frame);
        }
        self.open = Open::Nothing;
    }

    /// A frame that leaves with the next ones, for which room is made if the queue allows it.
    pub fn push_own<Q: FrameQueue>(&mut self, queue: &mut Q, frame: Frame) -> bool {
        if self.own.is_full() {
            // An error shows at the next receive or the end of the round.
            let _ = queue.send(&mut self.own);
        }
        match self.own.try_push(frame) {
            Ok(()) => true,
            Err(refused) => {
                queue.free(refused.element());
                false
            }
        }
    }
}

/// Where the datagram lies that is being written.
#[derive(Debug)]
pub(super) enum Open {
    Nothing,
    /// Behind the request, which is that frame of the burst; the reply's begin, and where its
    /// payload begins in it.
    Behind {
        frame: u8,
        at: u32,
        place: Place,
    },
    Own {
        frame: Frame,
        layers: (u8, u8),
        header_bytes: u8,
    },
    Nowhere,
}

/// Takes datagrams that leave; see [`super::FramePort::split`].
#[derive(Debug)]
pub struct Replies<'a, Q> {
    pub(super) queue: &'a mut Q,
    pub(super) received: &'a mut [Frame],
    pub(super) found: &'a [(u8, Place)],
    pub(super) outgoing: &'a mut Outgoing,
    pub(super) counters: &'a mut FrameCounters,
    pub(super) payload_bytes_max: usize,
}

impl<Q: FrameQueue> Replies<'_, Q> {
    /// Begins a datagram; returns whether there is a frame for it. What was begun before and not
    /// committed is given up.
    #[inline]
    pub fn open(&mut self, to: ReplyTo<'_>) -> bool {
        self.abandon();
        let header = match to {
            ReplyTo::Datagram(number) => {
                let request = self.found.get(number);
                let Some(&(frame, place)) = request.filter(|(frame, _)| !self.is_answered(*frame))
                else {
                    // It was answered already, or the round has ended.
                    self.outgoing.open = Open::Nowhere;
                    return false;
                };
                let request = &self.received[usize::from(frame)];
                let at = request.behind();
                let bytes = usize::from(place.payload_start) + self.payload_bytes_max;
                if request.has_room(at, bytes) {
                    let at = at as u32;
                    self.outgoing.open = Open::Behind { frame, at, place };
                    return true;
                }
                Header::of_place(request.bytes(), place).flipped()
            }
            ReplyTo::Header(header) => *header,
        };
        self.open_own(&header);
        !matches!(self.outgoing.open, Open::Nowhere)
    }

    #[inline]
    const fn is_answered(&self, frame: u8) -> bool {
        self.outgoing.answered & 1 << frame != 0
    }

    #[cold]
    fn open_own(&mut self, header: &Header) {
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
            Open::Behind { frame, at, place } => {
                let start = *at as usize + usize::from(place.payload_start);
                let request = &mut self.received[usize::from(*frame)];
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
        if let Open::Behind { frame, at, place } = self.outgoing.open {
            let at = at as usize;
            let request = &mut self.received[usize::from(frame)];
            // SAFETY: only what lies behind it is written below.
            let headers = unsafe { request.lend() };
            let reply_bytes = usize::from(place.payload_start) + bytes;
            let reply = &mut request.rest_mut(at)[..reply_bytes];
            write_reply(headers, place, reply, hardware);
            request.place(at, reply_bytes);
            request.header_bytes = (place.link_bytes, place.network_bytes());
            self.outgoing.answered |= 1 << frame;
            self.outgoing.open = Open::Nothing;
            self.counters.reused += 1;
        } else {
            self.commit_own(bytes, hardware);
        }
    }

    #[cold]
    fn commit_own(&mut self, bytes: usize, hardware: bool) {
        match std::mem::replace(&mut self.outgoing.open, Open::Nothing) {
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
                match self.outgoing.push_own(self.queue, frame) {
                    true => self.counters.copied += 1,
                    false => self.counters.no_frame += 1,
                }
            }
            Open::Nowhere => self.counters.no_frame += 1,
            Open::Nothing | Open::Behind { .. } => {}
        }
    }

    /// Gives up what was begun.
    #[inline]
    pub fn abandon(&mut self) {
        self.outgoing.abandon(self.queue);
    }
}
