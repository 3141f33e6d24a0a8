//! Datagrams that are filled, wait, or are in flight. Their number is fixed at the start. A
//! sequence number identifies one.

use crate::random::Random;
use micanite_wire::native::{Full, Header, Opcode, Request};

/// No datagram.
pub(super) const NONE: u16 = u16::MAX;
/// Maximum number of requests in a datagram of any length.
const REQUESTS_MAX: usize = 512;
const REQUEST_BYTES_MIN: usize = 24;
const REPLY_BYTES: f32 = 24.0;

/// State of a datagram, and the list that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    /// Accepts requests; in the list of such datagrams.
    Filling,
    /// Waits for the window; in its lane's queue.
    Queued,
    /// Sent; in the wheel until it is sent again.
    InFlight,
    /// Must not be sent yet; in the wheel.
    Delayed,
    /// The requests of the datagram end, at the latest at the next look at the timers: the deadline is over,
    /// or they are just being ended. In the list of such datagrams.
    Expired,
}

/// A datagram without its bytes.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) state: State,
    /// Holds plain gets that any core of a node may answer.
    pub(super) shared: bool,
    pub(super) writes: bool,
    pub(super) has_ids: bool,
    /// The server may have received some of its requests before.
    pub(super) resent: bool,
    /// The datagram goes to its core, if that still exists, whatever the directory says.
    pub(super) stays: bool,
    /// Number of times that it was sent under its sequence number.
    pub(super) attempts: u8,
    /// Number of failures, each of which doubles the wait.
    pub(super) backoff: u8,
    pub(super) server: u16,
    pub(super) core: u16,
    pub(super) partition: u16,
    pub(super) count: u16,
    pub(super) filled: usize,
    /// Expected length of the reply.
    pub(super) reply_bytes: f32,
    pub(super) generation: u32,
    pub(super) sequence: u32,
    pub(super) nonce: u64,
    pub(super) sent_at: u64,
    /// End of its time in the wheel, or of its wait for more requests.
    pub(super) due_at: u64,
    pub(super) deadline_at: u64,
    /// Number of requests that it was opened for, and sum of the times at which they were submitted; `timed`
    /// of them are in that sum.
    pub(super) chosen: u16,
    pub(super) timed: u16,
    pub(super) submitted_ns: u64,
    next: u16,
    previous: u16,
}

impl Slot {
    /// Returns whether the server may have received some of its requests.
    pub(super) fn was_sent(&self) -> bool {
        self.attempts > 0 || self.resent
    }
}

/// A request in a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) token: u64,
    pub(super) hash_low: u32,
    pub(super) offset: u16,
    pub(super) opcode: Opcode,
    /// The caller has had its completion, or the sink has panicked with it.
    pub(super) has_ended: bool,
}

/// A linked list of datagrams. Each datagram is in at most one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u16,
    tail: u16,
}

impl List {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn first(&self) -> Option<u16> {
        (self.head != NONE).then_some(self.head)
    }
}

/// All datagrams of a client.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    free: Vec<u16>,
    entries_each: usize,
    bytes_each: usize,
}

