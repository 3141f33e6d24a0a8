//! One connection: its stream, its session, and the bytes that are on their way.
//!
//! ```text
//!            +-------- scratch input ------+        +------ scratch output -----+
//!  recv ---> | what was left over | fresh  | -----> | replies of this turn      | ---> send
//!            +-----------------------------+        +---------------------------+
//!                 | a partial request: a block          | unsent: a block, and no reading
//!                 | a long body: a value buffer         | a long value: a value buffer
//! ```
//!
//! The scratch buffers are the worker's, shared by its connections one after the other. Between
//! turns a connection owns at most one block of input, and either one block of output or one
//! value buffer; when everything is answered and sent it owns none.

mod buffers;
#[cfg(test)]
mod tests;
mod turn;
#[cfg(test)]
mod turn_tests;

pub use buffers::Buffers;
pub use turn::Turn;

use micanite_net::{Block, ByteStream, ValueBuffer};

use crate::limits::{VALUE_BUFFER_BYTES_PER_S_MIN, VALUE_BUFFER_STALL_MS_MAX};
use crate::session::{Awaits, Session};

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Input.
    Read,
    /// The peer to read: it has replies waiting.
    Write,
    /// Its next turn; there is more to do.
    Again,
    /// A value buffer of so many bytes.
    Wait {
        /// The length.
        bytes: usize,
    },
    /// Nothing: it has ended.
    Close,
}

/// See the module.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    session: Session,
    /// Input that is not processed yet.
    input: Option<(Block, usize)>,
    unsent: Unsent,
    body: Option<Body>,
    /// Its last turn ended before it had read what there was.
    has_more: bool,
    /// Ends when all is sent.
    closing: bool,
    /// When a request was answered last, or bytes of a value or of parked replies moved.
    progress_ms: u64,
    /// Since when it has its value buffer, if it has one.
    held_since_ms: u64,
}

/// Replies that the peer has not taken yet.
#[derive(Debug)]
enum Unsent {
    Nothing,
    Block { block: Block, from: usize, to: usize },
    Value { buffer: ValueBuffer, from: usize, to: usize },
}

/// The long body of a store, as far as it has come.
#[derive(Debug)]
struct Body {
    buffer: ValueBuffer,
    filled: usize,
}

impl<S: ByteStream> Connection<S> {
    /// A connection at its beginning.
    pub fn new(stream: S) -> Self {
        Self::with(stream, Session::default())
    }

    /// A connection whose conversation begins so.
    pub fn with(stream: S, session: Session) -> Self {
        Self {
            stream,
            session,
            input: None,
            unsent: Unsent::Nothing,
            body: None,
            has_more: false,
            closing: false,
            progress_ms: 0,
            held_since_ms: 0,
        }
    }

    /// Its stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether it shows what it watches.
    pub fn is_watching(&self) -> bool {
        self.session.is_watching()
    }

    /// What its next input is.
    #[inline]
    pub fn awaits(&self) -> Awaits {
        if self.body.is_some() { Awaits::Body } else { self.session.awaits() }
    }

    /// Whether its client has to say who it is, and has never done so.
    pub fn is_of_stranger(&self) -> bool {
        self.session.is_of_stranger()
    }

    /// Whether nothing is half done.
    pub fn is_idle(&self) -> bool {
        self.input.is_none()
            && self.body.is_none()
            && matches!(self.unsent, Unsent::Nothing)
            && !self.stream.holds_output()
            && self.session.is_idle()
    }

    /// Whether it has a value buffer and moves its bytes too slowly: none for a while, or fewer than
    /// [`VALUE_BUFFER_BYTES_PER_S_MIN`] after a while.
    pub fn has_stalled(&self, now_ms: u64) -> bool {
        let moved_bytes = match (&self.body, &self.unsent) {
            (Some(body), _) => body.filled,
            (None, Unsent::Value { from, .. }) => *from,
            (None, _) => return false,
        };
        let needed_ms = moved_bytes as u64 * 1000 / VALUE_BUFFER_BYTES_PER_S_MIN;
        let last_ms = self.progress_ms.min(self.held_since_ms + needed_ms);
        now_ms.saturating_sub(last_ms) >= VALUE_BUFFER_STALL_MS_MAX
    }

    /// Whether it has done nothing since `before_ms`: no request was answered, and no byte of a value
    /// or of replies that wait for the peer has moved. Pieces of a line are nothing.
    pub fn has_done_nothing(&self, before_ms: u64) -> bool {
        self.progress_ms < before_ms
    }

    /// Ends it: what it owns goes back, the stream closes.
    pub fn release(self, buffers: &mut Buffers) {
        if let Some((block, _)) = self.input {
            buffers.input_blocks.give_back(block);
        }
        match self.unsent {
            Unsent::Nothing => {}
            Unsent::Block { block, .. } => buffers.output_blocks.give_back(block),
            Unsent::Value { buffer, .. } => buffers.values.give_back(buffer),
        }
        if let Some(body) = self.body {
            buffers.values.give_back(body.buffer);
        }
    }
}
