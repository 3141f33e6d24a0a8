//! The connections of a worker, by number.

use micanite_net::{ByteStream, Interest};

use crate::connection::Connection;
use crate::limits::{HEAVY_TURN_BYTES, TURNS_OF_MEAN};
use crate::telemetry::stats::ConnectionState;

/// Name of a connection. A later one in the same place has another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    /// Returns the token as the poller carries it.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Returns the place among the worker's connections.
    pub fn place(self) -> usize {
        self.index as usize
    }

    pub fn from_u64(token: u64) -> Self {
        Self { index: token as u32, generation: (token >> 32) as u32 }
    }
}

impl std::fmt::Display for Token {
    /// Writes the place, and the number of earlier connections there.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.index, self.generation)
    }
}

/// A connection with the worker's state of it.
#[derive(Debug)]
pub(super) struct Slot<S> {
    pub connection: Connection<S>,
    /// Interest that the poller knows.
    pub interest: Interest,
    /// State in `stats conns`.
    pub state: ConnectionState,
    /// The connection is in a queue: its turn comes without an event.
    pub queued: bool,
    /// Mean of the bytes that its last turns have moved, about [`TURNS_OF_MEAN`] of them.
    pub mean_turn_bytes: usize,
    /// The connection was queued because receiving may bring something.
    pub readable: bool,
    /// Length of the value buffer that it waits for.
    pub wait_bytes: usize,
    /// Time when the connection came.
    pub opened_ms: u64,
}

impl<S> Slot<S> {
    /// Notes the bytes that a turn has moved.
    #[inline]
    pub fn note_turn(&mut self, moved_bytes: usize) {
        self.mean_turn_bytes -= self.mean_turn_bytes / TURNS_OF_MEAN;
        self.mean_turn_bytes += moved_bytes / TURNS_OF_MEAN;
    }

    /// Returns whether its turns move much, and therefore are queued.
    #[inline]
    pub fn is_heavy(&self) -> bool {
        self.mean_turn_bytes > HEAVY_TURN_BYTES
    }
}

#[derive(Debug)]
struct Place<S> {
    generation: u32,
    slot: Option<Slot<S>>,
}

/// Places for connections.
#[derive(Debug)]
pub(super) struct Slots<S> {
    places: Vec<Place<S>>,
    free: Vec<u32>,
    used: usize,
}

impl<S: ByteStream> Slots<S> {
    /// Makes places for so many connections. Further use does not allocate.
    pub fn new(connections: usize) -> Self {
        Self { places: Vec::with_capacity(connections), free: Vec::with_capacity(connections), used: 0 }
    }

    /// Bytes of a place, for the budget.
    pub const PLACE_BYTES: usize = size_of::<Place<S>>();

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub fn insert(&mut self, slot: Slot<S>) -> Token {
        self.used += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, slot: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[index as usize];
        place.slot = Some(slot);
        Token { index, generation: place.generation }
    }

    pub fn get_mut(&mut self, token: Token) -> Option<&mut Slot<S>> {
        let place = self.places.get_mut(token.index as usize)?;
        place.slot.as_mut().filter(|_| place.generation == token.generation)
    }

    pub fn remove(&mut self, token: Token) -> Option<Slot<S>> {
        self.get_mut(token)?;
        let place = &mut self.places[token.index as usize];
        // The largest generation is reserved for tokens of no connection.
        place.generation = (place.generation + 1) % u32::MAX;
        self.free.push(token.index);
        self.used -= 1;
        place.slot.take()
    }

    /// Returns the number of places that are or were in use.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns the connection at a place.
    pub fn at(&self, index: usize) -> Option<(Token, &Slot<S>)> {
        let place = self.places.get(index)?;
        let token = Token { index: index as u32, generation: place.generation };
        Some((token, place.slot.as_ref()?))
    }

    /// Returns the first connection at or after a place, and the place after it.
    pub fn next_from(&self, index: usize) -> Option<(Token, &Slot<S>, usize)> {
        let places = self.places.get(index..)?;
        let found = places.iter().position(|place| place.slot.is_some())?;
        let place = &places[found];
        let index = index + found;
        let token = Token { index: index as u32, generation: place.generation };
        Some((token, place.slot.as_ref()?, index + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use micanite_net::Stream;
    use std::os::unix::net::UnixStream;

    fn slot() -> Slot<Stream> {
        let (stream, _) = UnixStream::pair().unwrap();
        Slot {
            connection: Connection::new(Stream::unix(stream).unwrap()),
            interest: Interest::Read,
            state: ConnectionState::Read,
            queued: false,
            mean_turn_bytes: 0,
            readable: false,
            wait_bytes: 0,
            opened_ms: 0,
        }
    }

    /// Single turns do not make a connection heavy or light.
    #[test]
    fn the_mean_of_turns_makes_a_connection_heavy() {
        let mut slot = slot();
        for _ in 0..3 {
            slot.note_turn(8 * HEAVY_TURN_BYTES);
            assert!(!slot.is_heavy());
            (0..64).for_each(|_| slot.note_turn(100));
        }
        for _ in 0..64 {
            slot.note_turn(8 * HEAVY_TURN_BYTES);
            slot.note_turn(100);
        }
        assert!(slot.is_heavy());
        (0..64).for_each(|_| slot.note_turn(100));
        assert!(!slot.is_heavy());
    }

    #[test]
    fn a_name_is_never_used_again() {
        let mut slots = Slots::new(2);
        let first = slots.insert(slot());
        let second = slots.insert(slot());
        assert_ne!(first, second);
        assert_eq!(Token::from_u64(second.to_u64()), second);
        assert!(slots.remove(first).is_some());
        assert!(slots.remove(first).is_none());
        let third = slots.insert(slot());
        assert!(slots.get_mut(first).is_none());
        assert!(slots.get_mut(third).is_some());

        let mut tokens = Vec::new();
        let mut from = 0;
        while let Some((token, _, next)) = slots.next_from(from) {
            tokens.push(token);
            from = next;
        }
        assert_eq!(tokens, [third, second]);
        slots.remove(second);
        slots.remove(third);
        assert!(slots.is_empty());
    }
}
