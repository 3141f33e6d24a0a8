//! A connection's turn: receive, process, send. In the common case one `recv` and one `send`.

use std::io::ErrorKind;
use std::ops::ControlFlow::{self, Break, Continue};

use micanite_net::ByteStream;

use super::{Buffers, Connection, LongInput, Next, Phase, Unsent};
use crate::limits::{
    INPUT_BYTES, KEY_BYTES, OUTPUT_BYTES, TURN_BYTES, TURN_INPUT_BYTES_MAX, TURN_LINES_BYTES_MAX,
    TURN_OUTPUT_BYTES_MAX,
};
use crate::output::Output;
use crate::session::{Context, Progress, Status};

/// The state of a turn.
#[derive(Debug)]
pub struct Turn<'t, 'c> {
    pub(super) buffers: &'t mut Buffers,
    context: &'t mut Context<'c>,
    pub(super) now_ms: u64,
    requests_left: u32,
    /// Receiving may bring something.
    readable: bool,
    /// Start of the scratch input that is not processed.
    from: usize,
    /// End of the scratch input.
    to: usize,
    /// Filled bytes of the scratch output.
    pub(super) filled: usize,
    pub(super) received_bytes: usize,
    pub(super) sent_bytes: usize,
}

/// Reason why the work of a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// More input is needed.
    Input,
    /// The peer does not take all replies now.
    Output,
    /// No value buffer of so many bytes is free.
    ValueBuffer { bytes: usize },
    /// The turn is over, and there is more to do.
    TurnOver,
    /// The peer sends no more. The replies are sent first.
    EndOfInput,
    /// The server ends the conversation. The replies are sent first.
    End,
    /// The peer cannot be sent anything any more.
    Broken,
}

impl<'t, 'c> Turn<'t, 'c> {
    /// Begins a turn of at most `requests_max` requests. `readable`: the poller has seen input.
    pub fn new(
        buffers: &'t mut Buffers,
        context: &'t mut Context<'c>,
        now_ms: u64,
        requests_max: u32,
        readable: bool,
    ) -> Self {
        Self {
            buffers,
            context,
            now_ms,
            requests_left: requests_max,
            readable,
            from: 0,
            to: 0,
            filled: 0,
            received_bytes: 0,
            sent_bytes: 0,
        }
    }

    fn unprocessed(&self) -> usize {
        self.to - self.from
    }

    /// Returns whether the turn has moved as many bytes as it may.
    #[inline]
    fn is_spent(&self) -> bool {
        self.context.worker.is_spent()
    }

    /// Counts bytes that were copied, and keys that were looked up, as moved bytes.
    #[inline]
    fn charge(&mut self, bytes: usize, keys: usize) {
        self.context.worker.charge(bytes + keys * KEY_BYTES);
    }

    /// Counts bytes that were received.
    #[inline]
    pub(super) fn note_received(&mut self, bytes: usize) {
        self.received_bytes += bytes;
        self.context.counters.bytes_read.add(bytes as u64);
        self.charge(bytes, 0);
    }

    /// Counts bytes that were sent.
    #[inline]
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent_bytes += bytes;
        self.context.counters.bytes_written.add(bytes as u64);
        self.charge(bytes, 0);
    }
}

impl<S: ByteStream> Connection<S> {
    /// Takes a turn.
    pub fn turn(&mut self, mut turn: Turn<'_, '_>) -> Next {
        turn.context.worker.begin_turn();
        turn.charge(TURN_BYTES, 0);
        if self.progress_ms == 0 {
            // This is the first turn.
            self.progress_ms = turn.now_ms;
        }
        // A poller does not see bytes that the stream holds back.
        turn.readable |= self.stream.holds_input() || std::mem::take(&mut self.has_more);
        if let Break(stop) = self.send_rest(&mut turn) {
            return self.next(stop, &mut turn);
        }
        if self.phase != Phase::Serving {
            return self.end(&mut turn);
        }
        if let Some((block, bytes)) = self.input.take() {
            let left = &turn.buffers.input_blocks.bytes(&block)[..bytes];
            turn.buffers.input[..bytes].copy_from_slice(left);
            turn.buffers.input_blocks.give_back(block);
            turn.to = bytes;
        }
        let mut stop = self.work(&mut turn);
        self.phase = match stop {
            Stop::End => Phase::Ending,
            // The peer may not have taken the replies before the closing request.
            _ if self.session.is_closing() => Phase::Ending,
            Stop::EndOfInput => Phase::EndedByPeer,
            _ => Phase::Serving,
        };
        if let Break(unsent) = self.flush(&mut turn) {
            stop = unsent;
        }
        self.keep_input(&mut turn);
        self.next(stop, &mut turn)
    }

