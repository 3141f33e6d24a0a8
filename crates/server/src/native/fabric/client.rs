//! A client's place at a worker: its buffers, and what is under way.

use std::collections::VecDeque;

use micanite_fabric::{Buffer, Peer};
use micanite_wire::native::{ChunkEntry, Header, ListItem};

/// Room for a push, and for a history.
pub const LIST_BYTES: usize = 8 << 10;
/// Entries of one push. A client that has as many need not wait for the time of the next push.
pub const ENTRIES_MAX: usize = (LIST_BYTES - Header::BYTES) / ChunkEntry::BYTES;
/// Entries that wait for pushes.
pub const RING_ENTRIES_MAX: usize = 4 * ENTRIES_MAX;

/// The registered memory of one client.
#[derive(Debug)]
pub struct Buffers {
    pub request: Buffer,
    pub reply: Buffer,
    pub push: Buffer,
    pub history: Buffer,
}

/// State of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Free,
    Live,
    /// The client has gone, and transfers have its buffers yet.
    Going,
}

/// A buffer that is sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// None: a transfer has it.
    pub buffer: Option<Buffer>,
    /// Length of the message that is to be sent; 0: there is none.
    pub bytes: usize,
}

impl Outgoing {
    /// Returns whether a message can be written.
    pub fn is_idle(&self) -> bool {
        self.buffer.is_some() && self.bytes == 0
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    pub state: State,
    /// Number of this client among those of the place.
    pub generation: u32,
    pub peer: Option<Peer>,
    /// The tag of its messages. It is secret, and proves who sends.
    pub session: u64,
    /// The client's own number, which stays when it connects again.
    pub nonce: u64,
    /// Time of the last message.
    pub used_ms: u64,
    /// Time of the last upkeep before it went.
    pub gone_ms: u64,
    /// The longest message that it takes.
    pub limit_bytes: usize,
    /// Length of the message in the request buffer; 0: there is none.
    pub request_bytes: usize,
    pub reply: Outgoing,
    pub push: Outgoing,
    pub history: Option<Buffer>,
    /// Length of the message in the history buffer; 0: there is none.
    pub history_bytes: usize,
    /// Entries of its own sets, for the next push.
    pub ring: VecDeque<ChunkEntry>,
}

impl Client {
    pub fn new() -> Self {
        Self {
            state: State::Free,
            generation: 0,
            peer: None,
            session: 0,
            nonce: 0,
            used_ms: 0,
            gone_ms: 0,
            limit_bytes: 0,
            request_bytes: 0,
            reply: Outgoing::default(),
            push: Outgoing::default(),
            history: None,
            history_bytes: 0,
            ring: VecDeque::new(),
        }
    }

    /// Returns whether it has sent requests, and they can be answered.
    pub fn has_request(&self) -> bool {
        self.request_bytes > 0 && self.reply.is_idle()
    }

    /// Adds an entry for the next push. The oldest makes room, because newer ones are likelier to be read.
    /// Returns whether one did.
    #[inline]
    pub fn note_entry(&mut self, entry: ChunkEntry) -> bool {
        let is_full = self.ring.len() >= RING_ENTRIES_MAX;
        if is_full {
            self.ring.pop_front();
        }
        self.ring.push_back(entry);
        is_full
    }
}

/// A message of a client that is to be looked at. Its place may have another client by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub place: u32,
    pub generation: u32,
}

impl Arrival {
    /// Returns whether the client of the place still is the one of the message.
    pub fn is_of(&self, client: &Client) -> bool {
        client.state == State::Live && client.generation == self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_is_not_of_the_next_client_of_its_place() {
        let mut client = Client::new();
        client.state = State::Live;
        let arrival = Arrival { place: 0, generation: client.generation };
        assert!(arrival.is_of(&client));
        client.state = State::Going;
        assert!(!arrival.is_of(&client));
        (client.state, client.generation) = (State::Live, client.generation + 1);
        assert!(!arrival.is_of(&client));
        // Nothing is executed while there is no buffer for the replies.
        client.request_bytes = 40;
        assert!(!client.has_request());
    }

    #[test]
    fn the_ring_drops_the_oldest_and_never_grows() {
        let mut client = Client::new();
        client.ring.reserve_exact(RING_ENTRIES_MAX);
        let room = client.ring.capacity();
        let entry = |hash| ChunkEntry { hash, offset: 64, version: 1, bytes: 60 };
        let dropped = (0..2 * RING_ENTRIES_MAX as u64).filter(|hash| client.note_entry(entry(*hash))).count();
        assert_eq!((dropped, client.ring.len()), (RING_ENTRIES_MAX, RING_ENTRIES_MAX));
        assert_eq!(client.ring.front().map(|entry| entry.hash), Some(RING_ENTRIES_MAX as u64));
        assert_eq!(client.ring.capacity(), room);
    }
}
