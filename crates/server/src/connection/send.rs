//! Sends replies, and keeps those that the peer does not take.

use std::io::{Error, ErrorKind};
use std::ops::ControlFlow::{self, Break, Continue};

use micanite_net::ByteStream;

use super::turn::{Stop, Turn};
use super::{Connection, Unsent};
use crate::limits::{OUTPUT_BYTES, TURN_OUTPUT_BYTES_MAX};

impl<S: ByteStream> Connection<S> {
    /// Sends the scratch output. Parks in a block what the peer does not take.
    #[inline]
    pub(super) fn flush(&mut self, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        if turn.filled == 0 {
            return Continue(());
        }
        let filled = std::mem::take(&mut turn.filled);
        let replies = &turn.buffers.output[..filled];
        let sent = match self.stream.send(replies) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return Break(Stop::Broken),
        };
        turn.note_sent(sent);
        if sent == filled {
            return Continue(());
        }
        let to = filled - sent;
        let blocks = &mut turn.buffers.output_blocks;
        let block = blocks.take().expect("there is a block for each connection");
        blocks.bytes_mut(&block)[..to].copy_from_slice(&turn.buffers.output[sent..filled]);
        self.unsent = Unsent::Block { block, from: 0, to };
        Break(Stop::Output)
    }

    /// Sends bytes that the stream holds back.
    #[inline]
    pub(super) fn send_held(&mut self) -> ControlFlow<Stop> {
        if !self.stream.holds_output() {
            return Continue(());
        }
        match self.stream.flush() {
            Ok(()) => Continue(()),
            Err(error) => Break(unsent(&error)),
        }
    }

    /// Sends replies that were parked.
    pub(super) fn send_parked(&mut self, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        let (bytes, from) = match &mut self.unsent {
            Unsent::Nothing => return Continue(()),
            Unsent::Block { block, from, to } => (&turn.buffers.output_blocks.bytes(block)[*from..*to], from),
            Unsent::Value { buffer, from, to } => (&buffer.bytes()[*from..*to], from),
        };
        // A long value takes several turns, so that other connections do not wait for all of it.
        let left_bytes = TURN_OUTPUT_BYTES_MAX.saturating_sub(turn.sent_bytes);
        let piece = &bytes[..bytes.len().min(left_bytes.max(OUTPUT_BYTES))];
        let sent = match self.stream.send(piece) {
            Ok(sent) => sent,
            Err(error) => return Break(unsent(&error)),
        };
        let complete = sent == bytes.len();
        *from += sent;
        turn.note_sent(sent);
        if sent > 0 {
            self.progress_ms = turn.now_ms;
        }
        if !complete {
            return Break(Stop::Output);
        }
        match std::mem::replace(&mut self.unsent, Unsent::Nothing) {
            Unsent::Nothing => {}
            Unsent::Block { block, .. } => turn.buffers.output_blocks.give_back(block),
            Unsent::Value { buffer, .. } => turn.buffers.values.give_back(buffer),
        }
        Continue(())
    }
}

/// Returns why bytes were not sent.
fn unsent(error: &Error) -> Stop {
    if error.kind() == ErrorKind::WouldBlock { Stop::Output } else { Stop::Broken }
}
