//! Ends a connection: all replies, then the end, and no reset that takes them back.

use std::io::ErrorKind;

use micanite_net::ByteStream;

use super::{Buffers, Connection, Next, Phase, Turn};
use crate::limits::{HALF_CLOSED_MS_MAX, TURN_INPUT_BYTES_MAX};

impl<S: ByteStream> Connection<S> {
    /// Returns whether the peer was told of the end, and has not ended yet.
    #[inline]
    pub fn is_half_closed(&self) -> bool {
        self.phase == Phase::HalfClosed
    }

    /// Returns whether the peer has had its time to end.
    pub fn is_half_closed_for_long(&self, now_ms: u64) -> bool {
        self.is_half_closed() && now_ms.saturating_sub(self.progress_ms) >= HALF_CLOSED_MS_MAX
    }

    /// Tells the peer of the end, and takes what it has sent: closing a socket that has unread input takes
    /// back replies that the peer has not received. Waits for nothing.
    pub fn prepare_close(&mut self, buffers: &mut Buffers) {
        // Where the peer cannot be told, the connection is closed all the same.
        let _ = self.stream.end_output();
        let mut discarded = 0;
        while discarded < TURN_INPUT_BYTES_MAX
            && let Ok(bytes @ 1..) = self.stream.discard(&mut buffers.input)
        {
            discarded += bytes;
        }
    }

    /// Ends a connection whose replies are all sent. Discards the input of a peer that was told, until it
    /// ends too.
    #[cold]
    pub(super) fn end(&mut self, turn: &mut Turn<'_, '_>) -> Next {
        if self.phase == Phase::EndedByPeer {
            return Next::Close;
        }
        if self.phase == Phase::Ending {
            match self.stream.end_output() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Write,
                Err(_) => return Next::Close,
            }
            self.phase = Phase::HalfClosed;
            self.progress_ms = turn.now_ms;
        }
        while turn.received_bytes < TURN_INPUT_BYTES_MAX {
            match self.stream.discard(&mut turn.buffers.input) {
                Ok(bytes @ 1..) => turn.note_received(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Read,
                Ok(0) | Err(_) => return Next::Close,
            }
        }
        Next::Again
    }
}
