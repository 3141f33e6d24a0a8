//! Connections whose turn comes without an event: in three queues, so that those that take long keep no others waiting.

use std::collections::VecDeque;

use micanite_net::{ByteStream, Transport};

use super::slots::{Slot, Token};

/// See the module. A connection stands in one of them at most.
#[derive(Debug)]
pub(super) struct Queues {
    /// Those with more to do.
    light: VecDeque<Token>,
    /// Those whose last turn moved much within the memory.
    heavy: VecDeque<Token>,
    /// Those that shake hands.
    shaking: VecDeque<Token>,
    /// The next turn is for a heavy one, if there is any.
    heavy_is_next: bool,
}

impl Queues {
    /// Bytes for each connection.
    pub const PLACE_BYTES: usize = 3 * size_of::<Token>();

    /// Queues for so many connections, without a further allocation.
    pub fn new(connections: usize) -> Self {
        Self {
            light: VecDeque::with_capacity(connections),
            heavy: VecDeque::with_capacity(connections),
            shaking: VecDeque::with_capacity(connections),
            heavy_is_next: false,
        }
    }

    /// Whether nobody has a turn to come.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.turns() == 0 && self.shaking.is_empty()
    }

    /// How many have a turn to come, beside those that shake hands.
    #[inline]
    pub fn turns(&self) -> usize {
        self.light.len() + self.heavy.len()
    }

    /// Queues a connection behind others of its kind.
    pub fn push<S: ByteStream>(&mut self, token: Token, slot: &mut Slot<Transport<S>>) {
        slot.queued = true;
        if slot.is_shaking() {
            self.shaking.push_back(token);
        } else if slot.heavy {
            self.heavy.push_back(token);
        } else {
            self.light.push_back(token);
        }
    }

    /// The next one of those that shake hands. It may have been closed.
    pub fn pop_shaking(&mut self) -> Option<Token> {
        self.shaking.pop_front()
    }

    /// The next one of all others, light and heavy ones in turns. It may have been closed.
    pub fn pop(&mut self) -> Option<Token> {
        let (first, second) = match self.heavy_is_next {
            true => (&mut self.heavy, &mut self.light),
            false => (&mut self.light, &mut self.heavy),
        };
        self.heavy_is_next = !self.heavy_is_next;
        first.pop_front().or_else(|| second.pop_front())
    }
}