    /// Returns what the connection waits for after a turn.
    fn next(&mut self, stop: Stop, turn: &mut Turn<'_, '_>) -> Next {
        match stop {
            Stop::Broken => Next::Close,
            Stop::Output => Next::Write,
            _ if self.stream.holds_output() => Next::Write,
            Stop::Input if self.stream.holds_input() => Next::Again,
            Stop::Input => Next::Read,
            Stop::ValueBuffer { bytes } => Next::Wait { bytes },
            Stop::TurnOver => Next::Again,
            Stop::End | Stop::EndOfInput => self.end(turn),
        }
    }

    /// Receives, processes and sends until something is missing.
    fn work(&mut self, turn: &mut Turn<'_, '_>) -> Stop {
        // Without input left over there is nothing to process before the first read.
        let mut status = Status::NeedInput;
        if self.long_input.is_none() && (turn.unprocessed() > 0 || self.session.is_watching()) {
            status = self.process(turn);
        }
        loop {
            let step = if turn.is_spent() && self.has_to_do(status, turn) {
                Break(self.again(turn))
            } else if self.long_input.is_some() {
                self.receive_long(turn)
            } else {
                match status {
                    Status::NeedInput => self.receive(turn),
                    Status::NeedOutput { bytes } => self.need_output(bytes, turn),
                    Status::NeedBuffer { bytes } => self.begin_long(bytes, turn),
                    Status::TurnOver => {
                        turn.context.counters.conn_yields.add(1);
                        Break(self.again(turn))
                    }
                    Status::Close => Break(Stop::End),
                }
            };
            if let Break(stop) = step {
                return stop;
            }
            if self.long_input.is_none() {
                status = self.process(turn);
            }
        }
    }

    /// Returns whether the connection could go on at once.
    fn has_to_do(&self, status: Status, turn: &Turn<'_, '_>) -> bool {
        match (&self.long_input, status) {
            (Some(long), _) => long.filled == long.buffer.bytes().len() || turn.readable,
            (None, Status::NeedInput) => turn.readable,
            (None, Status::NeedOutput { .. } | Status::NeedBuffer { .. }) => true,
            (None, Status::TurnOver | Status::Close) => false,
        }
    }

    /// Ends the turn with more to do. The next one receives without an event.
    fn again(&mut self, turn: &Turn<'_, '_>) -> Stop {
        self.has_more = turn.readable;
        Stop::TurnOver
    }

    #[inline]
    fn process(&mut self, turn: &mut Turn<'_, '_>) -> Status {
        let input = &turn.buffers.input[turn.from..turn.to];
        let full = input.len() == INPUT_BYTES;
        let mut output = Output::new(&mut turn.buffers.output, turn.filled);
        let Progress { consumed, status } =
            self.session.process(input, full, &mut turn.requests_left, &mut output, turn.context);
        let written_bytes = output.filled() - turn.filled;
        turn.filled = output.filled();
        turn.from += consumed;
        turn.charge(written_bytes, self.session.take_keys());
        if consumed > 0 {
            self.progress_ms = turn.now_ms;
        }
        status
    }

    /// Receives into the scratch input, after the unprocessed bytes.
    #[inline]
    fn receive(&mut self, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        if !turn.readable {
            return Break(Stop::Input);
        }
        if turn.received_bytes >= TURN_LINES_BYTES_MAX {
            return Break(self.again(turn));
        }
        if turn.from > 0 {
            turn.buffers.input.copy_within(turn.from..turn.to, 0);
            turn.to -= turn.from;
            turn.from = 0;
        }
        let room = &mut turn.buffers.input[turn.to..];
        let room_bytes = room.len();
        let bytes = recv(&mut self.stream, room)?;
        // A short read has taken all there was.
        turn.readable = bytes == room_bytes;
        turn.to += bytes;
        self.received_ms = turn.now_ms;
        turn.note_received(bytes);
        Continue(())
    }

