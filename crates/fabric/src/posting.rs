//! The start of transfers.

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::memory::{Buffer, Place, RemoteArea};
use crate::peers::{GREETING, Peer, write_greeting};
use crate::transfer::{Action, Operation, Transfer, Unposted};

impl Endpoint {
    /// Sends the endpoint's own address to the server, which can then answer. The buffer's contents are
    /// overwritten.
    pub fn greet(&mut self, mut buffer: Buffer, token: u64) -> Result<(), Unposted> {
        let Some(server) = self.server() else {
            return Err(Unposted { buffer, error: Error::PeerGone });
        };
        match write_greeting(&self.name, &mut buffer) {
            Some(bytes) => self.post_to(Operation::Send, server, token, bytes, buffer),
            None => Err(Unposted { buffer, error: Error::OutOfRange }),
        }
    }

    /// Posts a buffer for a message or a greeting of anybody.
    pub fn receive(&mut self, buffer: Buffer, token: u64) -> Result<(), Unposted> {
        let bytes = buffer.len();
        self.post(Operation::Receive, None, token, bytes, buffer, Action::Receive)
    }

    /// Posts a buffer for a message with a tag, of anybody.
    pub fn receive_tagged(&mut self, buffer: Buffer, tag: u64, token: u64) -> Result<(), Unposted> {
        let bytes = buffer.len();
        self.post(Operation::ReceiveTagged, None, token, bytes, buffer, Action::ReceiveTagged { tag })
    }

    /// Cancels all receives that have this token; returns their number. Each completes, with
    /// [`Error::Cancelled`] unless a message came first.
    pub fn cancel(&mut self, token: u64) -> usize {
        let mut count = 0;
        for (slot, transfer) in self.slots.transfers() {
            let is_receive = matches!(transfer.operation, Operation::Receive | Operation::ReceiveTagged);
            if is_receive && transfer.token == token {
                transfer.is_cancelled = true;
                // SAFETY: the slot has a transfer. Self is the endpoint's owner.
                unsafe { self.domain.cancel(slot) };
                count += 1;
            }
        }
        count
    }

    /// Sends the first bytes of a buffer to a peer.
    pub fn send(&mut self, peer: Peer, buffer: Buffer, bytes: usize, token: u64) -> Result<(), Unposted> {
        let error = match buffer.get(..bytes) {
            None => Error::OutOfRange,
            Some(message) if message.starts_with(&GREETING) => Error::Reserved,
            Some(_) => return self.post_to(Operation::Send, peer, token, bytes, buffer),
        };
        Err(Unposted { buffer, error })
    }

    /// Gives up all transfers that have this token, because the peer was killed and the provider ends none of
    /// them; returns their number. They do not complete. Their buffers keep their addresses, which the
    /// provider may still use, and no memory. Others take their slots, as long as no more than
    /// [`GIVEN_UP_MAX`](crate::limits::GIVEN_UP_MAX) were given up.
    pub fn give_up(&mut self, token: u64) -> usize {
        let is_meant = |transfer: &Transfer| transfer.token == token && !transfer.is_given_up;
        let mut count = 0;
        loop {
            let mut transfers = self.slots.transfers();
            let Some(slot) = transfers.find_map(|(slot, transfer)| is_meant(transfer).then_some(slot)) else {
                return count;
            };
            drop(transfers);
            self.slots.give_up(slot);
            count += 1;
        }
    }

    /// Sends the first bytes of a buffer to the buffer of a peer that was posted for this tag.
    pub fn send_tagged(
        &mut self,
        peer: Peer,
        buffer: Buffer,
        bytes: usize,
        tag: u64,
        token: u64,
    ) -> Result<(), Unposted> {
        if bytes > buffer.len() {
            return Err(Unposted { buffer, error: Error::OutOfRange });
        }
        let action = Action::SendTagged { peer: u64::from(peer.number), tag };
        self.post(Operation::Send, Some(peer), token, bytes, buffer, action)
    }

    fn post_to(
        &mut self,
        operation: Operation,
        peer: Peer,
        token: u64,
        bytes: usize,
        buffer: Buffer,
    ) -> Result<(), Unposted> {
        let action = Action::Send { peer: u64::from(peer.number) };
        self.post(operation, Some(peer), token, bytes, buffer, action)
    }

    /// Reads bytes of a peer's area, from an offset on, to the beginning of a buffer.
    pub fn read(
        &mut self,
        peer: Peer,
        area: &RemoteArea,
        offset: u64,
        bytes: usize,
        buffer: Buffer,
        token: u64,
    ) -> Result<(), Unposted> {
        let from = match area.address_of(offset, bytes) {
            Ok(from) if bytes <= buffer.len() => from,
            _ => return Err(Unposted { buffer, error: Error::OutOfRange }),
        };
        let action = Action::Read { peer: u64::from(peer.number), from, key: area.key };
        self.post(Operation::Read, Some(peer), token, bytes, buffer, action)
    }