impl Slots {
    pub(super) fn new(datagrams: usize, payload_bytes: usize) -> Self {
        let datagrams = datagrams.clamp(16, 1 << 15);
        let entries_each = ((payload_bytes - Header::BYTES) / REQUEST_BYTES_MIN).min(REQUESTS_MAX);
        let bytes_each = payload_bytes.next_multiple_of(64);
        let slot = |index: usize| Slot {
            state: State::Free,
            shared: false,
            writes: false,
            has_ids: false,
            resent: false,
            stays: false,
            attempts: 0,
            backoff: 0,
            server: 0,
            core: 0,
            partition: 0,
            count: 0,
            filled: 0,
            reply_bytes: 0.0,
            generation: 0,
            sequence: index as u32,
            nonce: 0,
            sent_at: 0,
            due_at: 0,
            deadline_at: 0,
            chosen: 0,
            timed: 0,
            submitted_ns: 0,
            next: NONE,
            previous: NONE,
        };
        let entry = Entry { token: 0, hash_low: 0, offset: 0, opcode: Opcode::Noop, has_ended: false };
        Self {
            slots: (0..datagrams).map(slot).collect(),
            entries: vec![entry; datagrams * entries_each],
            bytes: vec![0; datagrams * bytes_each],
            free: (0..datagrams as u16).rev().collect(),
            entries_each,
            bytes_each,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn get(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    pub(super) fn get_mut(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// Returns the datagram of a sequence number, if it still has that number.
    pub(super) fn find(&self, sequence: u32) -> Option<u16> {
        let index = sequence as u16;
        let slot = self.slots.get(usize::from(index))?;
        (slot.state != State::Free && slot.sequence == sequence).then_some(index)
    }

    /// Returns the requests of a datagram.
    pub(super) fn entries(&self, index: u16) -> &[Entry] {
        let from = usize::from(index) * self.entries_each;
        &self.entries[from..from + usize::from(self.get(index).count)]
    }

    /// Takes a request of a datagram for its end; `None` if it has ended before.
    pub(super) fn end(&mut self, index: u16, number: usize) -> Option<Entry> {
        let entry = &mut self.entries[usize::from(index) * self.entries_each + number];
        let before = *entry;
        entry.has_ended = true;
        (!before.has_ended).then_some(before)
    }

    /// Returns the bytes of a datagram. Sending it writes its header.
    pub(super) fn bytes(&self, index: u16) -> &[u8] {
        let from = usize::from(index) * self.bytes_each;
        &self.bytes[from..from + self.get(index).filled]
    }

    pub(super) fn bytes_mut(&mut self, index: u16) -> &mut [u8] {
        let from = usize::from(index) * self.bytes_each;
        let filled = self.get(index).filled;
        &mut self.bytes[from..from + filled]
    }

    /// Parses a request of a datagram.
    pub(super) fn request(&self, index: u16, entry: &Entry) -> Option<Request<'_>> {
        let bytes = self.bytes(index).get(usize::from(entry.offset)..)?;
        Request::read(bytes).map(|(request, _)| request)
    }

    /// Takes a free datagram.
    pub(super) fn take(&mut self, random: &mut Random) -> Option<u16> {
        let index = self.free.pop()?;
        self.renew(index, random);
        let slot = self.get_mut(index);
        slot.backoff = 0;
        slot.resent = false;
        slot.stays = false;
        slot.state = State::Filling;
        Some(index)
    }

    /// Empties a datagram and gives it another sequence number, so that late replies do not match.
    pub(super) fn renew(&mut self, index: u16, random: &mut Random) {
        let slot = self.get_mut(index);
        slot.sequence = slot.sequence.wrapping_add(1 << 16);
        slot.nonce = random.next() >> 8;
        slot.attempts = 0;
        slot.count = 0;
        slot.filled = Header::BYTES;
        slot.reply_bytes = Header::BYTES as f32;
        slot.writes = false;
        slot.has_ids = false;
        (slot.chosen, slot.timed, slot.submitted_ns) = (0, 0, 0);
    }

    /// Frees a datagram that is in no list.
    pub(super) fn give_back(&mut self, index: u16) {
        let slot = self.get_mut(index);
        slot.state = State::Free;
        slot.count = 0;
        self.free.push(index);
    }

    /// Adds a request, unless the datagram or its expected reply would exceed the limit.
    pub(super) fn append(
        &mut self,
        index: u16,
        request: &Request<'_>,
        (token, limit_bytes, value_bytes): (u64, usize, f32),
    ) -> Result<(), Full> {
        let at = usize::from(index);
        let slot = &mut self.slots[at];
        let (count, filled) = (usize::from(slot.count), slot.filled);
        let opcode = request.opcode;
        let answer = if opcode.answers_value() { value_bytes } else { 0.0 };
        let reply_bytes = slot.reply_bytes + REPLY_BYTES + answer;
        if count >= self.entries_each || count > 0 && reply_bytes > limit_bytes as f32 {
            return Err(Full);
        }
        let limit_bytes = limit_bytes.min(self.bytes_each);
        let bytes = &mut self.bytes[at * self.bytes_each..][..limit_bytes];
        let length = request.write(bytes.get_mut(filled..).ok_or(Full)?)?;
        self.entries[at * self.entries_each + count] =
            Entry { token, hash_low: request.hash as u32, offset: filled as u16, opcode, has_ended: false };
        slot.count += 1;
        slot.filled += length;
        slot.reply_bytes = reply_bytes;
        slot.writes |= opcode.writes();
        slot.has_ids |= opcode.has_id();
        Ok(())
    }

    pub(super) fn push_back(&mut self, list: &mut List, index: u16) {
        let tail = list.tail;
        let slot = self.get_mut(index);
        (slot.next, slot.previous) = (NONE, tail);
        match tail {
            NONE => list.head = index,
            tail => self.get_mut(tail).next = index,
        }
        list.tail = index;
    }

    pub(super) fn push_front(&mut self, list: &mut List, index: u16) {
        let head = list.head;
        let slot = self.get_mut(index);
        (slot.next, slot.previous) = (head, NONE);
        match head {
            NONE => list.tail = index,
            head => self.get_mut(head).previous = index,
        }
        list.head = index;
    }

    pub(super) fn unlink(&mut self, list: &mut List, index: u16) {
        let slot = self.get(index);
        let (next, previous) = (slot.next, slot.previous);
        match previous {
            NONE => list.head = next,
            previous => self.get_mut(previous).next = next,
        }
        match next {
            NONE => list.tail = previous,
            next => self.get_mut(next).previous = previous,
        }
    }

    pub(super) fn pop_front(&mut self, list: &mut List) -> Option<u16> {
        let index = list.first()?;
        self.unlink(list, index);
        Some(index)
    }

    /// Returns the next datagram of the list.
    pub(super) fn after(&self, index: u16) -> Option<u16> {
        let next = self.get(index).next;
        (next != NONE).then_some(next)
    }
}
