//! A stream with what waits to be sent, and what has arrived and is not understood yet.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};

use super::open::Socket;
use super::{CLOSED, broken};

/// No more requests are taken while so much is not sent.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// Room for output that is kept when everything has been sent.
const OUTPUT_BYTES_KEPT: usize = 4 << 20;

/// A socket of a stream and its buffers. Nothing here blocks.
#[derive(Debug)]
pub(crate) struct BufferedSocket {
    socket: Socket,
    /// Requests are appended here.
    pub output: Vec<u8>,
    /// Bytes of `output` that the kernel has taken.
    sent: usize,
    input: Box<[u8]>,
    /// Received and not understood yet: from, to.
    start: usize,
    end: usize,
}

impl BufferedSocket {
    /// Takes a connected socket over; so many bytes that are not understood have room.
    pub fn new(socket: Socket, input_bytes: usize) -> Self {
        Self {
            socket,
            output: Vec::with_capacity(OUTPUT_BYTES_MAX),
            sent: 0,
            input: vec![0; input_bytes].into(),
            start: 0,
            end: 0,
        }
    }

    /// Returns whether it takes another request.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.output.len() - self.sent < OUTPUT_BYTES_MAX
    }

    /// Returns whether receiving decrypts, so that there may be more although the socket is not ready.
    pub const fn is_encrypted(&self) -> bool {
        matches!(self.socket, Socket::Tls(_))
    }

    /// Sends what the kernel takes; returns whether something is left.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub fn flush(&mut self) -> Result<bool, String> {
        while self.sent < self.output.len() {
            match self.socket.send(&self.output[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.sent > self.output.len() / 2 {
                        self.output.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        self.forget_output();
        self.output.shrink_to(OUTPUT_BYTES_KEPT);
        self.socket.flush().map_err(|error| broken(&error))
    }

    /// Gives up what is not sent.
    pub fn forget_output(&mut self) {
        self.output.clear();
        self.sent = 0;
    }

    /// Receives once; returns how many bytes, and whether there may be more.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub fn receive(&mut self) -> Result<(usize, bool), String> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = self.input.len() - self.end;
        match self.socket.receive(&mut self.input[self.end..]) {
            Ok(0) => Err(CLOSED.to_owned()),
            Ok(received) => {
                self.end += received;
                Ok((received, received == room))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok((0, false))
            }
            Err(error) => Err(broken(&error)),
        }
    }

    /// Returns the bytes that are not understood yet.
    #[inline]
    pub fn input(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Removes understood input.
    #[inline]
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Returns whether there is no room for more input.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.end - self.start == self.input.len()
    }
}

impl AsFd for BufferedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