    /// Reads two ranges (offset and length) of a peer's area, none of them empty, to the beginning of a
    /// buffer: the second one behind the first. Either may be read first.
    ///
    /// Providers that read one range at a time take two slots. If only the first read is started, the
    /// completion has [`Error::Busy`].
    pub fn read_ranges(
        &mut self,
        peer: Peer,
        area: &RemoteArea,
        ranges: [(u64, usize); 2],
        buffer: Buffer,
        token: u64,
    ) -> Result<(), Unposted> {
        let [first, second] = ranges;
        let from = [area.address_of(first.0, first.1), area.address_of(second.0, second.1)];
        let lengths = [first.1, second.1];
        let (bytes, fits) = match lengths[0].checked_add(lengths[1]) {
            Some(bytes) => (bytes, bytes <= buffer.len() && lengths[0] > 0 && lengths[1] > 0),
            None => (0, false),
        };
        let ([Ok(first), Ok(second)], true) = (from, fits) else {
            return Err(Unposted { buffer, error: Error::OutOfRange });
        };
        let (from, key) = ([first, second], area.key);
        let action = Action::ReadTwo { peer: u64::from(peer.number), from, lengths, key };
        self.post(Operation::Read, Some(peer), token, bytes, buffer, action)
    }

    /// Makes this endpoint read one range at a time, as some providers do.
    #[cfg(feature = "testing")]
    pub fn read_one_range_at_a_time(&mut self) {
        self.ranges_max = 1;
    }

    /// Writes the first bytes of a buffer to a peer's area, which a peer has to refuse.
    #[cfg(feature = "testing")]
    pub fn write(
        &mut self,
        peer: Peer,
        area: &RemoteArea,
        offset: u64,
        bytes: usize,
        buffer: Buffer,
        token: u64,
    ) -> Result<(), Unposted> {
        let to = match area.address_of(offset, bytes) {
            Ok(to) if bytes <= buffer.len() => to,
            _ => return Err(Unposted { buffer, error: Error::OutOfRange }),
        };
        let action = Action::Write { peer: u64::from(peer.number), to, key: area.key };
        self.post(Operation::Write, Some(peer), token, bytes, buffer, action)
    }

    fn post(
        &mut self,
        operation: Operation,
        peer: Option<Peer>,
        token: u64,
        bytes: usize,
        buffer: Buffer,
        action: Action,
    ) -> Result<(), Unposted> {
        if peer.is_some_and(|peer| !self.peers.knows(peer)) {
            return Err(Unposted { buffer, error: Error::PeerGone });
        }
        if !buffer.is_of(&self.domain) {
            return Err(Unposted { buffer, error: Error::OutOfRange });
        }
        let Some(slot) = self.slots.take() else {
            return Err(Unposted { buffer, error: Error::Full });
        };
        let mut second = None;
        let started = match action {
            Action::ReadTwo { .. } if self.ranges_max < 2 => {
                second = self.slots.take();
                self.start_two((slot, second), buffer.place(bytes), action)
            }
            // SAFETY: the slot was free; the buffer is of this domain, and goes into the slot, which keeps it
            // until the transfer has finished or the endpoint is shut; the peer is known. Self is the
            // endpoint's owner.
            _ => unsafe { self.domain.start(slot, buffer.place(bytes), action) }.map(|()| true),
        };
        match started {
            Ok(is_whole) => {
                peer.inspect(|peer| self.peers.took(*peer));
                let transfer = Transfer {
                    operation,
                    token,
                    peer,
                    bytes,
                    buffer,
                    is_cancelled: false,
                    is_given_up: false,
                };
                self.slots.put(slot, transfer);
                match second {
                    Some(second) if is_whole => self.slots.put_second(second, slot),
                    Some(second) => self.slots.fail(slot, second),
                    None => {}
                }
                Ok(())
            }
            Err(error) => {
                self.slots.give_back(slot);
                second.inspect(|second| self.slots.give_back(*second));
                let error = match (error, peer) {
                    (Error::Busy, Some(peer)) => self.peers.is_busy(peer),
                    (error, _) => error,
                };
                Err(Unposted { buffer, error })
            }
        }
    }

    /// Starts two reads instead of a read of two ranges. Returns false if only the first was started.
    fn start_two(
        &self,
        (slot, second): (u32, Option<u32>),
        place: Place<'_>,
        action: Action,
    ) -> Result<bool, Error> {
        let (Some(second), Action::ReadTwo { peer, from, lengths, key }) = (second, action) else {
            return Err(Error::Full);
        };
        let (place, behind) = place.split(lengths[0]);
        // SAFETY: as in `post`, whose caller puts the buffer into the first slot. That keeps it until both
        // operations have finished.
        unsafe { self.domain.start(slot, place, Action::Read { peer, from: from[0], key }) }?;
        // SAFETY: as above.
        let started = unsafe { self.domain.start(second, behind, Action::Read { peer, from: from[1], key }) };
        Ok(started.is_ok())
    }
}
