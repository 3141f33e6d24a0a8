//! Queues of connections whose turn comes without an event, by kind, so that turns that take long do not keep
//! other connections waiting.
//!
//! Light connections, heavy ones and those that wait for a value buffer share the worker: the next turn
//! belongs to the queue that was served least. A queue saves up nothing while it has no connection to serve.

use std::collections::VecDeque;

use micanite_net::{ByteStream, Transport};

use super::slots::{Slot, Token};

/// The queues that share the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Connections with more to do, or whose event came when the round was spent.
    Light,
    /// Connections whose last turns moved much within the memory.
    Heavy,
    /// Connections that wait for a value buffer.
    Waiting,
}

const KINDS: [Kind; 3] = [Kind::Light, Kind::Heavy, Kind::Waiting];

#[derive(Debug)]
struct Queue {
    tokens: VecDeque<Token>,
    /// Bytes that its turns have moved. An empty queue follows the others.
    served_bytes: u64,
}

/// Queues of a worker. A connection is in one of them at most.
#[derive(Debug)]
pub(super) struct Queues {
    by_kind: [Queue; KINDS.len()],
    /// Connections in a TLS handshake.
    shaking: VecDeque<Token>,
}

impl Queues {
    /// Bytes per connection.
    pub const PLACE_BYTES: usize = (KINDS.len() + 1) * size_of::<Token>();

    /// Makes queues for so many connections. Further use does not allocate.
    pub fn new(connections: usize) -> Self {
        Self {
            by_kind: KINDS.map(|_| Queue { tokens: VecDeque::with_capacity(connections), served_bytes: 0 }),
            shaking: VecDeque::with_capacity(connections),
        }
    }

    fn of(&mut self, kind: Kind) -> &mut Queue {
        &mut self.by_kind[kind as usize]
    }

    /// Returns the length of a queue.
    #[inline]
    pub fn count(&self, kind: Kind) -> usize {
        self.by_kind[kind as usize].tokens.len()
    }

    /// Returns whether all queues are empty, except that of connections that wait for a value buffer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count(Kind::Light) + self.count(Kind::Heavy) + self.shaking.len() == 0
    }

    /// Returns the number of queued connections, except those in a TLS handshake.
    #[inline]
    pub fn turns(&self) -> usize {
        KINDS.into_iter().map(|kind| self.count(kind)).sum()
    }

    /// Queues a connection after others of its kind.
    pub fn push<S: ByteStream>(&mut self, token: Token, slot: &mut Slot<Transport<S>>) {
        slot.queued = true;
        if slot.is_shaking() {
            self.shaking.push_back(token);
        } else if slot.is_heavy() {
            self.of(Kind::Heavy).tokens.push_back(token);
        } else {
            self.of(Kind::Light).tokens.push_back(token);
        }
    }

    /// Queues a connection that waits for a value buffer.
    pub fn push_waiting(&mut self, token: Token) {
        self.of(Kind::Waiting).tokens.push_back(token);
    }

    /// Returns the connection that has waited longest for a value buffer.
    #[inline]
    pub fn first_waiting(&self) -> Option<Token> {
        let tokens = &self.by_kind[Kind::Waiting as usize].tokens;
        tokens.front().copied()
    }

    /// Removes a connection that waits for a value buffer.
    pub fn remove_waiting(&mut self, token: Token) {
        let tokens = &mut self.of(Kind::Waiting).tokens;
        if let Some(at) = tokens.iter().position(|waiting| *waiting == token) {
            tokens.remove(at);
        }
    }

    /// Takes the next connection in a TLS handshake. It may have been closed.
    pub fn pop_shaking(&mut self) -> Option<Token> {
        self.shaking.pop_front()
    }

    /// Takes the next other connection, from the queue that was served least. It may have been closed.
    pub fn pop(&mut self, waiting_is_ready: bool) -> Option<(Kind, Token)> {
        let is_ready =
            |queues: &Self, kind: Kind| queues.count(kind) > 0 && (kind != Kind::Waiting || waiting_is_ready);
        let ready = KINDS.into_iter().filter(|kind| is_ready(self, *kind));
        let kind = ready.min_by_key(|kind| self.by_kind[*kind as usize].served_bytes)?;
        let served_bytes = self.of(kind).served_bytes;
        for other in KINDS {
            if !is_ready(self, other) {
                let other = self.of(other);
                other.served_bytes = other.served_bytes.max(served_bytes);
            }
        }
        let token = self.of(kind).tokens.pop_front()?;
        Some((kind, token))
    }

    /// Charges the bytes of a turn to the queue that its connection came from.
    pub fn note_served(&mut self, kind: Kind, bytes: u64) {
        self.of(kind).served_bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: u64 = 8;

    fn tokens() -> impl Iterator<Item = Token> {
        (0..TOKENS).map(Token::from_u64)
    }

    /// Queues get equal bytes, however many connections they hold and however long their turns are.
    #[test]
    fn queues_get_equal_bytes() {
        let mut queues = Queues::new(TOKENS as usize);
        for kind in KINDS {
            queues.of(kind).tokens.extend(tokens());
        }
        let turn_bytes = [1, 100, 10];
        let mut served_bytes = [0; KINDS.len()];
        for _ in 0..2000 {
            let (kind, token) = queues.pop(true).unwrap();
            queues.of(kind).tokens.push_back(token);
            queues.note_served(kind, turn_bytes[kind as usize]);
            served_bytes[kind as usize] += turn_bytes[kind as usize];
            let most = served_bytes.into_iter().max().unwrap();
            let least = served_bytes.into_iter().min().unwrap();
            assert!(most - least <= 100, "{served_bytes:?}");
        }
    }

    /// A queue that was empty, or could not be served, has no turns to catch up on.
    #[test]
    fn a_queue_saves_no_turns_up() {
        for kind in [Kind::Light, Kind::Waiting] {
            let mut queues = Queues::new(TOKENS as usize);
            queues.of(Kind::Heavy).tokens.extend(tokens());
            if kind == Kind::Waiting {
                queues.of(kind).tokens.extend(tokens());
            }
            for _ in 0..TOKENS / 2 {
                assert_eq!(queues.pop(false).unwrap().0, Kind::Heavy);
                queues.note_served(Kind::Heavy, 100);
            }
            if kind != Kind::Waiting {
                queues.of(kind).tokens.extend(tokens());
            }
            let mut turns = 0;
            while queues.pop(true).unwrap().0 == kind {
                queues.note_served(kind, 50);
                turns += 1;
            }
            assert!((1..=4).contains(&turns), "{turns} turns of {kind:?}");
        }
    }

    #[test]
    fn closed_connections_leave_the_queue() {
        let mut queues = Queues::new(TOKENS as usize);
        tokens().for_each(|token| queues.push_waiting(token));
        tokens().for_each(|token| queues.remove_waiting(token));
        assert_eq!(queues.count(Kind::Waiting), 0);
        assert_eq!(queues.first_waiting(), None);
    }
}
