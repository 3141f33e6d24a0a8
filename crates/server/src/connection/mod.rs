//! A connection: its stream, its session, its unfinished input and output.
//!
//! ```text
//!            +-------- scratch input ------+        +------ scratch output -----+
//!  recv ---> | left over  | fresh          | -----> | replies of this turn      | ---> send
//!            +-----------------------------+        +---------------------------+
//!                 | a partial request: a block          | unsent: a block, and no receiving
//!                 | a long request: a value buffer      | a long value: a value buffer
//! ```
//!
//! The scratch buffers are the worker's; its connections use them in turn. Between turns a connection
//! owns at most one block of input, and either one block of output or one value buffer. It owns none
//! when everything is answered and sent.

mod buffers;
mod end;
#[cfg(test)]
mod end_tests;
mod send;
#[cfg(test)]
mod tests;
mod turn;
#[cfg(test)]
mod turn_tests;

pub use buffers::Buffers;
pub use turn::Turn;

use micanite_net::{Block, ByteStream, ValueBuffer};

use crate::limits::{END_STALL_MS, VALUE_BUFFER_BYTES_PER_S_MIN, VALUE_BUFFER_STALL_MS_MAX};
use crate::session::{Awaits, Session};

/// Need of a connection after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Input.
    Read,
    /// The peer has to read replies.
    Write,
    /// A further turn: there is more to do.
    Again,
    /// A value buffer of so many bytes.
    Wait { bytes: usize },
    /// Nothing: the connection has ended.
    Close,
}

/// A connection.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    session: Session,
    /// Input that is not processed yet.
    input: Option<(Block, usize)>,
    unsent: Unsent,
    long_input: Option<LongInput>,
    /// The last turn ended before it had received all input.
    has_more: bool,
    phase: Phase,
    /// Time of the last progress: a request answered, or bytes of a value or of parked replies moved.
    progress_ms: u64,
    /// Time when the connection got its value buffer, if it has one.
    held_since_ms: u64,
    /// Time when bytes came.
    received_ms: u64,
}

/// Phases of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The peer sends no more. The connection is closed when all is sent.
    EndedByPeer,
    /// The server ends the conversation. The peer is told when all is sent.
    Ending,
    /// The peer was told, and its input is discarded until it ends, too: closing a socket that has unread
    /// input would take back replies that are on their way.
    HalfClosed,
}

/// Replies that the peer has not taken yet.
#[derive(Debug)]
enum Unsent {
    Nothing,
    Block { block: Block, from: usize, to: usize },
    Value { buffer: ValueBuffer, from: usize, to: usize },
}

/// A request that is longer than the scratch input, as far as it has come.
#[derive(Debug)]
struct LongInput {
    buffer: ValueBuffer,
    filled: usize,
}

impl<S: ByteStream> Connection<S> {
    pub fn new(stream: S) -> Self {
        Self::with(stream, Session::default())
    }

    /// Makes a connection with a session of its own.
    pub fn with(stream: S, session: Session) -> Self {
        Self {
            stream,
            session,
            input: None,
            unsent: Unsent::Nothing,
            long_input: None,
            has_more: false,
            phase: Phase::Serving,
            progress_ms: 0,
            held_since_ms: 0,
            received_ms: 0,
        }
    }

    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns whether the connection watches.
    pub fn is_watching(&self) -> bool {
        self.session.is_watching()
    }

    /// Returns what the next bytes of the input are.
    #[inline]
    pub fn awaits(&self) -> Awaits {
        if self.long_input.is_some() { Awaits::Body } else { self.session.awaits() }
    }

    /// Returns whether the client speaks TLS where none is spoken.
    pub fn speaks_tls(&self) -> bool {
        self.session.speaks_tls()
    }

    /// Returns whether the client has to authenticate, and never has.
    pub fn never_authenticated(&self) -> bool {
        self.session.never_authenticated()
    }

    /// Returns whether a server that ends waits for this connection: its client takes a reply, or sends a
    /// value. Half a line, a login and the lines of `watch` are nothing to wait for.
    pub fn delays_an_end(&self, now_ms: u64) -> bool {
        if self.is_half_closed() || self.never_authenticated() || self.is_watching() {
            return false;
        }
        let is_answered = !matches!(self.unsent, Unsent::Nothing)
            || self.stream.holds_output()
            || self.session.is_in_steps();
        let is_moving = now_ms.saturating_sub(self.received_ms) < END_STALL_MS;
        is_answered || self.awaits() != Awaits::Request && is_moving
    }

    /// Returns whether the connection has a value buffer and moves its bytes too slowly: none for a while,
    /// or fewer than [`VALUE_BUFFER_BYTES_PER_S_MIN`] after a while.
    pub fn has_stalled(&self, now_ms: u64) -> bool {
        let moved_bytes = match (&self.long_input, &self.unsent) {
            (Some(long), _) => long.filled,
            (None, Unsent::Value { from, .. }) => *from,
            (None, _) => return false,
        };
        let needed_ms = moved_bytes as u64 * 1000 / VALUE_BUFFER_BYTES_PER_S_MIN;
        let last_ms = self.progress_ms.min(self.held_since_ms + needed_ms);
        now_ms.saturating_sub(last_ms) >= VALUE_BUFFER_STALL_MS_MAX
    }

    /// Returns whether there was no progress since `before_ms`: no request was answered, and no byte of a
    /// value or of parked replies has moved. Pieces of a line are no progress.
    pub fn has_done_nothing(&self, before_ms: u64) -> bool {
        self.progress_ms < before_ms
    }

    /// Ends the connection: returns its buffers, closes the stream.
    pub fn release(self, buffers: &mut Buffers) {
        if let Some((block, _)) = self.input {
            buffers.input_blocks.give_back(block);
        }
        match self.unsent {
            Unsent::Nothing => {}
            Unsent::Block { block, .. } => buffers.output_blocks.give_back(block),
            Unsent::Value { buffer, .. } => buffers.values.give_back(buffer),
        }
        if let Some(long) = self.long_input {
            buffers.values.give_back(long.buffer);
        }
    }
}
