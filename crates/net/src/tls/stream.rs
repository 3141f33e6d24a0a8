//! One connection's TLS: between the bytes of the wire and those of the conversation.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use crate::ByteStream;
use crate::limits::{TLS_OUTPUT_BYTES_MAX, TLS_READS_MAX};

/// Pieces of output shorter than this leave together: a handshake's flight is many of them.
const GATHER_BYTES: usize = 4096;

/// TLS over a stream, the server's side.
///
/// What the peer has sent may wait in here, decrypted, where no poller sees it
/// ([`ByteStream::holds_input`]); so may what is encrypted and the peer does not take
/// ([`ByteStream::holds_output`]). Both are bounded: see [`crate::limits`].
#[derive(Debug)]
pub struct Tls<S: ByteStream> {
    stream: S,
    connection: ServerConnection,
    input: Input,
    /// Decrypted, and not taken yet.
    plaintext_bytes: usize,
}

/// What is to be expected of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// It sends no more.
    Ended,
    /// It does not speak TLS as it should, or the stream is broken.
    Failed(ErrorKind),
}

/// How far a TLS connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPhase {
    /// The handshake goes on.
    Handshake,
    /// Bytes flow.
    Open {
        /// The session is an earlier one that was taken up again.
        resumed: bool,
    },
    /// It broke the protocol after the handshake.
    Failed,
}

impl<S: ByteStream> Tls<S> {
    /// Begins on a stream whose peer is about to send its hello.
    ///
    /// # Errors
    /// The configuration cannot be used; one that [`load()`](super::load()) has made can.
    pub fn new(stream: S, config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Ok(Self {
            stream,
            connection,
            input: Input::Open,
            plaintext_bytes: 0,
        })
    }

    /// The stream below.
    #[inline]
    pub fn inner(&self) -> &S {
        &self.stream
    }

    /// How far it has come.
    #[inline]
    pub fn phase(&self) -> TlsPhase {
        if self.connection.is_handshaking() {
            return TlsPhase::Handshake;
        }
        match self.input {
            Input::Failed(ErrorKind::InvalidData) => TlsPhase::Failed,
            _ => TlsPhase::Open {
                resumed: self.connection.handshake_kind() == Some(HandshakeKind::Resumed),
            },
        }
    }

    /// Takes what is decrypted; returns how much of it there was.
    fn take(&mut self, into: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < into.len() {
            match self.connection.reader().read(&mut into[filled..]) {
                Ok(bytes @ 1..) => filled += bytes,
                // The end, or nothing yet: `input` knows.
                Ok(0) | Err(_) => break,
            }
        }
        self.plaintext_bytes = self.plaintext_bytes.saturating_sub(filled);
        filled
    }

    /// Receives once and decrypts. Returns whether more may be there.
    fn receive(&mut self) -> bool {
        let mut wire = Wire {
            stream: &mut self.stream,
            short: false,
        };
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
            Err(_) => self.input = Input::Failed(ErrorKind::InvalidData),
        }
        // Steps of the handshake, or the alert that says what is wrong. What does not leave now
        // is held.
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
    /// Fills `into` as far as the peer has sent something: a short read has taken all there was.
    fn recv(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.take(into);
        let mut more = self.input == Input::Open;
        // Records may be empty: whoever sends many of them gets other turns.
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

    /// Encrypts, and sends as much as the peer takes. What is returned as sent may be held yet.
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Input::Failed(kind) = self.input {
            return Err(kind.into());
        }
        // Nothing waits for the end of a handshake: the peer speaks first.
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

    fn holds_input(&self) -> bool {
        // The end is seen only by whoever reads on, and a failure too.
        self.input != Input::Open || self.plaintext_bytes > 0 || self.stream.holds_input()
    }

    fn holds_output(&self) -> bool {
        self.connection.wants_write() || self.stream.holds_output()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            let mut wire = Wire {
                stream: &mut self.stream,
                short: false,
            };
            self.connection.write_tls(&mut wire)?;
        }
        self.stream.flush()
    }
}

impl<S: ByteStream> Drop for Tls<S> {
    /// Says goodbye, if the peer takes it.
    fn drop(&mut self) {
        if !self.connection.is_handshaking() && !matches!(self.input, Input::Failed(_)) {
            self.connection.send_close_notify();
        }
        let _ = self.flush();
    }
}

/// The stream as the TLS library wants to see it.
struct Wire<'s, S> {
    stream: &'s mut S,
    /// The last read has taken all there was.
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
