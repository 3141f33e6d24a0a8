//! Datagrams to send: replies in the frames of their requests, others in frames of their own.

use super::header::{complete, write_reply};
use super::parse::Place;
use super::queue::FrameBurst;
use super::{Frame, FrameCounters, FrameQueue, Header};

/// Destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo<'h> {
    /// Answers a datagram of the last burst, in its frame if there is room, and only once.
    Datagram(usize),
    /// Uses these headers.
    Header(&'h Header),
}

/// Frames to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Datagrams in frames of their own.
    pub own: FrameBurst,
    /// Frames of the burst that hold their replies, one bit each. They are sent at the end of the
    /// round, because their requests may be in use.
    pub answered: u32,
    pub open: Open,
    /// Buffer for a datagram that gets no frame.
    pub scratch: Box<[u8]>,
}

impl Outgoing {
    pub fn new(payload_bytes_max: usize) -> Self {
        Self {
            own: FrameBurst::new(),
            answered: 0,
            open: Open::Nothing,
            scratch: vec![0; payload_bytes_max].into(),
        }
    }

    /// Abandons the begun datagram.
    #[inline]
    pub fn abandon<Q: FrameQueue>(&mut self, queue: &mut Q) {
        if matches!(self.open, Open::Own { .. })
            && let Open::Own { frame, .. } = std::mem::replace(&mut self.open, Open::Nothing)
        {
            queue.free(frame);
        }
        self.open = Open::Nothing;
    }

    /// Adds a frame to those that are sent next. Sends them first if there is no room.
    pub fn push_own<Q: FrameQueue>(&mut self, queue: &mut Q, frame: Frame) -> bool {
        if self.own.is_full() {
            // An error shows at the next receive, or at the end of the round.
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

/// Location of the begun datagram.
#[derive(Debug)]
pub(super) enum Open {
    Nothing,
    /// Behind its request in frame `frame` of the burst: offset of the reply, and place of the
    /// request.
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
    Dropped,
}

/// Sink for datagrams to send, from [`super::FramePort::split`].
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
    /// Begins a datagram; returns whether there is a frame for it. Abandons a begun and uncommitted
    /// one.
    #[inline]
    pub fn open(&mut self, to: ReplyTo<'_>) -> bool {
        self.abandon();
        let header = match to {
            ReplyTo::Datagram(number) => {
                let request = self.found.get(number);
                let Some(&(frame, place)) = request.filter(|(frame, _)| !self.is_answered(*frame)) else {
                    // It was answered before, or the round has ended.
                    self.outgoing.open = Open::Dropped;
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
        !matches!(self.outgoing.open, Open::Dropped)
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
                Open::Own { frame, layers, header_bytes }
            }
            Some(frame) => {
                self.queue.free(frame);
                Open::Dropped
            }
            None => Open::Dropped,
        };
    }

    /// Returns the room of the begun datagram: as many bytes as the longest one has, with arbitrary
    /// contents.
    #[inline]
    pub fn slot(&mut self) -> &mut [u8] {
        let payload_bytes_max = self.payload_bytes_max;
        match &mut self.outgoing.open {
            Open::Behind { frame, at, place } => {
                let start = *at as usize + usize::from(place.payload_start);
                let request = &mut self.received[usize::from(*frame)];
                &mut request.rest_mut(start)[..payload_bytes_max]
            }
            Open::Own { frame, header_bytes, .. } => {
                let start = frame.start() + usize::from(*header_bytes);
                &mut frame.buffer_mut()[start..start + payload_bytes_max]
            }
            Open::Dropped | Open::Nothing => &mut self.outgoing.scratch,
        }
    }

    /// Completes the begun datagram with this length.
    ///
    /// # Panics
    /// If it is longer than its room.
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
            Open::Own { mut frame, layers, header_bytes } => {
                let (start, len) = (frame.start(), usize::from(header_bytes) + bytes);
                complete(&mut frame.buffer_mut()[start..start + len], layers, hardware);
                frame.place(start, len);
                frame.header_bytes = layers;
                match self.outgoing.push_own(self.queue, frame) {
                    true => self.counters.copied += 1,
                    false => self.counters.no_frame += 1,
                }
            }
            Open::Dropped => self.counters.no_frame += 1,
            Open::Nothing | Open::Behind { .. } => {}
        }
    }

    /// Abandons the begun datagram.
    #[inline]
    pub fn abandon(&mut self) {
        self.outgoing.abandon(self.queue);
    }
}
