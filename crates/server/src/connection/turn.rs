//! A connection's turn: read, process, send. In the common case one `recv` and one `send`.

use std::io::ErrorKind;

use micanite_net::ByteStream;

use super::{Body, Buffers, Connection, Next, Unsent};
use crate::limits::{
    INPUT_BYTES, KEY_BYTES, OUTPUT_BYTES, TURN_BYTES, TURN_INPUT_BYTES_MAX, TURN_LINES_BYTES_MAX,
    TURN_OUTPUT_BYTES_MAX,
};
use crate::output::Output;
use crate::session::{Context, Progress, Status};

/// What a turn works with, and how far it has come.
#[derive(Debug)]
pub struct Turn<'t, 'c> {
    buffers: &'t mut Buffers,
    context: &'t mut Context<'c>,
    now_ms: u64,
    requests_left: u32,
    /// Whether reading may bring something.
    readable: bool,
    /// What of the scratch input is not processed.
    from: usize,
    to: usize,
    /// What of the scratch output is filled.
    filled: usize,
    received_bytes: usize,
    sent_bytes: usize,
    /// The peer cannot be sent anything any more.
    broken: bool,
}

impl<'t, 'c> Turn<'t, 'c> {
    /// A turn of at most `requests_max` requests. `readable`: the poller has seen input.
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
            broken: false,
        }
    }

    fn unprocessed(&self) -> usize {
        self.to - self.from
    }

    /// Whether it has done as much as a turn may.
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
    fn note_received(&mut self, bytes: usize) {
        self.received_bytes += bytes;
        self.context.counters.bytes_read.add(bytes as u64);
        self.charge(bytes, 0);
    }

    /// Counts bytes that were sent.
    #[inline]
    fn note_sent(&mut self, bytes: usize) {
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
            // Its first turn.
            self.progress_ms = turn.now_ms;
        }
        // What the stream holds back, no poller sees.
        turn.readable |= self.stream.holds_input() || std::mem::take(&mut self.has_more);
        if !self.send_held(&mut turn) || !self.send_parked(&mut turn) {
            return if turn.broken { Next::Close } else { Next::Write };
        }
        if self.closing {
            return Next::Close;
        }
        if let Some((block, bytes)) = self.input.take() {
            let left = &turn.buffers.input_blocks.bytes(&block)[..bytes];
            turn.buffers.input[..bytes].copy_from_slice(left);
            turn.buffers.input_blocks.give_back(block);
            turn.to = bytes;
        }
        let next = self.work(&mut turn);
        self.closing = next == Next::Close;
        self.flush(&mut turn);
        self.keep_input(&mut turn);
        match self.unsent {
            _ if turn.broken => Next::Close,
            Unsent::Nothing if self.stream.holds_output() => Next::Write,
            Unsent::Nothing if next == Next::Read && self.stream.holds_input() => Next::Again,
            Unsent::Nothing => next,
            // What is parked goes first, the end of the connection included.
            _ => Next::Write,
        }
    }

    /// Reads and processes until something is missing.
    fn work(&mut self, turn: &mut Turn<'_, '_>) -> Next {
        // Without input left over there is nothing to process before the first read.
        let mut status = Status::NeedInput;
        if self.body.is_none() && (turn.unprocessed() > 0 || self.session.is_watching()) {
            status = self.process(turn);
        }
        loop {
            let stopped = if turn.is_spent() && self.has_to_do(status, turn) {
                Some(self.again(turn))
            } else if self.body.is_some() {
                self.long_body(turn)
            } else {
                match status {
                    Status::NeedInput => self.receive(turn),
                    Status::NeedOutput { bytes } => self.need_output(bytes, turn),
                    Status::NeedBody { bytes } => self.need_body(bytes, turn),
                    Status::TurnOver => {
                        turn.context.counters.conn_yields.add(1);
                        Some(self.again(turn))
                    }
                    Status::Close => Some(Next::Close),
                }
            };
            if let Some(next) = stopped {
                return next;
            }
            if self.body.is_none() {
                status = self.process(turn);
            }
        }
    }

    /// Whether it could go on at once.
    fn has_to_do(&self, status: Status, turn: &Turn<'_, '_>) -> bool {
        match (&self.body, status) {
            (Some(body), _) => body.filled == body.buffer.bytes().len() || turn.readable,
            (None, Status::NeedInput) => turn.readable,
            (None, Status::NeedOutput { .. } | Status::NeedBody { .. }) => true,
            (None, Status::TurnOver | Status::Close) => false,
        }
    }

    /// Ends the turn with more to do. What was not read is read in the next one, without an event.
    fn again(&mut self, turn: &Turn<'_, '_>) -> Next {
        self.has_more = turn.readable;
        Next::Again
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

    /// Reads into the scratch input, behind what is unprocessed.
    #[inline]
    fn receive(&mut self, turn: &mut Turn<'_, '_>) -> Option<Next> {
        if !turn.readable {
            return Some(Next::Read);
        }
        if turn.received_bytes >= TURN_LINES_BYTES_MAX {
            return Some(self.again(turn));
        }
        if turn.from > 0 {
            turn.buffers.input.copy_within(turn.from..turn.to, 0);
            turn.to -= turn.from;
            turn.from = 0;
        }
        let room = &mut turn.buffers.input[turn.to..];
        match self.stream.recv(room) {
            Ok(0) => Some(Next::Close),
            Ok(bytes) => {
                // A short read has taken all there was.
                turn.readable = bytes == room.len();
                turn.to += bytes;
                turn.note_received(bytes);
                None
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(Next::Read),
            Err(_) => Some(Next::Close),
        }
    }

    /// Makes room for the next reply, in the scratch output or in a value buffer.
    fn need_output(&mut self, bytes: usize, turn: &mut Turn<'_, '_>) -> Option<Next> {
        if !self.flush(turn) {
            return Some(Next::Write);
        }
        if turn.is_spent() {
            return Some(self.again(turn));
        }
        // The request that has to come again was counted already.
        turn.requests_left = turn.requests_left.max(1);
        if bytes <= OUTPUT_BYTES {
            let is_over = turn.sent_bytes >= TURN_OUTPUT_BYTES_MAX;
            return is_over.then(|| self.again(turn));
        }
        let Some(mut buffer) = turn.buffers.values.take(bytes) else {
            return Some(Next::Wait { bytes });
        };
        let input = &turn.buffers.input[turn.from..turn.to];
        let mut output = Output::new(buffer.bytes_mut(), 0);
        let full = input.len() == INPUT_BYTES;
        let progress = self.session.process(input, full, &mut turn.requests_left, &mut output, turn.context);
        let to = output.filled();
        turn.from += progress.consumed;
        turn.charge(to, self.session.take_keys());
        self.unsent = Unsent::Value { buffer, from: 0, to };
        self.progress_ms = turn.now_ms;
        self.held_since_ms = turn.now_ms;
        if !self.send_parked(turn) {
            return Some(Next::Write);
        }
        // Why the session stopped is found again by the next `process`.
        let is_over = turn.sent_bytes >= TURN_OUTPUT_BYTES_MAX;
        is_over.then(|| self.again(turn))
    }

    /// Takes a value buffer for a request that is longer than the scratch input. Replies go first, so
    /// that no connection holds a value buffer and waits for another.
    fn need_body(&mut self, bytes: usize, turn: &mut Turn<'_, '_>) -> Option<Next> {
        if !self.flush(turn) {
            return Some(Next::Write);
        }
        if turn.is_spent() {
            return Some(self.again(turn));
        }
        let Some(mut buffer) = turn.buffers.values.take(bytes) else {
            return Some(Next::Wait { bytes });
        };
        let filled = turn.unprocessed();
        let received = &turn.buffers.input[turn.from..turn.to];
        buffer.bytes_mut()[..filled].copy_from_slice(received);
        turn.from = turn.to;
        self.body = Some(Body { buffer, filled });
        self.progress_ms = turn.now_ms;
        self.held_since_ms = turn.now_ms;
        None
    }

    /// Reads the rest of a long request, and processes it when it is complete.
    fn long_body(&mut self, turn: &mut Turn<'_, '_>) -> Option<Next> {
        let body = self.body.as_mut()?;
        let rest = &mut body.buffer.bytes_mut()[body.filled..];
        if !rest.is_empty() {
            if !turn.readable {
                return Some(Next::Read);
            }
            let room_bytes = TURN_INPUT_BYTES_MAX.saturating_sub(turn.received_bytes);
            if room_bytes == 0 {
                return Some(self.again(turn));
            }
            let room_bytes = room_bytes.min(rest.len());
            match self.stream.recv(&mut rest[..room_bytes]) {
                Ok(0) => return Some(Next::Close),
                Ok(bytes) => {
                    turn.readable = bytes == room_bytes;
                    body.filled += bytes;
                    self.progress_ms = turn.now_ms;
                    turn.note_received(bytes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(Next::Read),
                Err(_) => return Some(Next::Close),
            }
            // The store of a turn that is spent waits for the next one, and so does what else has come.
            if body.filled < body.buffer.bytes().len() || turn.is_spent() {
                return None;
            }
        }
        turn.requests_left = turn.requests_left.max(1);
        let mut output = Output::new(&mut turn.buffers.output, turn.filled);
        let progress = self.session.process(
            body.buffer.bytes(),
            false,
            &mut turn.requests_left,
            &mut output,
            turn.context,
        );
        turn.filled = output.filled();
        if progress.consumed == 0 {
            return match progress.status {
                Status::NeedOutput { .. } => (!self.flush(turn)).then_some(Next::Write),
                _ => Some(self.again(turn)),
            };
        }
        if let Some(body) = self.body.take() {
            turn.buffers.values.give_back(body.buffer);
        }
        None
    }

    /// Sends the scratch output; what the peer does not take is parked in a block. Returns
    /// whether all was sent.
    #[inline]
    fn flush(&mut self, turn: &mut Turn<'_, '_>) -> bool {
        if turn.filled == 0 {
            return true;
        }
        let replies = &turn.buffers.output[..turn.filled];
        let sent = send(&mut self.stream, replies).unwrap_or_else(|| {
            turn.broken = true;
            0
        });
        let to = turn.filled - sent;
        turn.filled = 0;
        turn.note_sent(sent);
        if to == 0 || turn.broken {
            return to == 0;
        }
        let blocks = &mut turn.buffers.output_blocks;
        let block = blocks.take().expect("there is a block for each connection");
        blocks.bytes_mut(&block)[..to].copy_from_slice(&turn.buffers.output[sent..sent + to]);
        self.unsent = Unsent::Block { block, from: 0, to };
        false
    }

    /// Sends what the stream holds back. Returns whether all was sent.
    #[inline]
    fn send_held(&mut self, turn: &mut Turn<'_, '_>) -> bool {
        if !self.stream.holds_output() {
            return true;
        }
        let flushed = self.stream.flush();
        turn.broken = matches!(&flushed, Err(error) if error.kind() != ErrorKind::WouldBlock);
        flushed.is_ok()
    }

    /// Sends what is parked. Returns whether all was sent.
    fn send_parked(&mut self, turn: &mut Turn<'_, '_>) -> bool {
        let (bytes, from) = match &mut self.unsent {
            Unsent::Nothing => return true,
            Unsent::Block { block, from, to } => (&turn.buffers.output_blocks.bytes(block)[*from..*to], from),
            Unsent::Value { buffer, from, to } => (&buffer.bytes()[*from..*to], from),
        };
        // A long value takes several turns, so that others do not wait for all of it.
        let left_bytes = TURN_OUTPUT_BYTES_MAX.saturating_sub(turn.sent_bytes);
        let piece = &bytes[..bytes.len().min(left_bytes.max(OUTPUT_BYTES))];
        let Some(sent) = send(&mut self.stream, piece) else {
            turn.broken = true;
            return false;
        };
        let complete = sent == bytes.len();
        *from += sent;
        turn.note_sent(sent);
        if sent > 0 {
            self.progress_ms = turn.now_ms;
        }
        if !complete {
            return false;
        }
        match std::mem::replace(&mut self.unsent, Unsent::Nothing) {
            Unsent::Nothing => {}
            Unsent::Block { block, .. } => turn.buffers.output_blocks.give_back(block),
            Unsent::Value { buffer, .. } => turn.buffers.values.give_back(buffer),
        }
        true
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

/// Bytes that the peer takes now; `None` if it never will.
#[inline]
fn send(stream: &mut impl ByteStream, bytes: &[u8]) -> Option<usize> {
    match stream.send(bytes) {
        Ok(sent) => Some(sent),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}