    /// Makes room for the next reply, in the scratch output or in a value buffer.
    fn need_output(&mut self, bytes: usize, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        self.flush(turn)?;
        if turn.is_spent() {
            return Break(self.again(turn));
        }
        // The request that comes again was counted already.
        turn.requests_left = turn.requests_left.max(1);
        if bytes > OUTPUT_BYTES {
            let Some(mut buffer) = turn.buffers.values.take(bytes) else {
                return Break(Stop::ValueBuffer { bytes });
            };
            let input = &turn.buffers.input[turn.from..turn.to];
            let mut output = Output::new(buffer.bytes_mut(), 0);
            let full = input.len() == INPUT_BYTES;
            // The next `process` finds again why the session stops.
            let progress =
                self.session.process(input, full, &mut turn.requests_left, &mut output, turn.context);
            let to = output.filled();
            turn.from += progress.consumed;
            turn.charge(to, self.session.take_keys());
            if to == 0 {
                // The item has gone meanwhile, and the request gets no reply or a short one.
                turn.buffers.values.give_back(buffer);
            } else {
                self.unsent = Unsent::Value { buffer, from: 0, to };
                self.progress_ms = turn.now_ms;
                self.held_since_ms = turn.now_ms;
                self.send_parked(turn)?;
            }
        }
        if turn.sent_bytes >= TURN_OUTPUT_BYTES_MAX {
            return Break(self.again(turn));
        }
        Continue(())
    }

    /// Takes a value buffer for a request that is longer than the scratch input. Replies go first, so
    /// that no connection holds a value buffer and waits for another.
    fn begin_long(&mut self, bytes: usize, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        self.flush(turn)?;
        if turn.is_spent() {
            return Break(self.again(turn));
        }
        let Some(mut buffer) = turn.buffers.values.take(bytes) else {
            return Break(Stop::ValueBuffer { bytes });
        };
        let filled = turn.unprocessed();
        let received = &turn.buffers.input[turn.from..turn.to];
        buffer.bytes_mut()[..filled].copy_from_slice(received);
        turn.from = turn.to;
        self.long_input = Some(LongInput { buffer, filled });
        self.progress_ms = turn.now_ms;
        self.held_since_ms = turn.now_ms;
        Continue(())
    }

    /// Receives the rest of a long request, and processes it when it is complete.
    fn receive_long(&mut self, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        let Some(long) = &mut self.long_input else {
            return Continue(());
        };
        let rest = &mut long.buffer.bytes_mut()[long.filled..];
        if !rest.is_empty() {
            if !turn.readable {
                return Break(Stop::Input);
            }
            let room_bytes = TURN_INPUT_BYTES_MAX.saturating_sub(turn.received_bytes);
            if room_bytes == 0 {
                return Break(self.again(turn));
            }
            let room_bytes = room_bytes.min(rest.len());
            let bytes = recv(&mut self.stream, &mut rest[..room_bytes])?;
            turn.readable = bytes == room_bytes;
            long.filled += bytes;
            self.progress_ms = turn.now_ms;
            self.received_ms = turn.now_ms;
            turn.note_received(bytes);
            // A request whose turn is spent waits for the next turn.
            if long.filled < long.buffer.bytes().len() || turn.is_spent() {
                return Continue(());
            }
        }
        let mut output = Output::new(&mut turn.buffers.output, turn.filled);
        // It counts as a request, but does not wait for another turn because of that.
        turn.requests_left = turn.requests_left.max(1);
        let input = long.buffer.bytes();
        let progress = self.session.process(input, false, &mut turn.requests_left, &mut output, turn.context);
        turn.filled = output.filled();
        match progress.status {
            Status::NeedOutput { .. } => self.flush(turn),
            Status::TurnOver => Break(self.again(turn)),
            _ => {
                if let Some(long) = self.long_input.take() {
                    turn.buffers.values.give_back(long.buffer);
                }
                Continue(())
            }
        }
    }

    /// Sends bytes that earlier turns have left.
    fn send_rest(&mut self, turn: &mut Turn<'_, '_>) -> ControlFlow<Stop> {
        self.send_held()?;
        self.send_parked(turn)
    }

    /// Keeps unprocessed input for the next turn.
    fn keep_input(&mut self, turn: &mut Turn<'_, '_>) {
        let bytes = turn.unprocessed();
        if bytes == 0 {
            return;
        }
        let blocks = &mut turn.buffers.input_blocks;
        let block = blocks.take().expect("there is a block for each connection");
        let left = &turn.buffers.input[turn.from..turn.to];
        blocks.bytes_mut(&block)[..bytes].copy_from_slice(left);
        self.input = Some((block, bytes));
    }
}

/// Receives at least one byte.
#[inline]
fn recv(stream: &mut impl ByteStream, room: &mut [u8]) -> ControlFlow<Stop, usize> {
    match stream.recv(room) {
        Ok(0) => Break(Stop::EndOfInput),
        Ok(bytes) => Continue(bytes),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Break(Stop::Input),
        // The peer has violated TLS, and is told how.
        Err(error) if error.kind() == ErrorKind::InvalidData => Break(Stop::End),
        Err(_) => Break(Stop::EndOfInput),
    }
}
