//! TLS of one connection, between its stream and its plain bytes.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::ByteStream;
use crate::limits::{TLS_OUTPUT_BYTES_MAX, TLS_READS_MAX};

/// Shorter pieces of output leave together: a handshake's flight has many.
const GATHER_BYTES: usize = 4096;

/// The server's side of TLS over a stream.
///
/// Decrypted input may wait inside, where no poller sees it ([`ByteStream::holds_input`]), and so may
/// encrypted output that the peer does not read ([`ByteStream::holds_output`]). Both are bounded:
/// [`crate::limits`].
#[derive(Debug)]
pub struct Tls<S: ByteStream> {
    stream: S,
    connection: ServerConnection,
    input: Input,
    /// The violation of the protocol, if there was one.
    violation: Option<rustls::Error>,
    /// Decrypted bytes that were not read yet.
    plaintext_bytes: usize,
}

/// State of the peer's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// The peer sends no more.
    Ended,
    /// The peer violated the protocol, or the stream is broken.
    Failed(ErrorKind),
}

/// State of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPhase {
    /// The handshake is in progress.
    Handshake,
    /// Bytes flow.
    Open {
        /// The session is a resumed one.
        resumed: bool,
    },
    /// The peer violated the protocol after the handshake.
    Failed,
}

impl<S: ByteStream> Tls<S> {
    /// Starts TLS on a stream, before the peer's hello.
    ///
    /// # Errors
    /// The configuration is unusable. One from [`load()`](super::load()) is usable.
    pub fn new(stream: S, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Ok(Self { stream, connection, input: Input::Open, violation: None, plaintext_bytes: 0 })
    }

    /// Returns the stream below.
    #[inline]
    pub fn inner(&self) -> &S {
        &self.stream
    }

    /// Returns the state of the connection.
    #[inline]
    pub fn phase(&self) -> TlsPhase {
        if self.connection.is_handshaking() {
            return TlsPhase::Handshake;
        }
        match self.input {
            Input::Failed(ErrorKind::InvalidData) => TlsPhase::Failed,
            _ => TlsPhase::Open { resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed) },
        }
    }

    /// Returns how the peer violated the protocol.
    pub fn violation(&self) -> Option<&rustls::Error> {
        self.violation.as_ref()
    }

    /// Queues the closing alert, unless another alert has ended the session or it has not begun.
    fn queue_closing_alert(&mut self) {
        if !self.connection.is_handshaking() && !matches!(self.input, Input::Failed(_)) {
            self.connection.send_close_notify();
        }
    }

    /// Reads decrypted bytes; returns how many.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < into.len() {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(bytes @ 1..) => filled += bytes,
                // The end, or nothing yet: `input` tells which.
                Ok(0) | Err(_) => break,
            }
        }
        self.plaintext_bytes = self.plaintext_bytes.saturating_sub(filled);
        filled
    }

    /// Receives once and decrypts. Returns whether more may be available.
    fn receive(&mut self) -> bool {
        let mut wire = Wire { stream: &mut self.stream, short: false };
        let received = self.connection.read_tls(&mut wire);
        let short = wire.short;
        match received {
            Ok(0) => self.input = Input::Ended,
            Ok(_) => self.process(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => self.input = Input::Failed(error.kind()),
        }
        self.input == Input::Open && !short
    }

    fn process(&mut self) {
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.plaintext_bytes = state.plaintext_bytes_to_read();
                if state.peer_has_closed() {
                    self.input = Input::Ended;
                }
            }
            Err(violation) => {
                self.input = Input::Failed(ErrorKind::InvalidData);
                self.violation = Some(violation);
            }
        }
        // Sends steps of the handshake, or the alert that names the error. The rest is held.
        if self.connection.wants_write()
            && let Err(error) = self.flush()
            && error.kind() != ErrorKind::WouldBlock
            && self.input == Input::Open
        {
            self.input = Input::Failed(error.kind());
        }
    }
}

impl<S: ByteStream> ByteStream for Tls<S> {
    /// Fills `into` with available input. A short read means that all was read.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take(into);
        let mut more = self.input == Input::Open;
        // Records may be empty. A peer that sends many of them has to wait for further turns.
        for _ in 0..TLS_READS_MAX {
            if !more || filled == into.len() {
                break;
            }
            more = self.receive();
            filled += self.take(&mut into[filled..]);
        }
        match self.input {
            _ if filled > 0 || into.is_empty() => Ok(filled),
            Input::Open => Err(ErrorKind::WouldBlock.into()),
            Input::Ended => Ok(0),
            Input::Failed(kind) => Err(kind.into()),
        }
    }

    /// Encrypts, and sends as much as the peer accepts. Some bytes that count as sent may still be
    /// held.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Input::Failed(kind) = self.input {
            return Err(kind.into());
        }
        // The peer speaks first, so nothing is sent before the end of the handshake.
        if self.connection.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.flush()?;
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.connection.writer().write(&bytes[sent..])?;
            match self.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Sends the closing alert before the end.
    fn end_output(&mut self) -> io::Result<()> {
        self.queue_closing_alert();
        self.flush()?;
        self.stream.end_output()
    }

    /// Decrypts nothing.
    fn discard(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        self.stream.discard(scratch)
    }

    fn holds_input(&self) -> bool {
        // The end, and a failure, show only when the caller reads on.
        self.input != Input::Open || self.plaintext_bytes > 0 || self.stream.holds_input()
    }

    fn holds_output(&self) -> bool {
        self.connection.wants_write() || self.stream.holds_output()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            let mut wire = Wire { stream: &mut self.stream, short: false };
            self.connection.write_tls(&mut wire)?;
        }
        self.stream.flush()
    }
}

impl<S: ByteStream> Drop for Tls<S> {
    /// Sends the closing alert, if the peer accepts it.
    fn drop(&mut self) {
        self.queue_closing_alert();
        let _ = self.flush();
    }
}

/// Adapts the stream to the TLS library.
struct Wire<'s, S> {
    stream: &'s mut S,
    /// The last read returned all available bytes.
    short: bool,
}

impl<S: ByteStream> Read for Wire<'_, S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.stream.recv(into)?;
        self.short = bytes < into.len();
        Ok(bytes)
    }
}

impl<S: ByteStream> Write for Wire<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let first = pieces.first().map_or(&[][..], |piece| piece);
        if pieces.len() < 2 || first.len() >= GATHER_BYTES {
            return self.stream.send(first);
        }
        let mut gathered = [0; GATHER_BYTES];
        let mut filled = 0;
        for piece in pieces {
            let taken = piece.len().min(GATHER_BYTES - filled);
            gathered[filled..filled + taken].copy_from_slice(&piece[..taken]);
            filled += taken;
        }
        self.stream.send(&gathered[..filled])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
